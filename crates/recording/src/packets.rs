// SPDX-License-Identifier: GPL-2.0-only
//! How many packets a domain has received: its process holds the tap devices of its network cards
//! open, and what the host transmits through a tap the domain receives.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

/// Taps of a process are looked for again after so many rounds: network cards come and go.
const ROUNDS: u32 = 50;

/// The counters of all domains.
#[derive(Debug, Default)]
pub struct Packets {
    round: u32,
    domains: HashMap<i32, Taps>,
}

#[derive(Debug)]
struct Taps {
    names: HashSet<String>,
    /// What had been received when the domain was seen first.
    before: u64,
    round: u32,
}

impl Packets {
    /// Another round of questions begins.
    pub fn begin(&mut self) {
        self.round = self.round.wrapping_add(1);
        // Those that nobody asks for any more.
        let round = self.round;
        self.domains.retain(|_, taps| round.wrapping_sub(taps.round) <= ROUNDS);
    }

    /// Packets that this process has received since it was asked for first.
    pub fn received(&mut self, pid: i32) -> u64 {
        let known = self.domains.remove(&pid);
        let taps = match known {
            Some(taps) if self.round.wrapping_sub(taps.round) < ROUNDS => taps,
            other => {
                let names = taps_of(pid);
                let before = other.map_or_else(|| sum(&names), |taps| taps.before);
                Taps { names, before, round: self.round }
            }
        };
        let received = sum(&taps.names).saturating_sub(taps.before);
        self.domains.insert(pid, taps);
        received
    }
}

/// The names of the tap devices that the process has open.
fn taps_of(pid: i32) -> HashSet<String> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fdinfo")) else { return HashSet::new() };
    let texts = entries.flatten().filter_map(|entry| fs::read_to_string(entry.path()).ok());
    texts.filter_map(|text| tap_in(&text).map(str::to_owned)).collect()
}

/// The tap device of an open file, as the kernel describes the file.
fn tap_in(fdinfo: &str) -> Option<&str> {
    let name = fdinfo.lines().find_map(|line| line.strip_prefix("iff:"))?.trim();
    (!name.is_empty()).then_some(name)
}

fn sum(names: &HashSet<String>) -> u64 {
    let counter = |name: &String| {
        let path = Path::new("/sys/class/net").join(name).join("statistics/tx_packets");
        fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()
    };
    names.iter().filter_map(counter).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taps_are_found_in_what_the_kernel_says_of_files() {
        assert_eq!(tap_in("pos:\t0\nflags:\t02104002\nmnt_id:\t15\niff:\tvnet3\n"), Some("vnet3"));
        assert_eq!(tap_in("pos:\t0\nflags:\t02\niff:\t\n"), None);
        assert_eq!(tap_in("pos:\t0\nflags:\t02\n"), None);
    }

    #[test]
    fn a_process_without_taps_receives_nothing() {
        let mut packets = Packets::default();
        let own = std::process::id() as i32;
        for _ in 0..2 * ROUNDS {
            packets.begin();
            assert_eq!(packets.received(own), 0);
        }
        assert_eq!(packets.domains.len(), 1);
    }
}
