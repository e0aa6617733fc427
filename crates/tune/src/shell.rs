// SPDX-License-Identifier: GPL-2.0-only
//! What to type for a setting: first to look at it, then on the host.

use steelyard_advise::{Change, Toolstack, commands, quoted};
use steelyard_policy::Policy;
use steelyard_scenario::key_part;
use steelyard_simulator::config::Setup;
use steelyard_simulator::units::Nanoseconds;

use crate::Question;

/// Simulates the setting again, beside the host as it is.
pub fn compare(question: &Question, (setup, policy): &(Setup, Policy)) -> String {
    let mut line = format!("steelyard compare {}", quoted(question.input));
    line += &format!(" --policy {policy}");
    for (name, value) in parameters(policy) {
        line += &format!(" --set {name}={value}");
    }
    if setup.host.others != question.setup.host.others {
        line += " --set 'host.others=\"beside\"'";
    }
    for (then, now) in setup.domains.iter().zip(&question.setup.domains) {
        let mut set = |key: &str, value: String| {
            let setting = format!("domain.{}.{key}={value}", key_part(&now.name));
            line += &format!(" --set {}", quoted(&setting));
        };
        if then.weight != now.weight {
            set("weight", then.weight.to_string());
        }
        if then.cap_percent != now.cap_percent {
            set("cap_percent", then.cap_percent.to_string());
        }
        if let Some(slice) = then.slice.filter(|_| then.slice != now.slice) {
            set("slice", slice.to_string());
        }
    }
    line
}

/// Makes the changes on the host.
pub fn on_the_host(question: &Question, (setup, policy): &(Setup, Policy)) -> Vec<String> {
    let ask = |policy| steelyard_advise::Question {
        setup: question.setup,
        policy,
        label: question.label,
        toolstack: question.toolstack,
        recorded: None,
    };
    let mut lines = vec![];
    // Who administers domains by `xl` has to know by which name: our own scheduler goes by credit2's.
    let credit2 = Policy::named("credit2").unwrap_or_else(|_| policy.clone());
    let mut asked = ask(question.policy);
    if policy.parameters() != question.policy.parameters() {
        match stock(question.toolstack, question.policy, policy) {
            Some(change) => {
                asked = ask(policy);
                lines.extend(commands(&asked, &change));
            }
            None => {
                asked = ask(&credit2);
                lines.push(own(question.toolstack, policy));
            }
        }
    }
    for (domain, (then, now)) in setup.domains.iter().zip(&question.setup.domains).enumerate() {
        let mut make = |change| lines.extend(commands(&asked, &change));
        if then.weight != now.weight {
            make(Change::Weight { domain, was: now.weight, weight: then.weight });
        }
        if then.cap_percent != now.cap_percent {
            make(Change::Cap { domain, cap_percent: then.cap_percent });
        }
        if let Some(slice) = then.slice.filter(|_| then.slice != now.slice) {
            make(Change::Slice { domain, slice });
        }
    }
    lines
}

/// Another scheduler or parameter that a stock host has a command for: on Xen its own, of both the slice.
pub fn stock(toolstack: Toolstack, now: &Policy, then: &Policy) -> Option<Change> {
    let name = then.discipline().name;
    let newest = Policy::named(name).ok()?;
    if toolstack == Toolstack::Xl
        && ["credit", "credit2"].contains(&name)
        && then.parameters() == newest.parameters()
    {
        return Some(Change::Scheduler { policy: name.to_owned() });
    }
    let parameter = match name {
        "credit" => "slice_ns",
        "fair" => "base_slice_ns",
        _ => return None,
    };
    let mut asked = now.clone();
    let value = then.value(parameter)?;
    asked.set(parameter, &value.to_string()).ok()?;
    let plain = now.governors().next().is_none();
    let slice = Nanoseconds(value);
    (plain && asked.parameters() == then.parameters())
        .then_some(Change::HostSlice { parameter, slice })
}

