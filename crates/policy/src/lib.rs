// SPDX-License-Identifier: GPL-2.0-only
//! The policy core for Rust hosts.
//!
//! The policies themselves are the C headers under `policy/`; this crate compiles them, gives them
//! a safe face ([`ffi`]) and describes them by name: disciplines, vintages and parameters.

pub mod ffi;

use std::ffi::{CStr, c_char};
use std::fmt;
use std::sync::LazyLock;

pub use ffi::{
    Accounting, Domain, Governor as GovernorState, Parameters, Pcpu, Queue, Sample, Settings, Vcpu,
};

/// What a call asks of the host, as bits: `enum sy_request`.
#[allow(missing_docs)]
pub mod request {
    pub const RESCHEDULE: u32 = 1 << 0;
    pub const PARK: u32 = 1 << 1;
    pub const UNPARK: u32 = 1 << 2;
    pub const TIMER: u32 = 1 << 3;
    pub const DOMAIN_TIMER: u32 = 1 << 4;
    pub const RESORT: u32 = 1 << 5;
    pub const REKEY: u32 = 1 << 6;
    pub const BALANCE: u32 = 1 << 7;
    pub const REPLACE: u32 = 1 << 8;
    pub const SURVEY: u32 = 1 << 9;
    pub const VISIT: u32 = 1 << 10;
    pub const FIRST: u32 = 1 << 11;
    pub const REWEIGH: u32 = 1 << 12;
}

/// Answers of `sy_consider` and `sy_steal`: `enum sy_verdict`.
#[allow(missing_docs)]
pub mod verdict {
    pub const SKIP: u32 = 0;
    pub const TAKE: u32 = 1;
    pub const STOP: u32 = 2;
    pub const PREFER: u32 = 3;
    pub const SKIP_MOVES: u32 = 4;
}

/// Whom a spinning vCPU would have summoned: `enum sy_gang`.
#[allow(missing_docs)]
pub mod gang {
    pub const NONE: u32 = 0;
    pub const BEST: u32 = 1;
    pub const ALL: u32 = 2;
}

/// What a host knows of a sibling that waits, as bits: `enum sy_fact`.
#[allow(missing_docs)]
pub mod fact {
    pub const PREEMPTED: u32 = 1 << 0;
    pub const IN_KERNEL: u32 = 1 << 1;
}

/// Whom to interrupt for a woken vCPU: `enum sy_step`, four bits each.
#[allow(missing_docs)]
pub mod step {
    pub const END: u32 = 0;
    pub const LAST_IDLE: u32 = 1;
    pub const LAST_LEAD: u32 = 2;
    pub const ONE_IDLE: u32 = 3;
    pub const NEXT_IDLE: u32 = 4;
    pub const ALL_IDLE: u32 = 5;
    pub const LEAST: u32 = 6;
    pub const EVICT: u32 = 7;
    /// Go on to the next step even if this one found a pCPU.
    pub const ALSO: u32 = 8;
    /// Bits of a step.
    pub const BITS: u32 = 4;
    /// The woken vCPU moves to the queue of the idle pCPU that was found.
    pub const PLACE: u32 = 1 << 31;
    /// Idle pCPUs count only if they serve the queue of the woken vCPU.
    pub const QUEUE: u32 = 1 << 30;
}

/// "No limit" in answers that are times: `SY_FOREVER`.
pub const FOREVER: u64 = i64::MAX as u64;

/// A named constant of a discipline.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Name, with its unit where it has one.
    pub name: &'static str,
    /// "ns", "percent", ..., or the names of the values from 0 on, separated by `|`.
    pub unit: &'static str,
    /// Least value allowed.
    pub minimum: u64,
    /// Greatest value allowed.
    pub maximum: u64,
    /// What it does.
    pub help: &'static str,
    /// Publication or file that it comes from.
    pub source: &'static str,
    /// Default of each vintage, in the order of [`Discipline::vintages`].
    pub defaults: Vec<u64>,
}

