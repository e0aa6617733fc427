// SPDX-License-Identifier: GPL-2.0-only
//! What may be changed on a host, and within what range: dimensions of the search, from what policies and settings say
//! of themselves. A [`Setting`] is the changes that it makes to the host as it is.

use std::collections::BTreeMap;

use steelyard_advise::Toolstack;
use steelyard_policy::{Parameter, Policy, disciplines, governors, published};
use steelyard_simulator::config::{Others, Setup};
use steelyard_simulator::limits;
use steelyard_simulator::units::Nanoseconds;

use crate::shell::stock;
use crate::{Question, Vary};

/// Parameters, weights and slices are varied by up to this factor, up and down, as far as their own limits allow.
const FACTOR: u64 = 16;
/// Slices that domains ask for: what Linux makes of any (kernel/sched/syscalls.c, `__setparam_fair`).
const SLICES_NS: (u64, u64) = (100_000, 100_000_000);
/// The smallest cap that is tried, in percent of a pCPU.
const LEAST_CAP_PERCENT: u64 = 10;

/// Changes to the host as it is: value by number of the dimension. Two that do the same are equal once they are
/// [`Space::tidy`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Setting(pub(crate) BTreeMap<usize, u64>);

/// Something that may be changed.
#[derive(Clone, Debug)]
pub struct Dimension {
    /// As results call it; names of domains in it are others' text.
    pub name: String,
    /// What belongs to what somebody asked to vary.
    pub vary: Vary,
    knob: Knob,
    /// Which values it has.
    pub values: Values,
}

#[derive(Clone, Debug)]
enum Knob {
    Base,
    /// By its name.
    Governor(&'static str),
    /// Of whom, and the name that a policy knows it by.
    Parameter {
        owner: &'static str,
        name: String,
    },
    Weight(usize),
    Cap(usize),
    Slice(usize),
}

/// The values of a dimension.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Names, by their number.
    Choices(Vec<String>),
    /// Numbers of which factors count; both ends are included, the least is at least 1.
    Numbers {
        /// The least.
        least: u64,
        /// The greatest.
        most: u64,
    },
}

/// All that may be changed.
#[derive(Clone, Debug)]
pub struct Space<'a> {
    setup: &'a Setup,
    toolstack: Toolstack,
    /// The first is what the host has.
    bases: Vec<Policy>,
    pub dimensions: Vec<Dimension>,
}