/// The policy by this project's own schedulers.
fn own(toolstack: Toolstack, policy: &Policy) -> String {
    let set: Vec<String> =
        parameters(policy).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    match toolstack {
        Toolstack::Libvirt => {
            let set: String = set.iter().map(|set| format!(" --set {set}")).collect();
            format!("steelyard kvm run --policy {policy}{set}")
        }
        Toolstack::Xl => {
            let of_discipline = format!("{}.", policy.discipline().name);
            // There the discipline's own parameters have plain names.
            let names = set.iter().map(|set| set.strip_prefix(&of_discipline).unwrap_or(set));
            let set = names.collect::<Vec<_>>().join(",");
            let set = if set.is_empty() { set } else { format!(" steelyard_params={set}") };
            format!("# Xen's boot options: sched=steelyard steelyard_policy={policy}{set}")
        }
    }
}

/// Parameters that are not as the policy's name says, as `--set` takes them.
fn parameters(policy: &Policy) -> Vec<(String, String)> {
    let Ok(named) = Policy::named(&policy.to_string()) else { return vec![] };
    let differ = policy.values().filter(|(name, _, value)| named.value(name) != Some(*value));
    let discipline = policy.discipline().name;
    let full = |name: String| match name.contains('.') {
        true => name,
        false => format!("{discipline}.{name}"),
    };
    differ.map(|(name, known, value)| (full(name), known.format(value))).collect()
}

#[cfg(test)]
mod tests {
    use steelyard_simulator::config::{Domain, Host};

    use super::*;

    /// What is typed on a host with the one scheduler to have the other, and another weight.
    fn typed(now: &str, then: &str, set: &[(&str, &str)]) -> (String, Vec<String>) {
        let named = |name: &str| Policy::named(name).unwrap();
        let setup = Setup { host: Host::with_pcpus(1), domains: vec![Domain::new("a b", 1)] };
        let (now, mut then) = (named(now), named(then));
        set.iter().for_each(|(name, value)| then.set(name, value).unwrap());
        let mut changed = setup.clone();
        changed.domains[0].weight = 512;
        let question = Question { input: "a host.toml", ..Question::about(&setup, &now) };
        let host = (changed, then);
        (compare(&question, &host), on_the_host(&question, &host))
    }

    #[test]
    fn stock_hosts_have_commands_of_their_own() {
        let weight = "virsh schedinfo 'a b' --live --config cpu_shares=200";
        let (line, commands) = typed("fair", "fair", &[("base_slice_ns", "1000000")]);
        assert_eq!(
            line,
            "steelyard compare 'a host.toml' --policy fair@eevdf --set fair.base_slice_ns=1000000 \
             --set 'domain.a b.weight=512'"
        );
        assert_eq!(commands, ["echo 1000000 > /sys/kernel/debug/sched/base_slice_ns", weight]);
        assert_eq!(typed("fair", "fair", &[]).1, [weight]);
        let set = [("app-slice.windows", "2"), ("slice_ns", "5000000")];
        assert_eq!(
            typed("fair", "credit+app-slice", &set).1,
            [
                "steelyard kvm run --policy credit@xen-4.20+app-slice \
                 --set credit.slice_ns=5000000 --set app-slice.windows=2",
                weight
            ]
        );
    }

    #[test]
    fn on_xen_whoever_schedules_has_its_name() {
        let weight = |scheduler: &str| format!("xl {scheduler} -d 'a b' -w 512");
        assert_eq!(typed("credit", "credit", &[]).1, [weight("sched-credit")]);
        assert_eq!(
            typed("credit", "credit2", &[]).1,
            ["# Xen's boot options, then boot anew: sched=credit2", &weight("sched-credit2")]
        );
        assert_eq!(
            typed("credit", "credit@xen-4.2", &[("slice_ns", "5000000")]).1,
            [
                "# Xen's boot options: sched=steelyard steelyard_policy=credit@xen-4.2 \
                 steelyard_params=slice_ns=5000000",
                &weight("sched-credit2")
            ]
        );
    }
}
