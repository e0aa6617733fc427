// SPDX-License-Identifier: GPL-2.0-only
//! Random input for everything that reads what others wrote. Each [`Target`] makes something of any
//! bytes, gives it to an entry point, and asks what must hold whatever it was. `make fuzz` lets libFuzzer
//! look for bytes that go where none went before; `make test` takes those that it found (`corpus/`) and
//! some thousand more from a fixed seed.
//!
//! To add one: a function, its line in [`TARGETS`], a binary in `Cargo.toml` and `targets/`.

mod command_line;
mod descriptions;
mod domain_settings;
mod goals;
mod limits;
mod plans;
mod policies;
mod recordings;
mod scenarios;
mod schema;
mod settings;
mod telling;
mod traces;
mod values;

pub use limits::MOST_BYTES;

/// Something that reads.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, that of its binary and that of its corpus.
    pub name: &'static str,
    /// Panics if something does not hold.
    run: fn(&[u8]),
    /// Longer inputs find nothing more.
    pub longest: usize,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "scenario", run: scenarios::text, longest: 4096 },
    Target { name: "set", run: scenarios::set, longest: 256 },
    Target { name: "settings", run: settings::text, longest: 1024 },
    Target { name: "domain_settings", run: domain_settings::any, longest: 1024 },
    Target { name: "simulation", run: scenarios::simulation, longest: 1024 },
    Target { name: "policy", run: policies::policy, longest: 256 },
    Target { name: "libvirt", run: descriptions::libvirt, longest: 4096 },
    Target { name: "xapi", run: descriptions::xapi, longest: 2048 },
    Target { name: "xl", run: descriptions::xl, longest: 2048 },
    Target { name: "host", run: descriptions::host, longest: 2048 },
    Target { name: "description", run: descriptions::pieces, longest: 512 },
    Target { name: "recording", run: recordings::perf, longest: 4096 },
    Target { name: "recording_lines", run: recordings::perf_lines, longest: 1024 },
    Target { name: "recording_zstd", run: recordings::zstd, longest: 1024 },
    Target { name: "recording_steelyard", run: recordings::steelyard, longest: 4096 },
    Target { name: "snapshots", run: recordings::snapshots, longest: 2048 },
    Target { name: "perfetto", run: traces::perfetto, longest: 4096 },
    Target { name: "perfetto_packets", run: traces::perfetto_packets, longest: 1024 },
    Target { name: "xentrace", run: traces::xentrace, longest: 4096 },
    Target { name: "xentrace_records", run: traces::xentrace_records, longest: 1024 },
    Target { name: "trace_events", run: traces::events, longest: 4096 },
    Target { name: "trace_events_lines", run: traces::event_lines, longest: 1024 },
    Target { name: "plan", run: plans::plan, longest: 2048 },
    Target { name: "journal", run: plans::journal, longest: 2048 },
    Target { name: "goal", run: goals::goal, longest: 128 },
    Target { name: "search", run: goals::search, longest: 1024 },
    Target { name: "command_line", run: command_line::arguments, longest: 256 },
    Target { name: "server", run: telling::server, longest: 1024 },
    Target { name: "text", run: telling::text, longest: 512 },
];

impl Target {
    /// Gives it an input; the most bytes that it held at a time.
    ///
    /// # Panics
    /// If something does not hold.
    pub fn take(&self, input: &[u8]) -> usize {
        limits::peak_bytes(self.name, || (self.run)(input))
    }
}

/// Gives the target of this name an input.
///
/// # Panics
/// If something does not hold, or there is no such target.
pub fn take(name: &str, input: &[u8]) {
    TARGETS.iter().find(|target| target.name == name).expect("the name of a target").take(input);
}