impl<'a> Space<'a> {
    pub fn new(question: &Question<'a>) -> Space<'a> {
        let vary = |what: Vary| question.vary.contains(&what);
        let mut bases = vec![question.policy.clone()];
        let mut dimensions = vec![];
        let mut add = |name: String, vary, knob, values| {
            dimensions.push(Dimension { name, vary, knob, values });
        };
        if vary(Vary::Policy) {
            match question.policies.is_empty() {
                true => bases.extend(vintages().filter(|it| heeds(it, question))),
                false => bases.extend(question.policies.iter().cloned()),
            }
            let mut kept: Vec<Policy> = vec![];
            bases.retain(|base| {
                let new = kept.iter().all(|other| other.parameters() != base.parameters());
                kept.extend(new.then(|| base.clone()));
                new
            });
            let names = bases.iter().map(ToString::to_string).collect();
            add("policy".to_owned(), Vary::Policy, Knob::Base, Values::Choices(names));
            // Whoever names policies wants those.
            for governor in governors().iter().filter(|_| question.policies.is_empty()) {
                let values = Values::Choices(vec!["off".to_owned(), "on".to_owned()]);
                let name = format!("+{}", governor.name);
                add(name, Vary::Policy, Knob::Governor(governor.name), values);
            }
        }
        if vary(Vary::Parameters) {
            for (owner, name, parameter) in parameters() {
                let values = of_parameter(parameter);
                let shown = format!("{owner}.{}", parameter.name);
                add(shown, Vary::Parameters, Knob::Parameter { owner, name }, values);
            }
        }
        let domains = question.setup.domains.iter().enumerate();
        // Nobody has commands for what is no virtual machine.
        for (index, domain) in domains.filter(|(_, domain)| domain.is_vm()) {
            let name = |what: &str| format!("domain.{}.{what}", domain.name);
            if vary(Vary::Weight) {
                let values =
                    around(domain.weight.into(), limits::WEIGHT.least, limits::WEIGHT.most);
                add(name("weight"), Vary::Weight, Knob::Weight(index), values);
            }
            if vary(Vary::Cap) {
                let most = 100 * u64::from(domain.vcpus.min(question.setup.host.pcpus()));
                let values = Values::Numbers { least: LEAST_CAP_PERCENT, most };
                add(name("cap_percent"), Vary::Cap, Knob::Cap(index), values);
            }
            if vary(Vary::Slice) {
                let (least, most) = SLICES_NS;
                let values = Values::Numbers { least, most };
                add(name("slice"), Vary::Slice, Knob::Slice(index), values);
            }
        }
        Space { setup: question.setup, toolstack: question.toolstack, bases, dimensions }
    }

    /// The host with these changes; those that have no meaning there do nothing.
    pub fn host(&self, setting: &Setting) -> (Setup, Policy) {
        let (mut setup, mut policy) = (self.setup.clone(), self.policy_without(setting));
        for (&dimension, &value) in &setting.0 {
            match &self.dimensions[dimension].knob {
                Knob::Base | Knob::Governor(_) => {}
                Knob::Parameter { owner, name } if has(&policy, owner) => {
                    // In range, since dimensions are.
                    let _ = policy.set(name, &value.to_string());
                }
                Knob::Parameter { .. } => {}
                Knob::Weight(domain) => setup.domains[*domain].weight = value as u32,
                Knob::Cap(domain) => {
                    setup.domains[*domain].cap_percent = self.cap(dimension, value);
                }
                Knob::Slice(domain) => setup.domains[*domain].slice = Some(Nanoseconds(value)),
            }
        }
        // What `steelyard kvm run` schedules has tasks of the host beside it, whatever the policy.
        if self.toolstack == Toolstack::Libvirt
            && policy.parameters() != self.bases[0].parameters()
            && stock(self.toolstack, &self.bases[0], &policy).is_none()
        {
            setup.host.others = setup.host.others.or(Some(Others::Beside));
        }
        (setup, policy)
    }

    /// A cap as high as can be is none.
    fn cap(&self, dimension: usize, value: u64) -> u32 {
        match self.dimensions[dimension].values {
            Values::Numbers { most, .. } if value < most => value as u32,
            _ => 0,
        }
    }

    /// Base and governors.
    fn policy_without(&self, setting: &Setting) -> Policy {
        let changed = |wanted: &dyn Fn(&Knob) -> bool| {
            let mut changes = setting.0.iter();
            changes
                .find(|(dimension, _)| wanted(&self.dimensions[**dimension].knob))
                .map(|it| *it.1)
        };
        let base = changed(&|knob| matches!(knob, Knob::Base)).unwrap_or(0) as usize;
        let base = self.bases.get(base).unwrap_or(&self.bases[0]);
        let suits = |name: &str| {
            let mut suiting = governors().iter().filter(|it| it.name == name);
            suiting.any(|it| it.disciplines.contains(&base.discipline().name))
        };
        let mut working: Vec<&str> = base.governors().map(|governor| governor.name).collect();
        for governor in governors().iter().map(|governor| governor.name) {
            match changed(&|knob| matches!(knob, Knob::Governor(name) if *name == governor)) {
                Some(0) => working.retain(|name| *name != governor),
                Some(_) if suits(governor) && !working.contains(&governor) => {
                    working.push(governor)
                }
                _ => {}
            }
        }
        if base.governors().map(|governor| governor.name).eq(working.iter().copied()) {
            return base.clone();
        }
        let name = [&format!("{}@{}", base.discipline().name, base.vintage())[..]];
        let name = name.into_iter().chain(working).collect::<Vec<_>>().join("+");
        let Ok(mut policy) = Policy::named(&name) else { return base.clone() };
        for (name, parameter, value) in base.values() {
            // Those of a governor that is no longer there it has not.
            let _ = policy.set(&name, &parameter.format(value));
        }
        policy
    }

    /// The value that a dimension has with this setting, which makes this host, if it has a meaning there and the
    /// value is in its range.
    pub fn value(
        &self,
        dimension: usize,
        setting: &Setting,
        (setup, policy): &(Setup, Policy),
    ) -> Option<u64> {
        let Dimension { knob, values, .. } = &self.dimensions[dimension];
        let value = match knob {
            Knob::Base => setting.0.get(&dimension).copied().unwrap_or(0),
            Knob::Governor(name) => {
                let suiting = governors().iter().find(|governor| governor.name == *name)?;
                let suits = suiting.disciplines.contains(&policy.discipline().name);
                suits.then(|| u64::from(has(policy, name)))?
            }
            Knob::Parameter { owner, name } => {
                has(policy, owner).then(|| policy.value(name)).flatten()?
            }
            Knob::Weight(domain) => setup.domains[*domain].weight.into(),
            Knob::Cap(domain) => match (setup.domains[*domain].cap_percent, values) {
                (0, Values::Numbers { most, .. }) => *most,
                (cap, _) => cap.into(),
            },
            Knob::Slice(domain) => setup.domains[*domain].slice?.0,
        };
        values.contains(value).then_some(value)
    }

    /// Whether a change of this dimension would do something on this host.
    pub fn has_meaning(&self, dimension: usize, policy: &Policy) -> bool {
        match &self.dimensions[dimension].knob {
            Knob::Parameter { owner, .. } => has(policy, owner),
            Knob::Governor(name) => governors().iter().any(|governor| {
                governor.name == *name && governor.disciplines.contains(&policy.discipline().name)
            }),
            Knob::Base => self.bases.len() > 1,
            Knob::Weight(_) | Knob::Cap(_) | Knob::Slice(_) => true,
        }
    }

    /// The same without changes that do nothing.
    pub fn tidy(&self, setting: &Setting) -> Setting {
        let mut tidy = setting.clone();
        for &dimension in setting.0.keys() {
            let mut without = tidy.clone();
            without.0.remove(&dimension);
            if self.host(&without) == self.host(&tidy) {
                tidy = without;
            }
        }
        tidy
    }

    /// Settings to begin with: every policy as it comes, and each newest one with each governor that suits it.
    pub fn beginning(&self) -> Vec<Setting> {
        let mut settings = vec![Setting::default()];
        let numbered = || self.dimensions.iter().enumerate();
        let Some(base) = numbered().find(|(_, it)| matches!(it.knob, Knob::Base)) else {
            return settings;
        };
        let bases = 0..self.bases.len() as u64;
        settings.extend(bases.clone().map(|number| Setting([(base.0, number)].into())));
        for number in bases {
            let newest = self.bases[number as usize].discipline().vintages.last();
            if newest != Some(&self.bases[number as usize].vintage()) {
                continue;
            }
            for (governor, _) in numbered().filter(|(_, it)| matches!(it.knob, Knob::Governor(_))) {
                settings.push(Setting([(base.0, number), (governor, 1)].into()));
            }
        }
        let bases = &self.bases;
        for (_, spelled) in published() {
            let Ok(policy) = Policy::named(spelled) else { continue };
            let plain = |it: &Policy| {
                it.governors().next().is_none()
                    && it.vintage() == policy.vintage()
                    && it.discipline().name == policy.discipline().name
            };
            let Some(number) = bases.iter().position(plain) else { continue };
            let mut setting = Setting([(base.0, number as u64)].into());
            for (dimension, it) in numbered() {
                if let Knob::Governor(name) = it.knob
                    && has(&policy, name)
                {
                    setting.0.insert(dimension, 1);
                }
            }
            settings.push(setting);
        }
        let mut tidy: Vec<Setting> = vec![];
        for setting in settings {
            let setting = self.tidy(&setting);
            if !tidy.contains(&setting) {
                tidy.push(setting);
            }
        }
        tidy
    }

    /// A value as people write it.
    pub fn format(&self, dimension: usize, value: u64) -> String {
        let Dimension { knob, values, .. } = &self.dimensions[dimension];
        match (knob, values) {
            (_, Values::Choices(names)) => {
                names.get(value as usize).cloned().unwrap_or_else(|| value.to_string())
            }
            (Knob::Cap(_), _) => self.cap(dimension, value).to_string(),
            (Knob::Slice(_), _) => Nanoseconds(value).to_string(),
            _ => value.to_string(),
        }
    }

    /// The changes by name, as files keep them.
    pub fn written(&self, setting: &Setting) -> BTreeMap<String, String> {
        let changes = setting.0.iter();
        let written = changes
            .map(|(&dimension, &value)| (&self.dimensions[dimension], dimension, value))
            .map(|(known, dimension, value)| (known.name.clone(), self.format(dimension, value)));
        written.collect()
    }
}

impl Values {
    fn contains(&self, value: u64) -> bool {
        match self {
            Values::Choices(names) => value < names.len() as u64,
            Values::Numbers { least, most } => (*least..=*most).contains(&value),
        }
    }
}

/// Every vintage of every discipline.
fn vintages() -> impl Iterator<Item = Policy> {
    let names = disciplines().iter().flat_map(|discipline| {
        discipline.vintages.iter().map(|vintage| format!("{}@{vintage}", discipline.name))
    });
    names.filter_map(|name| Policy::named(&name).ok())
}

/// Whether a policy heeds what the host's heeds, as far as domains have that: a cap that nothing needs today may be needed
/// tomorrow.
fn heeds(policy: &Policy, question: &Question) -> bool {
    let now = &question.policy;
    let domains = &question.setup.domains;
    let capped = domains.iter().any(|domain| domain.cap_percent > 0);
    let reserved = domains.iter().any(|domain| domain.sedf.is_some());
    (!capped || policy.has_caps() || !now.has_caps())
        && (!reserved || policy.reserves() || !now.reserves())
}

/// Every parameter that there is: whose, by what name policies know it, and what it says of itself.
fn parameters() -> impl Iterator<Item = (&'static str, String, &'static Parameter)> {
    let own = disciplines().iter().flat_map(|it| {
        it.parameters.iter().map(|parameter| (it.name, parameter.name.to_owned(), parameter))
    });
    own.chain(governors().iter().flat_map(|it| {
        let name = |parameter: &Parameter| format!("{}.{}", it.name, parameter.name);
        it.parameters.iter().map(move |parameter| (it.name, name(parameter), parameter))
    }))
}

/// Whether the policy is of this discipline or has this governor.
fn has(policy: &Policy, name: &str) -> bool {
    policy.discipline().name == name || policy.governors().any(|governor| governor.name == name)
}

fn of_parameter(parameter: &Parameter) -> Values {
    if let Some(choices) = parameter.choices() {
        return Values::Choices(choices.map(str::to_owned).collect());
    }
    let usual = parameter.defaults.iter().copied().max().unwrap_or(0);
    let (least, most) = (parameter.minimum.max(1), parameter.maximum.max(1));
    // What no vintage has: in the middle of what is allowed, by factors.
    let middle = || ((least as f64).sqrt() * (most as f64).sqrt()) as u64;
    around(if usual > 0 { usual } else { middle() }, least, most)
}

fn around(usual: u64, least: u64, most: u64) -> Values {
    let least = least.max(usual / FACTOR).max(1);
    Values::Numbers { least, most: most.min(usual.saturating_mul(FACTOR)).max(least) }
}

#[cfg(test)]
mod tests {
    use steelyard_simulator::config::{Domain, Host};