impl Parameter {
    /// The names of the values if the parameter is a choice.
    pub fn choices(&self) -> Option<impl Iterator<Item = &'static str> + use<>> {
        self.unit.contains('|').then(|| self.unit.split('|'))
    }

    /// A value as a person writes it: the name of a choice, or a number.
    pub fn format(&self, value: u64) -> String {
        self.choices()
            .and_then(|mut names| names.nth(value as usize))
            .map_or_else(|| value.to_string(), str::to_owned)
    }

    /// Reads what [`Parameter::format`] writes, and checks the range.
    ///
    /// # Errors
    /// [`PolicyError::BadValue`] if it is neither a number in range nor the name of a choice.
    pub fn parse(&self, text: &str) -> Result<u64, PolicyError> {
        let named = self.choices().and_then(|mut names| names.position(|name| name == text));
        let value = named.map(|index| index as u64).or_else(|| text.replace('_', "").parse().ok());
        match value {
            Some(value) if (self.minimum..=self.maximum).contains(&value) => Ok(value),
            _ => Err(PolicyError::BadValue {
                parameter: self.name,
                text: text.to_owned(),
                expected: match self.choices() {
                    Some(names) => names.collect::<Vec<_>>().join(", "),
                    None => format!("{}..{} ({})", self.minimum, self.maximum, self.unit),
                },
            }),
        }
    }
}

/// A discipline as its C header describes it.
#[derive(Clone, Debug)]
pub struct Discipline {
    /// Number in `enum sy_discipline`.
    pub id: u64,
    /// Name.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Vintages, oldest first.
    pub vintages: Vec<&'static str>,
    /// Parameters.
    pub parameters: Vec<Parameter>,
    /// What whoever compares it should know of each vintage.
    pub known: Vec<Option<&'static str>>,
}

/// A governor as its C header describes it.
#[derive(Clone, Debug)]
pub struct Governor {
    /// Name.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Parameters; each has one default.
    pub parameters: Vec<Parameter>,
    /// What whoever compares it should know.
    pub known: Option<&'static str>,
    /// The disciplines for which it has a meaning.
    pub disciplines: Vec<&'static str>,
    /// Why it has none for the others.
    reason: &'static str,
}

/// Every discipline of the core.
pub fn disciplines() -> &'static [Discipline] {
    static ALL: LazyLock<Vec<Discipline>> =
        LazyLock::new(|| {
            let described = (0..).map_while(|id| Some((id, describe(ffi::sy_describe(id))?)));
            described
                .map(|(id, Description { name, help, vintages, parameters, known, .. })| {
                    Discipline { id, name, help, vintages, parameters, known }
                })
                .collect()
        });
    &ALL
}

/// Every governor of the core.
pub fn governors() -> &'static [Governor] {
    static ALL: LazyLock<Vec<Governor>> = LazyLock::new(|| {
        let described = (0..).map_while(|id| describe(ffi::sy_describe_governor(id)));
        described
            .map(|Description { name, help, parameters, known, suits, reason, .. }| Governor {
                name,
                help,
                parameters,
                known: known[0],
                disciplines: disciplines()
                    .iter()
                    .filter(|discipline| suits >> discipline.id & 1 != 0)
                    .map(|discipline| discipline.name)
                    .collect(),
                reason,
            })
            .collect()
    });
    &ALL
}

/// What an administrator may ask for a domain, by the names that scenarios write, in the order of [`Settings`]; the
/// source is where it is heeded.
pub fn settings() -> &'static [Parameter] {
    static ALL: LazyLock<Vec<Parameter>> = LazyLock::new(|| {
        describe(ffi::sy_describe_settings()).map_or(vec![], |settings| settings.parameters)
    });
    &ALL
}

/// What the engine counts of all that it decides, by `enum engine_count`: each with name, unit and meaning.
pub fn counts() -> &'static [Parameter] {
    static ALL: LazyLock<Vec<Parameter>> = LazyLock::new(|| {
        describe(ffi::sy_describe_counts()).map_or(vec![], |counts| counts.parameters)
    });
    &ALL
}

