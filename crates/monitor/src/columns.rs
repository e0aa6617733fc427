// SPDX-License-Identifier: GPL-2.0-only
//! The columns of the table of domains and vCPUs, on the screen and in batches.

use steelyard_boundary::text::told;

use crate::interval::{DomainInterval, Interval, Rates, VcpuInterval};
use steelyard_recording::PolicyState;
use steelyard_simulator::measure::Ran;

/// In what shares of time are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Percent of one pCPU.
    #[default]
    OfPcpu,
    /// Percent of all pCPUs.
    OfHost,
    /// Milliseconds per second.
    PerSecond,
}

impl Unit {
    pub fn next(self) -> Unit {
        match self {
            Unit::OfPcpu => Unit::OfHost,
            Unit::OfHost => Unit::PerSecond,
            Unit::PerSecond => Unit::OfPcpu,
        }
    }

    /// A share of one pCPU's time, of a host with so many.
    pub fn share_of(self, pcpus: u32, of_pcpu: f64) -> String {
        percent(match self {
            Unit::OfPcpu => of_pcpu,
            Unit::OfHost => of_pcpu / f64::from(pcpus.max(1)),
            Unit::PerSecond => of_pcpu * 10.0,
        })
    }

    /// Behind titles.
    fn mark(self) -> &'static str {
        match self {
            Unit::OfPcpu => "%",
            Unit::OfHost => "%H",
            Unit::PerSecond => "ms",
        }
    }
}

/// A domain, or one vCPU of it.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    pub interval: &'a Interval,
    pub domain: &'a DomainInterval,
    pub vcpu: Option<&'a VcpuInterval>,
    pub unit: Unit,
}

/// A column, but those of names and bars, which stand before all others and grow.
pub(crate) struct Column {
    pub title: &'static str,
    /// It tells shares of time, in one of the units.
    share: bool,
    pub width: usize,
    pub help: &'static str,
    /// Where the source can see it.
    pub text: fn(Row) -> Option<String>,
    /// By which domains are ordered, the greatest first.
    pub order: fn(&DomainInterval) -> f64,
}

impl Column {
    pub fn title(&self, unit: Unit) -> String {
        format!("{}{}", self.title, if self.share { unit.mark() } else { "" })
    }
}

/// How far names are moved to the right, and what is wide enough for any vCPU of QEMU's.
pub(crate) const DOMAIN_INDENT: usize = 2;
pub(crate) const VCPU_INDENT: usize = 4;
const CERTAIN_NAME: usize = 14;
/// The narrowest name and bar.
const NAME: usize = 12;
const BAR: usize = 10;
/// And the widest.
const WIDEST_NAME: usize = 28;
const WIDEST_BAR: usize = 50;

