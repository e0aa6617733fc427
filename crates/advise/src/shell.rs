// SPDX-License-Identifier: GPL-2.0-only
//! What to type on the host for a change.

use steelyard_recording::weight::{Scale, USUAL};
use steelyard_simulator::config::Domain;

use crate::{Change, Question};

/// By what the VMs of a host are administered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toolstack {
    /// Linux with KVM: virsh.
    Libvirt,
    /// Xen: xl.
    Xl,
}

impl Toolstack {
    /// That of hosts with schedulers of this discipline.
    pub fn of(discipline: &str) -> Toolstack {
        if discipline == "fair" { Toolstack::Libvirt } else { Toolstack::Xl }
    }
}

/// What libvirt calls cpu_shares, of control groups of version 2; the nearest that there is.
fn cpu_shares(weight: u32) -> u64 {
    let (_, least, most) = Scale::Group.figures();
    let nearest = Scale::Group.of_weight(weight);
    nearest.unwrap_or(if u64::from(weight) < USUAL { least } else { most })
}

/// libvirt's global_period.
const PERIOD_US: u32 = 100_000;

/// A name as a shell takes it.
pub fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+/=@:,%".contains(c);
    if !name.is_empty() && !name.starts_with('-') && name.chars().all(plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', r"'\''"))
}

/// The commands that make a change, one a line.
pub fn commands(question: &Question, change: &Change) -> Vec<String> {
    match question.toolstack {
        Toolstack::Libvirt => libvirt(question, change),
        Toolstack::Xl => xl(question, change),
    }
}

fn libvirt(question: &Question, change: &Change) -> Vec<String> {
    let setup = question.setup;
    let name = |domain: &usize| quoted(&setup.domains[*domain].name);
    match change {
        Change::Scheduler { policy } => vec![format!("steelyard kvm run --policy {policy}")],
        Change::Weight { domain, weight, .. } => vec![format!(
            "virsh schedinfo {} --live --config cpu_shares={}",
            name(domain),
            cpu_shares(*weight)
        )],
        Change::Cap { domain, cap_percent } => {
            let quota = match cap_percent {
                0 => "-1".to_owned(),
                percent => (percent * (PERIOD_US / 100)).to_string(),
            };
            let domain = name(domain);
            vec![format!(
                "virsh schedinfo {domain} --live --config global_period={PERIOD_US} global_quota={quota}"
            )]
        }
        Change::Unpin { domain } => {
            let all = format!("0-{}", setup.host.pcpus() - 1);
            let vcpus = 0..setup.domains[*domain].vcpus;
            let pin = |vcpu| format!("virsh vcpupin {} {vcpu} {all} --live --config", name(domain));
            vcpus.map(pin).collect()
        }
        Change::Slice { domain, slice } => vec![format!(
            "chrt --other --sched-runtime {} --all-tasks --pid 0 $(pgrep -f {})",
            slice.0,
            quoted(&format!("guest={},", setup.domains[*domain].name))
        )],
        Change::HostSlice { slice, .. } => {
            vec![format!("echo {} > /sys/kernel/debug/sched/base_slice_ns", slice.0)]
        }
        Change::Vcpus { domain, vcpus } => {
            vec![format!("virsh setvcpus {} {vcpus} --live --config", name(domain))]
        }
    }
}

fn xl(question: &Question, change: &Change) -> Vec<String> {
    let setup = question.setup;
    let discipline = question.policy.discipline().name;
    let plain = question.policy.governors().next().is_none();
    // For the toolstack our own scheduler is credit2.
    let scheduler = if discipline == "credit" && plain { "sched-credit" } else { "sched-credit2" };
    let name = |domain: &usize| quoted(&setup.domains[*domain].name);
    match change {
        Change::Scheduler { policy } if ["credit", "credit2"].contains(&policy.as_str()) => {
            vec![format!("# Xen's boot options, then boot anew: sched={policy}")]
        }
        Change::Scheduler { policy } => vec![format!(
            "# boot options of Steelyard's Xen, then boot anew: sched=steelyard steelyard_policy={policy}"
        )],
        Change::Weight { domain, weight, .. } => {
            vec![format!("xl {scheduler} -d {} -w {weight}", name(domain))]
        }
        Change::Cap { domain, cap_percent } => {
            vec![format!("xl {scheduler} -d {} -c {cap_percent}", name(domain))]
        }
        Change::Unpin { domain } => vec![format!("xl vcpu-pin {} all all all", name(domain))],
        Change::Slice { domain, slice } => {
            let Domain { name, .. } = &setup.domains[*domain];
            let setting = format!("$(xl domid {}) slice_ns={}", quoted(name), slice.0);
            vec![format!("xenhypfs write /steelyard/domains \"{setting}\"")]
        }
        Change::HostSlice { slice, .. } => {
            vec![format!("xl sched-credit -s -t {}", slice.0.div_ceil(1_000_000))]
        }
        Change::Vcpus { domain, vcpus } => vec![format!("xl vcpu-set {} {vcpus}", name(domain))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_are_no_commands() {
        assert_eq!(quoted("web-1.example"), "web-1.example");
        assert_eq!(quoted("hosts/a.toml"), "hosts/a.toml");
        assert_eq!(quoted("a=~b"), "'a=~b'");
        assert_eq!(quoted("-rf"), "'-rf'");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("x';reboot;'"), r"'x'\'';reboot;'\'''");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn weights_are_those_of_control_groups_as_far_as_those_go() {
        assert_eq!([1, 256, 512, 65_535].map(cpu_shares), [1, 100, 200, 10_000]);
    }
}