/// Policies that have a name of their own, and what it stands for: a discipline with governors, as
/// published.
pub fn published() -> &'static [(&'static str, &'static str)] {
    static ALL: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
        let entries = (0..).map_while(|number| {
            // SAFETY: null or a constant that lives as long as the program, and so are its strings.
            unsafe {
                let entry = ffi::sy_describe_published(number).as_ref()?;
                Some((text(entry.name), text(entry.meaning)))
            }
        });
        entries.collect()
    });
    &ALL
}

/// What a policy says of a vCPU at a moment, for who looks on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Weight of its domain in effect, which a governor may have changed.
    pub weight: u64,
    /// Slice in effect, if not that of the discipline.
    pub slice_ns: Option<u64>,
    /// What counts in its favour; unit: the discipline's own.
    pub credit: i64,
    /// The class in which the discipline has it, if it tells classes apart.
    pub class: Option<&'static str>,
    /// A governor or a wake put it before its turn.
    pub boosted: bool,
}

impl Standing {
    /// Of a vCPU of this domain, which belongs to this queue.
    pub fn of(policy: &Parameters, queue: &Queue, domain: &Domain, vcpu: &Vcpu) -> Standing {
        let class = ffi::sy_class_name(ffi::sy_class(policy, vcpu));
        Standing {
            weight: domain.weight,
            slice_ns: (domain.slice_ns > 0).then_some(domain.slice_ns),
            credit: ffi::sy_credit(policy, queue, vcpu),
            // SAFETY: null or a constant that lives as long as the program.
            class: (!class.is_null()).then(|| unsafe { text(class) }),
            boosted: ffi::sy_boosted(policy, vcpu),
        }
    }
}

struct Description {
    name: &'static str,
    help: &'static str,
    vintages: Vec<&'static str>,
    parameters: Vec<Parameter>,
    /// By vintage; of a governor the only one.
    known: Vec<Option<&'static str>>,
    /// Of a governor: the disciplines that it suits, a bit each, and why not the others.
    suits: u64,
    reason: &'static str,
}

fn describe(description: *const ffi::CDescription) -> Option<Description> {
    // SAFETY: descriptions are null or point to a constant that lives as long as the program, whose
    // strings are constants too and whose `parameter` points to `parameters` elements; unused
    // vintages are null, and so are a discipline's `reason` and what is not `known`.
    unsafe {
        let description = description.as_ref()?;
        let vintages: Vec<_> = description
            .vintage
            .iter()
            .take_while(|name| !name.is_null())
            .map(|&name| text(name))
            .collect();
        let parameters =
            std::slice::from_raw_parts(description.parameter, description.parameters as usize);
        Some(Description {
            name: text(description.name),
            help: text(description.help),
            parameters: parameters
                .iter()
                .map(|parameter| Parameter {
                    name: text(parameter.name),
                    unit: text(parameter.unit),
                    minimum: parameter.minimum,
                    maximum: parameter.maximum,
                    help: text(parameter.help),
                    source: text(parameter.source),
                    defaults: parameter.value[..vintages.len().max(1)].to_vec(),
                })
                .collect(),
            known: description.known[..vintages.len().max(1)]
                .iter()
                .map(|&known| (!known.is_null()).then(|| text(known)))
                .collect(),
            vintages,
            suits: description.disciplines,
            reason: if description.reason.is_null() { "" } else { text(description.reason) },
        })
    }
}

/// # Safety
/// `pointer` is a constant C string that lives as long as the program.
unsafe fn text(pointer: *const c_char) -> &'static str {
    // SAFETY: passed on to the caller.
    unsafe { CStr::from_ptr(pointer) }.to_str().unwrap_or("(not UTF-8)")
}

/// A policy that a person can name: a discipline, a vintage of it, governors, and their parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The name of its own that it was asked for by, if it has one.
    published: Option<&'static str>,
    discipline: usize,
    vintage: usize,
    parameters: Parameters,
}

