// SPDX-License-Identifier: GPL-2.0-only
//! How the engine numbers the CPUs of this host: those of a core, of a last-level cache, of a NUMA node and of a socket
//! follow each other, which the kernel's numbers need not.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Levels of `enum engine_level`.
pub(crate) const LEVELS: usize = 4;
/// Where the kernel tells what CPUs share.
pub(crate) const CPUS: &str = "/sys/devices/system/cpu";

/// The engine's numbers of pCPUs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// How many of them are a group of each level, from core to socket.
    pub level_pcpus: [u32; LEVELS],
    /// The kernel's number of each; none: groups are not of the same size, and no CPU has this one.
    pub cpus: Vec<Option<u32>>,
}

impl Numbers {
    /// Of these CPUs in the order of the kernel's numbers; `groups` tells of each in which socket, node, cache and
    /// core it is. A group is cut at the end of the wider one, as Linux's scheduling domains are. Where there would be
    /// more than `most` numbers, all CPUs are equally near.
    pub fn new(cpus: &[u32], groups: impl Fn(u32) -> [String; LEVELS], most: usize) -> Numbers {
        // Of each group, by the names of those that it is in and its own: its place in the one before.
        let mut places: HashMap<Vec<String>, u32> = HashMap::new();
        // How many it has in it so far, and the most that one of this level has.
        let mut parts: HashMap<Vec<String>, u32> = HashMap::new();
        let mut most_parts = [1; LEVELS + 1];
        let mut paths = vec![];
        for &cpu in cpus {
            let mut names = vec![];
            let own = groups(cpu).into_iter().chain([cpu.to_string()]);
            let path: Vec<u32> = own
                .zip(&mut most_parts)
                .map(|(name, most)| {
                    let part = parts.entry(names.clone()).or_insert(0);
                    names.push(name);
                    let place = *places.entry(names.clone()).or_insert_with(|| {
                        *part += 1;
                        *part - 1
                    });
                    *most = (*most).max(*part);
                    place
                })
                .collect();
            paths.push(path);
        }
        // From the socket to the single pCPU.
        let mut sizes = [1; LEVELS + 1];
        for level in (0..LEVELS).rev() {
            sizes[level] = sizes[level + 1] * most_parts[level + 1];
        }
        let count = (sizes[0] * most_parts[0]) as usize;
        if count > most {
            let all = cpus.len() as u32;
            let cpus = cpus.iter().copied().map(Some).collect();
            return Numbers { level_pcpus: [1, all, all, all], cpus };
        }
        let mut numbers = vec![None; count];
        for (&cpu, path) in cpus.iter().zip(&paths) {
            let number: u32 = path.iter().zip(sizes).map(|(place, size)| place * size).sum();
            numbers[number as usize] = Some(cpu);
        }
        let [socket, node, cache, core, _] = sizes;
        Numbers { level_pcpus: [core, cache, node, socket], cpus: numbers }
    }
}

