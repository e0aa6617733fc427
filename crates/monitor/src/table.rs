// SPDX-License-Identifier: GPL-2.0-only
//! An interval as plain text: the whole table, or only the bars.

use std::fmt::Write as _;

use crate::columns::{Layout, Row, Unit, fitted, harmless, percent, time};
use crate::interval::Interval;
use steelyard_recording::Host;

/// Where there are no domains.
pub(crate) const NOBODY: &str =
    "no virtual machine with threads named CPU n/KVM (QEMU: debug-threads=on)";

impl Interval {
    /// All that is known of domains and vCPUs, in lines of so many characters.
    pub fn to_table(&self, width: usize) -> String {
        let layout = Layout::new(width, self);
        let mut out = format!("{}, {}\n", self.title(), self.when());
        let mut header = format!("{:<1$}", "DOMAIN", layout.name);
        if layout.bar > 0 {
            let _ = write!(header, " {:1$}", "", layout.bar);
        }
        for column in &layout.columns {
            let _ = write!(header, " {:>1$}", column.title(Unit::default()), column.width);
        }
        let _ = writeln!(out, "{}", header.trim_end());
        for domain in &self.domains {
            let row = Row::of(self, domain);
            let vcpus = domain.vcpus.iter().map(|vcpu| row.vcpu(vcpu));
            for row in [row].into_iter().chain(vcpus) {
                let indent = if row.vcpu.is_some() { "  " } else { "" };
                let mut line = fitted(&format!("{indent}{}", row.name()), layout.name);
                if domain.ended {
                    line.push_str(" ended");
                } else {
                    if layout.bar > 0 {
                        let _ = write!(line, " {}", bar(row.average_percent(), layout.bar));
                    }
                    for column in &layout.columns {
                        let text = (column.text)(row).unwrap_or_default();
                        let _ = write!(line, " {:>1$}", text, column.width);
                    }
                }
                let _ = writeln!(out, "{}", line.trim_end());
            }
        }
        if self.domains.is_empty() {
            let _ = writeln!(out, "{NOBODY}");
        }
        out
    }

    /// The bars alone: each vCPU of each domain and their average, as Kang and Lee published it
    /// (Mcredit2, Journal of Sensors 2018), in lines of so many characters.
    pub fn to_bars(&self, width: usize) -> String {
        let longest = |names: &mut dyn Iterator<Item = &String>| {
            names.map(|name| name.chars().count()).max().unwrap_or(0).clamp(7, 20)
        };
        let names = longest(&mut self.domains.iter().map(|domain| &domain.name));
        let vcpus = self.domains.iter().flat_map(|domain| &domain.vcpus);
        let vcpus = longest(&mut vcpus.map(|vcpu| &vcpu.name));
        let bars = width.saturating_sub(names + vcpus + 14).clamp(10, 100);
        let mut out = format!("{}, {}\n", self.title(), self.when());
        for domain in self.domains.iter().filter(|domain| !domain.ended) {
            let mut write = |name: &str, of: &str, value: f64| {
                let (name, of) = (fitted(name, names), fitted(of, vcpus));
                let bar = bar(value, bars);
                // Writing to a String cannot fail.
                let _ = writeln!(out, "{name}  {of} {:>5} % |{bar}|", percent(value));
            };
            for (index, vcpu) in domain.vcpus.iter().enumerate() {
                let name = if index == 0 { domain.name.as_str() } else { "" };
                write(name, &vcpu.name, vcpu.rates.gotten_percent);
            }
            write("", "average", domain.average_percent());
        }
        out
    }

    /// Whose figures these are.
    pub(crate) fn title(&self) -> String {
        let Host { name, source, pcpus, .. } = &self.host;
        let busy = percent(self.busy_percent());
        let domains = match self.domains.iter().filter(|domain| !domain.ended).count() {
            1 => "1 domain".to_owned(),
            count => format!("{count} domains"),
        };
        harmless(&format!("{name}: {source}, {pcpus} pCPUs {busy} % busy, {domains}"))
    }

    /// Its end, as time of day or since the beginning of a simulation, and its length.
    pub(crate) fn when(&self) -> String {
        let zone = if self.host.began_unix_ns.is_some() { " UTC" } else { " s" };
        format!("{}{zone} over {}", self.clock(self.time_ns), time(self.length_ns))
    }

    /// A time since the source began: the time of day, or seconds of a simulation.
    pub(crate) fn clock(&self, time_ns: u64) -> String {
        match self.host.began_unix_ns {
            Some(began_ns) => {
                let s = (began_ns.saturating_add(time_ns) / 1_000_000_000) % 86_400;
                format!("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
            }
            None => format!("{:.3}", time_ns as f64 / 1e9),
        }
    }

    /// The same to be told from others nearby.
    pub(crate) fn moment(&self, time_ns: u64) -> String {
        match self.host.began_unix_ns {
            Some(began_ns) => {
                let ms = began_ns.saturating_add(time_ns) / 1_000_000 % 1000;
                format!("{}.{ms:03}", self.clock(time_ns))
            }
            None => format!("{:.6} s", time_ns as f64 / 1e9),
        }
    }
}

fn bar(percent: f64, width: usize) -> String {
    let filled = ((percent / 100.0).clamp(0.0, 1.0) * width as f64).round() as usize;
    format!("{:<width$}", "#".repeat(filled))
}