    use super::*;

    fn setup() -> Setup {
        let mut capped = Domain::new("capped", 2);
        capped.cap_percent = 50;
        Setup { host: Host::with_pcpus(2), domains: vec![Domain::new("plain", 1), capped] }
    }

    fn with_space<T>(policy: &str, policies: &[Policy], test: impl FnOnce(&Space) -> T) -> T {
        let (setup, policy) = (setup(), Policy::named(policy).unwrap());
        let vary = Vary::ALL.map(|(_, vary)| vary);
        test(&Space::new(&Question { vary: &vary, policies, ..Question::about(&setup, &policy) }))
    }

    fn ends(values: &Values) -> [u64; 2] {
        match values {
            Values::Choices(names) => [0, names.len() as u64 - 1],
            Values::Numbers { least, most } => [*least, *most],
        }
    }

    #[test]
    fn every_value_in_range_is_taken() {
        with_space("credit", &[], |space| {
            let mut taken = 0;
            for base in space.beginning() {
                for (number, dimension) in space.dimensions.iter().enumerate() {
                    for value in ends(&dimension.values) {
                        let mut setting = base.clone();
                        setting.0.insert(number, value);
                        let host = space.host(&setting);
                        if space.has_meaning(number, &host.1) {
                            assert_eq!(
                                space.value(number, &setting, &host),
                                Some(value),
                                "{} {value} under {}",
                                dimension.name,
                                host.1
                            );
                            taken += 1;
                        }
                        let tidy = space.tidy(&setting);
                        assert_eq!(space.host(&tidy), host);
                        assert_eq!(space.tidy(&tidy), tidy);
                        host.0.validate().unwrap();
                    }
                }
            }
            assert!(taken > 1000, "{taken}");
        });
    }