/// Names of the socket, node, last-level cache and core of a CPU, as this directory tells. What it does not tell
/// all CPUs have in common, but for the core.
pub(crate) fn groups(directory: &Path, cpu: u32) -> [String; LEVELS] {
    let directory = directory.join(format!("cpu{cpu}"));
    let text = |path: &str| {
        let text = fs::read_to_string(directory.join(path)).ok()?;
        Some(text.trim().to_owned())
    };
    let entries = |path: &str, prefix: &'static str| {
        let entries = fs::read_dir(directory.join(path)).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(move |name| {
            let number = name.strip_prefix(prefix);
            number.is_some_and(|number| number.parse::<u32>().is_ok())
        })
    };
    let caches = entries("cache", "index").filter_map(|index| {
        let level: u32 = text(&format!("cache/{index}/level"))?.parse().ok()?;
        Some((level, text(&format!("cache/{index}/shared_cpu_list"))?))
    });
    [
        text("topology/physical_package_id").unwrap_or_default(),
        entries("", "node").min().unwrap_or_default(),
        caches.max().map(|(_, shared)| shared).unwrap_or_default(),
        text("topology/core_cpus_list").unwrap_or_else(|| cpu.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(cpus: u32, groups: impl Fn(u32) -> [u32; LEVELS]) -> Numbers {
        let cpus: Vec<u32> = (0..cpus).collect();
        Numbers::new(&cpus, |cpu| groups(cpu).map(|name| name.to_string()), 512)
    }

    fn kernel_numbers(numbers: &Numbers) -> Vec<u32> {
        numbers.cpus.iter().flatten().copied().collect()
    }

    /// Threads of a core are half of the host apart, as on most machines; two sockets of two nodes of two caches.
    #[test]
    fn what_is_together_gets_numbers_side_by_side() {
        let numbers = numbers(32, |cpu| [cpu % 16 / 8, cpu % 16 / 4, cpu % 16 / 2, cpu % 16]);
        assert_eq!(numbers.level_pcpus, [2, 4, 8, 16]);
        assert_eq!(kernel_numbers(&numbers)[..8], [0, 16, 1, 17, 2, 18, 3, 19]);
        assert_eq!(kernel_numbers(&numbers)[16..20], [8, 24, 9, 25]);
    }

    /// CPUs in turn of two sockets, each a node.
    #[test]
    fn sockets_that_alternate_are_told_apart() {
        let numbers = numbers(6, |cpu| [cpu % 2, cpu % 2, cpu % 2, cpu]);
        assert_eq!(numbers.level_pcpus, [1, 3, 3, 3]);
        assert_eq!(kernel_numbers(&numbers), [0, 2, 4, 1, 3, 5]);
    }

    /// Two cores of two threads and three of one.
    #[test]
    fn where_groups_differ_numbers_stay_free() {
        let numbers = numbers(7, |cpu| [0, 0, 0, if cpu < 4 { cpu / 2 } else { cpu }]);
        assert_eq!(numbers.level_pcpus, [2, 10, 10, 10]);
        let expected = [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (6, 5), (8, 6)];
        let mut cpus = vec![None; 10];
        expected.iter().for_each(|&(number, cpu)| cpus[number] = Some(cpu));
        assert_eq!(numbers.cpus, cpus);
    }

    /// A cache that spans two nodes, which span two sockets: the wider group cuts.
    #[test]
    fn a_group_ends_where_the_wider_one_does() {
        let snc = numbers(8, |cpu| [0, cpu / 4, 0, cpu]);
        assert_eq!(snc.level_pcpus, [1, 4, 4, 8]);
        let interleaved = numbers(8, |cpu| [cpu / 4, 0, cpu / 2, cpu]);
        assert_eq!(interleaved.level_pcpus, [1, 2, 4, 4]);
    }

    /// Sixteen sockets of a single CPU beside one of 64: each would need 64 numbers.
    #[test]
    fn what_does_not_fit_is_flat() {
        let cpus: Vec<u32> = (0..80).collect();
        let lone = |cpu: u32| if cpu < 64 { 0 } else { cpu };
        let numbers = Numbers::new(&cpus, |cpu| [lone(cpu), 0, 0, cpu].map(|n| n.to_string()), 512);
        assert_eq!(numbers.level_pcpus, [1, 80, 80, 80]);
        assert_eq!(kernel_numbers(&numbers), cpus);
    }

    /// What the kernel writes, of one CPU with everything and of one with nothing.
    #[test]
    fn groups_are_read() {
        let root = std::env::temp_dir().join(format!("steelyard-topology-{}", std::process::id()));
        for (path, text) in [
            ("topology/physical_package_id", "1\n"),
            ("topology/core_cpus_list", "5,21\n"),
            ("cache/index0/level", "1\n"),
            ("cache/index0/shared_cpu_list", "5,21\n"),
            ("cache/index3/level", "3\n"),
            ("cache/index3/shared_cpu_list", "4-7,20-23\n"),
            ("cache/uevent", ""),
            ("node2/uevent", ""),
        ] {
            let path = root.join("cpu5").join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("a writable directory");
            fs::write(path, text).expect("a writable directory");
        }
        let (told, untold) = (groups(&root, 5), groups(&root, 6));
        fs::remove_dir_all(&root).expect("what was made");
        assert_eq!(told, ["1", "node2", "4-7,20-23", "5,21"]);
        assert_eq!(untold, ["", "", "", "6"]);
    }
}