/// The most important first: where there is no room the last are left out.
pub(crate) static COLUMNS: [Column; 22] = [
    Column {
        title: "AVG",
        share: true,
        width: 5,
        help: "CPU time per vCPU; the bar is the same",
        text: |row| Some(row.share(row.average_percent())),
        order: DomainInterval::average_percent,
    },
    Column {
        title: "CPU",
        share: true,
        width: 6,
        help: "CPU time gotten by all vCPUs",
        text: |row| Some(row.share(row.rates().gotten_percent)),
        order: |domain| domain.rates.gotten_percent,
    },
    Column {
        title: "EMU",
        share: true,
        width: 5,
        help: "CPU time of its emulator's and its input and output's threads",
        text: |row| row.of_domain(row.share(row.domain.emulator_percent?)),
        order: |domain| domain.emulator_percent.unwrap_or(0.0),
    },
    Column {
        title: "ENT",
        share: true,
        width: 6,
        help: "what fairness by weight would give, of what VMs can get",
        text: |row| row.of_domain(row.share(row.domain.entitlement_percent)),
        order: |domain| domain.entitlement_percent,
    },
    Column {
        title: "WAIT",
        share: true,
        width: 6,
        help: "time in which vCPUs could have run and did not",
        text: |row| row.rates().waited_percent.map(|waited| row.share(waited)),
        order: |domain| domain.rates.waited_percent.unwrap_or(0.0),
    },
    Column {
        title: "P99",
        share: false,
        width: 6,
        help: "99 % of the waits that ended were no longer",
        text: |row| {
            let seen = row.rates().waits.is_some();
            seen.then(|| row.rates().wait_p99_ns.map_or_else(|| "-".to_owned(), time))
        },
        order: |domain| domain.rates.wait_p99_ns.unwrap_or(0) as f64,
    },
    Column {
        title: "WORST",
        share: false,
        width: 6,
        help: "the longest wait since the source began",
        text: |row| row.rates().worst_wait.as_ref().map(|worst| time(worst.length_ns)),
        order: |domain| domain.rates.worst_wait.as_ref().map_or(0.0, |w| w.length_ns as f64),
    },
    Column {
        title: "WT",
        share: false,
        width: 5,
        help: "weight; 256 is the usual one",
        text: |row| row.of_domain(row.domain.weight?.to_string()),
        order: |domain| f64::from(domain.weight.unwrap_or(0)),
    },
    Column {
        title: "CAP%",
        share: false,
        width: 5,
        help: "most CPU time that the domain may have; 0: no limit",
        text: |row| row.of_domain(row.domain.cap_percent?.to_string()),
        order: |domain| f64::from(domain.cap_percent.unwrap_or(0)),
    },
    Column {
        title: "TIME",
        share: false,
        width: 8,
        help: "CPU time gotten by all vCPUs since the source began to count",
        text: |row| Some(long_time(row.gotten_ns())),
        order: |domain| domain.gotten_ns as f64,
    },
    Column {
        title: "STATE",
        share: false,
        width: 8,
        help: "what the vCPU does at the moment",
        text: |row| Some(row.vcpu?.state?.word().to_owned()),
        order: |_| 0.0,
    },
    Column {
        title: "pCPU",
        share: false,
        width: 4,
        help: "where it runs or ran last",
        text: |row| Some(row.vcpu?.pcpu?.to_string()),
        order: |_| 0.0,
    },
    Column {
        title: "SW/s",
        share: false,
        width: 6,
        help: "starts on a pCPU per second",
        text: |row| row.rates().switches_per_s.map(count),
        order: |domain| domain.rates.switches_per_s.unwrap_or(0.0),
    },
    Column {
        title: "BLK",
        share: true,
        width: 6,
        help: "time in which vCPUs were blocked: they had nothing to do",
        text: |row| row.rates().blocked_percent.map(|blocked| row.share(blocked)),
        order: |domain| domain.rates.blocked_percent.unwrap_or(0.0),
    },
    Column {
        title: "MIG/s",
        share: false,
        width: 6,
        help: "starts on another pCPU than before, per second",
        text: |row| row.rates().migrations_per_s.map(count),
        order: |domain| domain.rates.migrations_per_s.unwrap_or(0.0),
    },
    Column {
        title: "WTNOW",
        share: false,
        width: 6,
        help: "weight in effect: what a governor made of it",
        text: |row| Some(row.policy(|policy| Some(policy.weight))?.to_string()),
        order: |domain| domain.of_policy(|policy| Some(policy.weight)).unwrap_or(0) as f64,
    },
    Column {
        title: "PRE/s",
        share: false,
        width: 6,
        help: "losses of a pCPU while it could have gone on, per second",
        text: |row| row.rates().preemptions_per_s.map(count),
        order: |domain| domain.rates.preemptions_per_s.unwrap_or(0.0),
    },
    Column {
        title: "SLICE",
        share: false,
        width: 6,
        help: "slice in effect, if not that of the policy",
        text: |row| row.policy(|policy| policy.slice_ns).map(time),
        order: |domain| domain.of_policy(|policy| policy.slice_ns).unwrap_or(0) as f64,
    },
    Column {
        title: "CREDIT",
        share: false,
        width: 9,
        help: "what the policy counts in its favour, in the policy's unit",
        text: |row| Some(row.policy(|policy| Some(policy.credit))?.to_string()),
        order: |domain| domain.of_policy(|policy| Some(policy.credit)).unwrap_or(0) as f64,
    },
    Column {
        title: "CLASS",
        share: false,
        width: 9,
        help: "its class, in the policy's word; !: boosted before its turn",
        text: |row| {
            let class = row.policy(|policy| Some(policy.class.clone().unwrap_or_default()))?;
            let boosted = row.policy(|policy| Some(policy.boosted)) == Some(true);
            Some(format!("{}{}", harmless(&class), if boosted { "!" } else { "" }))
        },
        order: |domain| {
            domain.vcpus.iter().filter(|v| v.policy.as_ref().is_some_and(|p| p.boosted)).count()
                as f64
        },
    },
    Column {
        title: "WHEN",
        share: false,
        width: 9,
        help: "when the worst wait began",
        text: |row| Some(row.interval.clock(row.rates().worst_wait.as_ref()?.start_ns)),
        order: |domain| domain.rates.worst_wait.as_ref().map_or(0.0, |w| w.start_ns as f64),
    },
    Column {
        title: "MEANWHILE",
        share: false,
        width: 24,
        help: "who ran longest during the worst wait, and how long",
        text: |row| {
            let ran = row.rates().worst_wait.as_ref()?.ran.first()?;
            let name: String = row.interval.who_ran(ran).chars().take(17).collect();
            Some(format!("{name} {}", time(ran.ran_ns)))
        },
        order: |_| 0.0,
    },
];

/// What is shown of the columns.
pub(crate) struct Layout {
    pub name: usize,
    pub bar: usize,
    pub columns: Vec<&'static Column>,
}