    #[test]
    fn all_policies_are_there_to_begin_with() {
        with_space("credit2", &[], |space| {
            let names = space.beginning();
            let names: Vec<_> = names.iter().map(|it| space.host(it).1.to_string()).collect();
            assert_eq!(names[0], "credit2@xen-4.20");
            for name in ["sedf@xen-4.2", "fair@eevdf", "credit2@xen-4.20+reset-boost"] {
                assert!(names.iter().any(|it| it == name), "{names:?}");
            }
            // As published: an old base, and its governor.
            assert!(names.iter().any(|it| it == "credit@xen-4.2+app-slice"), "{names:?}");
            // There is a cap, which these know nothing of.
            for name in ["credit2@xen-4.5", "fair@cfs"] {
                assert!(!names.iter().any(|it| it.starts_with(name)), "{names:?}");
            }
            let mut unique = names.clone();
            unique.sort();
            unique.dedup();
            assert_eq!(unique.len(), names.len());
        });
    }

    #[test]
    fn named_policies_are_all_there_are() {
        let named = [Policy::named("credit2+app-slice").unwrap()];
        with_space("credit", &named, |space| {
            let names = space.beginning();
            let names: Vec<_> = names.iter().map(|it| space.host(it).1.to_string()).collect();
            assert_eq!(names, ["credit@xen-4.20", "credit2@xen-4.20+app-slice"]);
        });
    }