impl Policy {
    /// Reads `DISCIPLINE`, `DISCIPLINE@VINTAGE`, either with `+GOVERNOR` once or more, or a name
    /// out of [`published`]; without a vintage the newest one.
    ///
    /// # Errors
    /// [`PolicyError`], for a name that is unknown or a governor that does not suit.
    pub fn named(name: &str) -> Result<Policy, PolicyError> {
        if let Some((published, spelled)) = published().iter().find(|(known, _)| *known == name) {
            return Ok(Policy { published: Some(published), ..Policy::named(spelled)? });
        }
        let mut parts = name.split('+');
        let base = parts.next().unwrap_or_default();
        let (discipline_name, vintage_name) = match base.split_once('@') {
            Some((discipline, vintage)) => (discipline, Some(vintage)),
            None => (base, None),
        };
        let index = disciplines()
            .iter()
            .position(|discipline| discipline.name == discipline_name)
            .ok_or_else(|| PolicyError::UnknownPolicy {
                name: discipline_name.to_owned(),
                known: disciplines()
                    .iter()
                    .map(|discipline| discipline.name)
                    .chain(published().iter().map(|(name, _)| *name))
                    .collect(),
            })?;
        let discipline = &disciplines()[index];
        let vintage = match vintage_name {
            None => discipline.vintages.len() - 1,
            Some(wanted) => {
                discipline.vintages.iter().position(|&vintage| vintage == wanted).ok_or_else(
                    || PolicyError::UnknownVintage {
                        discipline: discipline.name,
                        name: wanted.to_owned(),
                        known: discipline.vintages.clone(),
                    },
                )?
            }
        };
        let mut parameters = Parameters {
            discipline: discipline.id,
            governors: 0,
            parameter: [0; ffi::PARAMETER_WORDS],
            governor_parameter: [[0; ffi::GOVERNOR_PARAMETER_WORDS]; ffi::GOVERNORS],
        };
        for (slot, parameter) in parameters.parameter.iter_mut().zip(&discipline.parameters) {
            *slot = parameter.defaults[vintage];
        }
        for part in parts {
            let index = governor_named(part)?;
            let governor = &governors()[index];
            if !governor.disciplines.contains(&discipline.name) {
                return Err(PolicyError::Unsuited {
                    governor: governor.name,
                    discipline: discipline.name,
                    reason: governor.reason,
                });
            }
            parameters.governors |= 1 << index;
            let slots = &mut parameters.governor_parameter[index];
            for (slot, parameter) in slots.iter_mut().zip(&governor.parameters) {
                *slot = parameter.defaults[0];
            }
        }
        Ok(Policy { published: None, discipline: index, vintage, parameters })
    }