impl Layout {
    /// For so many columns of characters, and these domains; columns of which nothing is known are
    /// left out, and all that are not chosen, if some are.
    pub fn new(
        width: usize,
        interval: &Interval,
        domains: &[&DomainInterval],
        chosen: Option<&[&'static Column]>,
    ) -> Layout {
        let rows = || {
            domains.iter().flat_map(|&domain| {
                let row = Row::of(interval, domain);
                [row].into_iter().chain(domain.vcpus.first().map(|vcpu| row.vcpu(vcpu)))
            })
        };
        let of = |domain: &DomainInterval| {
            let vcpus = domain.vcpus.iter().map(|vcpu| vcpu.name.chars().count() + VCPU_INDENT);
            vcpus.chain([domain.name.chars().count() + DOMAIN_INDENT]).max()
        };
        let longest =
            domains.iter().copied().filter_map(of).max().unwrap_or(0).clamp(NAME, WIDEST_NAME);
        // Rather a column less than names that nobody can tell apart.
        let name = longest.min(CERTAIN_NAME);
        let mut left = width.saturating_sub(name + 1 + BAR);
        let mut columns = vec![];
        let all: Vec<&'static Column> = COLUMNS.iter().collect();
        for &column in chosen.unwrap_or(&all) {
            // What was chosen stays, seen or not.
            if chosen.is_some() || rows().any(|row| (column.text)(row).is_some()) {
                if left < column.width + 1 {
                    break;
                }
                left -= column.width + 1;
                columns.push(column);
            }
        }
        let more_name = (longest - name).min(left);
        let more_bar = (left - more_name).min(WIDEST_BAR - BAR);
        // A name needs its place more than a bar does.
        let bar = if width < name + 1 + BAR { 0 } else { BAR + more_bar };
        Layout { name: (name + more_name).min(width), bar, columns }
    }
}

impl<'a> Row<'a> {
    /// A domain.
    pub fn of(interval: &'a Interval, domain: &'a DomainInterval) -> Row<'a> {
        Row { interval, domain, vcpu: None, unit: Unit::default() }
    }

    /// A vCPU of it.
    pub fn vcpu(self, vcpu: &'a VcpuInterval) -> Row<'a> {
        Row { vcpu: Some(vcpu), ..self }
    }

    pub fn rates(self) -> &'a Rates {
        match self.vcpu {
            Some(vcpu) => &vcpu.rates,
            None => &self.domain.rates,
        }
    }

    pub fn name(self) -> &'a str {
        self.vcpu.map_or(&self.domain.name, |vcpu| &vcpu.name)
    }

    /// Per vCPU.
    pub fn average_percent(self) -> f64 {
        match self.vcpu {
            Some(vcpu) => vcpu.rates.gotten_percent,
            None => self.domain.average_percent(),
        }
    }

    /// A share of time in its unit.
    pub fn share(self, of_pcpu: f64) -> String {
        self.unit.share_of(self.interval.host.pcpus, of_pcpu)
    }

    /// What a policy says of the vCPU, or of all the domain's vCPUs alike.
    pub fn policy<T: PartialEq>(self, of: fn(&PolicyState) -> Option<T>) -> Option<T> {
        match self.vcpu {
            Some(vcpu) => of(vcpu.policy.as_ref()?),
            None => self.domain.of_policy(of),
        }
    }

    pub fn gotten_ns(self) -> u64 {
        self.vcpu.map_or(self.domain.gotten_ns, |vcpu| vcpu.gotten_ns)
    }

    fn of_domain(self, text: String) -> Option<String> {
        self.vcpu.is_none().then_some(text)
    }
}

/// Of a name what fits, filled up.
pub(crate) fn fitted(name: &str, width: usize) -> String {
    let name: String = name.chars().take(width).collect();
    format!("{:<width$}", harmless(&name))
}

impl Interval {
    /// Who ran while somebody waited: a vCPU by its domain and number, a thread of the host by its
    /// name.
    pub(crate) fn who_ran(&self, ran: &Ran) -> String {
        harmless(&match self.domains.iter().any(|domain| domain.name == ran.domain) {
            true => format!("{}/{}", ran.domain, ran.vcpu),
            false => ran.domain.clone(),
        })
    }
}

/// Foreign text as it may stand on a screen.
pub(crate) fn harmless(text: &str) -> String {
    told(text).to_string()
}

pub(crate) fn percent(percent: f64) -> String {
    if percent < 999.95 { format!("{percent:.1}") } else { format!("{percent:.0}") }
}

pub(crate) fn count(number: f64) -> String {
    match number {
        n if n < 99.95 => format!("{n:.1}"),
        n if n < 99_999.5 => format!("{n:.0}"),
        n => format!("{:.0}k", n / 1e3),
    }
}

/// CPU time in at most eight characters: minutes and seconds, or hours and minutes.
fn long_time(ns: u64) -> String {
    let s = ns / 1_000_000_000;
    match s {
        0..6_000 => format!("{}:{:02}.{:02}", s / 60, s % 60, ns / 10_000_000 % 100),
        6_000..3_600_000 => format!("{}h{:02}m", s / 3600, s / 60 % 60),
        _ => format!("{}h", s / 3600),
    }
}

/// A length of time in at most six characters.
pub(crate) fn time(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns}ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    match value {
        value if value < 9.995 => format!("{value:.2}{unit}"),
        value if value < 99.95 => format!("{value:.1}{unit}"),
        _ => format!("{value:.0}{unit}"),
    }
}
