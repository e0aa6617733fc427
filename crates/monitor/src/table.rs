// SPDX-License-Identifier: GPL-2.0-only
//! An interval as plain text: the whole table, or only the bars.

use std::fmt::Write as _;

use crate::columns::{COLUMNS, Column, Layout, Row, Unit, fitted, harmless, percent, time};
use crate::interval::{DomainInterval, Interval};
use steelyard_recording::Host;

/// Where there are no domains.
pub(crate) const NOBODY: &str =
    "no virtual machine with threads named CPU n/KVM (QEMU: debug-threads=on)";

/// What ran beside virtual machines.
pub(crate) const REST: &str = "rest of the host";

/// Rows as CSV, as they read in a table; times of CPUs are in percent of one.
pub(crate) fn to_csv(rows: &[Row], columns: &[&Column], titles: bool) -> String {
    let mut writer = csv::Writer::from_writer(vec![]);
    let unit = rows.first().map_or(Unit::default(), |row| row.unit);
    let head = ["time", "domain", "vcpu"].map(str::to_owned);
    let head = head.into_iter().chain(columns.iter().map(|column| column.title(unit)));
    let lines = rows.iter().filter(|row| !row.domain.ended).map(|row| {
        let vcpu = row.vcpu.map_or(String::new(), |vcpu| harmless(&vcpu.name));
        let names = [row.interval.clock(row.interval.time_ns), harmless(&row.domain.name), vcpu];
        let figures = columns.iter().map(|column| (column.text)(*row).unwrap_or_default());
        names.into_iter().chain(figures).collect::<Vec<String>>()
    });
    let lines: Vec<Vec<String>> = lines.collect();
    for line in titles.then(|| head.collect()).into_iter().chain(lines) {
        // Writing to memory cannot fail.
        let _ = writer.write_record(&line);
    }
    let bytes = writer.into_inner().unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

impl Interval {
    /// All columns of all domains and vCPUs as CSV, after a line of titles if they are wanted.
    #[must_use]
    pub fn to_csv(&self, titles: bool) -> String {
        let rows = self.domains.iter().flat_map(|domain| {
            let row = Row::of(self, domain);
            [row].into_iter().chain(domain.vcpus.iter().map(move |vcpu| row.vcpu(vcpu)))
        });
        to_csv(&rows.collect::<Vec<_>>(), &COLUMNS.iter().collect::<Vec<_>>(), titles)
    }

    /// Whether anything else can run on it: of a simulation, and of Xen, domains are all there is.
    pub(crate) fn has_rest(&self) -> bool {
        self.host.source.starts_with("Linux") || self.domains.iter().any(|it| !it.virtual_machine)
    }

    /// All that is known of virtual machines, of `all` domains, in lines of so many characters.
    pub fn to_table(&self, width: usize, all: bool) -> String {
        let shown = |domain: &&DomainInterval| all || domain.virtual_machine;
        let domains: Vec<&DomainInterval> = self.domains.iter().filter(shown).collect();
        let layout = Layout::new(width, self, &domains, None);
        let mut out = format!("{}, {}\n", self.title(usize::MAX), self.when());
        let mut header = format!("{:<1$}", "DOMAIN", layout.name);
        if layout.bar > 0 {
            let _ = write!(header, " {:1$}", "", layout.bar);
        }
        for column in &layout.columns {
            let _ = write!(header, " {:>1$}", column.title(Unit::default()), column.width);
        }
        let _ = writeln!(out, "{}", header.trim_end());
        for &domain in &domains {
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
        if domains.is_empty() {
            let _ = writeln!(out, "{NOBODY}");
        }
        if self.has_rest() {
            let _ = writeln!(out, "{REST}: {} % of a pCPU", percent(self.rest_percent));
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
        let mut out = format!("{}, {}\n", self.title(usize::MAX), self.when());
        let machines = self.domains.iter().filter(|it| !it.ended && it.virtual_machine);
        for domain in machines {
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

    /// Whose figures these are, in words that fit if some do: the number of domains goes first, then what tells of
    /// them.
    pub(crate) fn title(&self, width: usize) -> String {
        let Host { name, source, pcpus, .. } = &self.host;
        let busy = format!("{pcpus} pCPUs {} % busy", percent(self.busy_percent()));
        let machines = self.domains.iter().filter(|it| !it.ended && it.virtual_machine);
        let domains = match machines.count() {
            1 => "1 domain".to_owned(),
            count => format!("{count} domains"),
        };
        let titles = [
            format!("{name}: {source}, {busy}, {domains}"),
            format!("{name}: {source}, {busy}"),
            format!("{name}: {busy}"),
        ];
        let fits = titles.iter().find(|title| title.chars().count() <= width);
        harmless(fits.unwrap_or(&titles[2]))
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