    /// The discipline.
    pub fn discipline(&self) -> &'static Discipline {
        &disciplines()[self.discipline]
    }

    /// The vintage.
    pub fn vintage(&self) -> &'static str {
        self.discipline().vintages[self.vintage]
    }

    /// The governors at work.
    pub fn governors(&self) -> impl Iterator<Item = &'static Governor> + '_ {
        let all = governors().iter().enumerate();
        all.filter(|(index, _)| self.governed_by(*index)).map(|(_, governor)| governor)
    }

    /// What whoever compares it should know of its parts: the part's name, and what it is.
    pub fn known(&self) -> impl Iterator<Item = (String, &'static str)> + '_ {
        let discipline = self.discipline();
        let own = discipline.known[self.vintage];
        let own = own.map(|known| (format!("{}@{}", discipline.name, self.vintage()), known));
        let governors = self.governors();
        own.into_iter().chain(governors.filter_map(|one| Some((one.name.to_owned(), one.known?))))
    }

    fn governed_by(&self, index: usize) -> bool {
        self.parameters.governors >> index & 1 != 0
    }

    /// Sets a parameter from text: one of the discipline's by its name, one of a governor's by
    /// `GOVERNOR.NAME`.
    ///
    /// # Errors
    /// [`PolicyError::UnknownParameter`], [`PolicyError::UnknownGovernor`], [`PolicyError::Absent`]
    /// or [`PolicyError::BadValue`].
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), PolicyError> {
        let (owner, name, parameters, slots) = match name.split_once('.') {
            None => {
                let discipline = self.discipline();
                let slots = &mut self.parameters.parameter[..];
                (discipline.name, name, &discipline.parameters, slots)
            }
            Some((governor, name)) => {
                let index = governor_named(governor)?;
                let governor = &governors()[index];
                if !self.governed_by(index) {
                    return Err(PolicyError::Absent { governor: governor.name });
                }
                let slots = &mut self.parameters.governor_parameter[index][..];
                (governor.name, name, &governor.parameters, slots)
            }
        };
        let index =
            parameters.iter().position(|parameter| parameter.name == name).ok_or_else(|| {
                PolicyError::UnknownParameter {
                    owner,
                    name: name.to_owned(),
                    known: parameters.iter().map(|parameter| parameter.name).collect(),
                }
            })?;
        slots[index] = parameters[index].parse(value)?;
        Ok(())
    }

    /// Every parameter by the name that [`Policy::set`] takes, with its value.
    pub fn values(&self) -> impl Iterator<Item = (String, &'static Parameter, u64)> + '_ {
        let own = self.discipline().parameters.iter().zip(&self.parameters.parameter);
        let own = own.map(|(parameter, &value)| (parameter.name.to_owned(), parameter, value));
        let working = governors().iter().enumerate().filter(|(index, _)| self.governed_by(*index));
        own.chain(working.flat_map(|(index, governor)| {
            let slots = &self.parameters.governor_parameter[index];
            governor.parameters.iter().zip(slots).map(move |(parameter, &value)| {
                (format!("{}.{}", governor.name, parameter.name), parameter, value)
            })
        }))
    }

    /// The value of the parameter that [`Policy::set`] knows by this name.
    pub fn value(&self, name: &str) -> Option<u64> {
        self.values().find(|(known, _, _)| known == name).map(|(_, _, value)| value)
    }

    /// The same with other values, of which only those of this discipline and these governors count.
    pub fn with_parameters(&self, parameters: &Parameters) -> Policy {
        let Parameters { parameter, governor_parameter, .. } = *parameters;
        let own = Parameters { parameter, governor_parameter, ..self.parameters.clone() };
        Policy { parameters: own, ..self.clone() }
    }

    /// What the functions of [`ffi`] take.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Whether it keeps domains to caps: not each vintage does.
    #[must_use]
    pub fn has_caps(&self) -> bool {
        ffi::sy_cap_period_ns(self.parameters()) > 0
    }

    /// Whether it heeds what may be asked for a domain, one of [`settings`].
    #[must_use]
    pub fn heeds(&self, setting: &Parameter) -> bool {
        if setting.name == "cap_percent" {
            return self.has_caps();
        }
        // Of a source: who heeds it, and with which value of a parameter if not always.
        setting.source.split([',', ';']).any(|part| {
            let (who, when) = part.trim().split_once(" in ").unwrap_or((part.trim(), ""));
            let own = who == "everywhere"
                || who == self.discipline().name
                || self.governors().any(|governor| governor.name == who);
            own && when.split_once(' ').is_none_or(|(name, value)| {
                let mut values = self.values();
                values.any(|(known, parameter, is)| known == name && parameter.format(is) == value)
            })
        })
    }

    /// Whether it keeps reservations for domains.
    #[must_use]
    pub fn reserves(&self) -> bool {
        ffi::sy_reserves(self.parameters())
    }
}

fn governor_named(name: &str) -> Result<usize, PolicyError> {
    governors().iter().position(|governor| governor.name == name).ok_or_else(|| {
        PolicyError::UnknownGovernor {
            name: name.to_owned(),
            known: governors().iter().map(|governor| governor.name).collect(),
        }
    })
}