    #[test]
    fn what_a_host_has_set_stays_set() {
        let (setup, mut policy) = (setup(), Policy::named("credit").unwrap());
        policy.set("slice_ns", "5000000").unwrap();
        let vary = [Vary::Policy, Vary::Cap];
        let question = Question { vary: &vary, ..Question::about(&setup, &policy) };
        let space = Space::new(&question);
        let number = |name: &str| space.dimensions.iter().position(|it| it.name == name).unwrap();
        let governed = Setting([(number("+app-slice"), 1)].into());
        let (_, governed) = space.host(&governed);
        assert_eq!(governed.value("slice_ns"), Some(5_000_000));
        assert_eq!(governed.governors().count(), 1);
        // The greatest cap is none.
        let uncapped = Setting([(number("domain.capped.cap_percent"), 200)].into());
        assert_eq!(space.host(&uncapped).0.domains[1].cap_percent, 0);
        assert_eq!(space.written(&uncapped)["domain.capped.cap_percent"], "0");
        assert_eq!(
            space.tidy(&Setting([(number("domain.plain.cap_percent"), 100)].into())),
            Setting::default()
        );
    }

    #[test]
    fn ranges_go_around_what_is_usual() {
        assert_eq!(around(256, 1, 65_535), Values::Numbers { least: 16, most: 4096 });
        assert_eq!(around(2, 1, 10), Values::Numbers { least: 1, most: 10 });
        assert_eq!(around(0, 0, 10), Values::Numbers { least: 1, most: 1 });
    }
}