impl fmt::Display for Policy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(published) = self.published {
            return formatter.write_str(published);
        }
        write!(formatter, "{}@{}", self.discipline().name, self.vintage())?;
        for governor in self.governors() {
            write!(formatter, "+{}", governor.name)?;
        }
        Ok(())
    }
}

impl Parameters {
    /// Number of the discipline, as [`Discipline::id`] is.
    pub fn discipline(&self) -> usize {
        self.discipline as usize
    }
}

/// A policy or parameter that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PolicyError {
    UnknownPolicy { name: String, known: Vec<&'static str> },
    UnknownVintage { discipline: &'static str, name: String, known: Vec<&'static str> },
    UnknownGovernor { name: String, known: Vec<&'static str> },
    Unsuited { governor: &'static str, discipline: &'static str, reason: &'static str },
    Absent { governor: &'static str },
    UnknownParameter { owner: &'static str, name: String, known: Vec<&'static str> },
    BadValue { parameter: &'static str, text: String, expected: String },
}

impl fmt::Display for PolicyError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyError::UnknownPolicy { name, .. } => write!(formatter, "unknown policy `{name}`"),
            PolicyError::UnknownVintage { discipline, name, .. } => {
                write!(formatter, "unknown vintage `{name}` of {discipline}")
            }
            PolicyError::UnknownGovernor { name, .. } => {
                write!(formatter, "unknown governor `{name}`")
            }
            PolicyError::Unsuited { governor, discipline, reason } => {
                write!(formatter, "{governor} has no meaning for {discipline}: {reason}")
            }
            PolicyError::Absent { governor } => {
                write!(formatter, "{governor} is not part of this policy")
            }
            PolicyError::UnknownParameter { owner, name, .. } => {
                write!(formatter, "unknown parameter `{name}` of {owner}")
            }
            PolicyError::BadValue { parameter, text, expected } => {
                write!(formatter, "`{text}` is no value for {parameter}: expected {expected}")
            }
        }
    }
}

impl std::error::Error for PolicyError {}

#[cfg(test)]
mod tests {
    use super::*;

    use std::ptr::null;

    /// Of Rust's own constants, so that Miri (`make miri`), which runs no C, sees what is read of them.
    #[test]
    fn descriptions_are_read_within_their_bounds() {
        let parameter = |value| ffi::CParameter {
            name: c"slice_ns".as_ptr(),
            unit: c"ns".as_ptr(),
            minimum: 1,
            maximum: 10,
            help: c"help".as_ptr(),
            source: c"source".as_ptr(),
            value,
        };
        let parameters = [parameter([5, 6, 0, 0, 0]), parameter([7, 8, 0, 0, 0])];
        let mut description = ffi::CDescription {
            name: c"credit".as_ptr(),
            help: c"help".as_ptr(),
            vintage: [c"old".as_ptr(), c"new".as_ptr(), null(), null(), null()],
            parameters: parameters.len() as u64,
            parameter: parameters.as_ptr(),
            disciplines: 3,
            reason: null(),
            known: [null(); ffi::VINTAGES],
        };
        let read = describe(&raw const description).unwrap();
        assert_eq!(
            (read.name, &read.vintages[..], read.reason),
            ("credit", &["old", "new"][..], "")
        );
        assert_eq!(read.parameters[1].defaults, [7, 8]);
        description.vintage = [null(); ffi::VINTAGES];
        description.reason = c"it has no slices".as_ptr();
        let read = describe(&raw const description).unwrap();
        assert_eq!((read.parameters[0].defaults.len(), read.reason), (1, "it has no slices"));
        assert!(describe(null()).is_none());
        // SAFETY: a constant.
        assert_eq!(unsafe { text(c"\xff".as_ptr()) }, "(not UTF-8)");
    }

    #[test]
    fn every_default_is_in_range_and_readable() {
        let lists = disciplines().iter().map(|discipline| &discipline.parameters);
        for parameters in lists.chain(governors().iter().map(|governor| &governor.parameters)) {
            for parameter in parameters {
                assert!(!parameter.help.is_empty() && !parameter.source.is_empty());
                for &value in &parameter.defaults {
                    assert_eq!(
                        parameter.parse(&parameter.format(value)),
                        Ok(value),
                        "{parameter:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn names_lead_to_policies() {
        for discipline in disciplines() {
            for vintage in &discipline.vintages {
                let name = format!("{}@{vintage}", discipline.name);
                assert_eq!(Policy::named(&name).unwrap().to_string(), name);
            }
            assert_eq!(
                Policy::named(discipline.name).unwrap().vintage(),
                *discipline.vintages.last().unwrap()
            );
        }
        assert!(matches!(Policy::named("nope"), Err(PolicyError::UnknownPolicy { .. })));
        assert!(matches!(Policy::named("credit@2"), Err(PolicyError::UnknownVintage { .. })));
        let mut policy = Policy::named("credit").unwrap();
        assert!(matches!(policy.set("slice", "1"), Err(PolicyError::UnknownParameter { .. })));
        assert!(matches!(policy.set("slice_ns", "x"), Err(PolicyError::BadValue { .. })));
    }

    #[test]
    fn governors_join_disciplines_that_they_suit() {
        let mut policy = Policy::named("credit2+reset-boost").unwrap();
        assert_eq!(policy.to_string(), "credit2@xen-4.20+reset-boost");
        policy.set("reset-boost.interval_ns", "5000000").unwrap();
        assert!(
            policy.values().any(|(name, _, value)| {
                name == "reset-boost.interval_ns" && value == 5_000_000
            })
        );
        let mcredit2 = Policy::named("mcredit2").unwrap();
        assert_eq!(mcredit2.to_string(), "mcredit2");
        let spelled = Policy::named("credit2@xen-4.5+reset-boost").unwrap();
        assert_eq!(mcredit2.parameters(), spelled.parameters());
        let free = Policy::named("credit2+app-slice+reset-boost").unwrap();
        assert_eq!(free.to_string(), "credit2@xen-4.20+reset-boost+app-slice");
        for (name, spelled) in published() {
            let (published, spelled) = (Policy::named(name), Policy::named(spelled));
            assert_eq!(published.unwrap().parameters(), spelled.unwrap().parameters());
        }
        let error = |name: &str| Policy::named(name).unwrap_err();
        assert!(matches!(error("credit2+boost"), PolicyError::UnknownGovernor { .. }));
        let mut plain = Policy::named("credit2").unwrap();
        let absent = plain.set("reset-boost.interval_ns", "5000000");
        assert!(matches!(absent, Err(PolicyError::Absent { .. })));
    }

    #[test]
    fn governors_refuse_the_other_disciplines_with_a_reason() {
        // What each suits, and a word of why not the others.
        let suits: [(&str, &[&str], &str); 5] = [
            ("reset-boost", &["credit2"], "resets"),
            ("load-weight", &["sedf", "credit", "credit2", "fair"], ""),
            ("app-slice", &["credit", "credit2", "fair"], "reservation"),
            ("boost-credit", &["credit"], "BOOST"),
            ("cosched", &["credit", "fair"], "borrowed"),
        ];
        assert!(governors().iter().map(|governor| governor.name).eq(suits.map(|(name, ..)| name)));
        for (governor, suited, why) in suits {
            for discipline in disciplines() {
                let name = format!("{}+{governor}", discipline.name);
                match Policy::named(&name) {
                    Ok(_) => assert!(suited.contains(&discipline.name), "{name}"),
                    Err(error) => {
                        assert!(!suited.contains(&discipline.name), "{error}");
                        assert!(matches!(error, PolicyError::Unsuited { .. }), "{error}");
                        assert!(error.to_string().contains(why), "{error}");
                    }
                }
            }
        }
    }
}
