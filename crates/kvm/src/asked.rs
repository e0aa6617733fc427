// SPDX-License-Identifier: GPL-2.0-only
//! What the control groups of a host ask for its domains, whose policy knows no groups: of each domain a weight beside
//! all others and a cap.
//!
//! A group's weight counts among its siblings, and groups are within groups: `steelyard_recording::groups` says what a
//! domain has beside all others then. That changes with who runs, so that this is found anew now and then, from what
//! each vCPU did since. Domains that nobody holds together, or that share a group, are held as if each had one of the
//! usual weight there. Only relations count, and the sum of all weights is kept: where no group is within another, each
//! has the weight of its own.
//!
//! A cap is the least quota of the groups that hold a domain, with the burst of that group. libvirt also gives each vCPU
//! a group of its own; the quotas of these together are a cap of the domain as well. A quota that several domains share
//! is not divided: each may use all of it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use steelyard_recording::groups::{Groups, Member};
use steelyard_recording::weight::USUAL;
use steelyard_recording::{Group, GroupPath};
use steelyard_simulator::limits;

/// A vCPU, as the program has it.
pub struct Thread {
    /// Number of its thread.
    pub tid: i32,
    /// Part of the time since it was looked at before in which it ran or waited, from 0 to 1.
    pub activity: f64,
}

/// What is asked of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// 256 being the usual one.
    pub weight: u64,
    /// 0: none.
    pub cap_percent: u64,
    /// What of it may be saved for later.
    pub cap_burst_ns: u64,
}

/// How a domain is held.
struct Held {
    /// What holds all its vCPUs, the innermost first.
    groups: Vec<Group>,
    cap: Option<Cap>,
}

/// The less is the stricter.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Cap {
    /// 0: none.
    percent: u64,
    burst_ns: u64,
}

impl Cap {
    fn of(group: &GroupPath) -> Option<Cap> {
        Some(Cap { percent: group.cap_percent()?, burst_ns: group.cap_burst_ns() })
    }

    /// Of vCPUs, each with a cap of its own.
    fn together(caps: impl Iterator<Item = Option<Cap>>) -> Option<Cap> {
        let add = |sum: Cap, cap: Cap| Cap {
            percent: sum.percent.saturating_add(cap.percent),
            burst_ns: sum.burst_ns.saturating_add(cap.burst_ns),
        };
        let all: Option<Vec<Cap>> = caps.collect();
        all?.into_iter().reduce(add)
    }
}

/// What is asked of these domains, each a process with its vCPUs, in the same order.
pub fn asked(proc: &Path, groups: &Path, domains: &[(i32, Vec<Thread>)]) -> Vec<Asked> {
    let mut read = Reader { groups, ids: HashMap::new() };
    let mut held: Vec<Held> =
        domains.iter().map(|(pid, vcpus)| read.held(&proc.join(pid.to_string()), vcpus)).collect();
    let mut shared = HashMap::<Option<u64>, u32>::new();
    for domain in &held {
        *shared.entry(domain.groups.first().map(|group| group.id)).or_default() += 1;
    }
    for (number, domain) in held.iter_mut().enumerate() {
        let within = domain.groups.first().map(|group| group.id);
        if within.is_none() || shared[&within] > 1 {
            // Unlike any that was read: those count up from 0.
            domain.groups.insert(0, Group { id: u64::MAX - number as u64, weight: USUAL as u32 });
        }
    }
    let members = || {
        held.iter().zip(domains).enumerate().flat_map(|(number, (held, (_, vcpus)))| {
            vcpus.iter().map(move |vcpu| Member {
                domain: Some(number),
                groups: &held.groups,
                weight: USUAL as f64,
                activity: vcpu.activity,
            })
        })
    };
    let tree = Groups::of(members());
    let beside: Vec<f64> = held.iter().map(|it| tree.weight(&it.groups).unwrap_or(0.0)).collect();
    let own: u64 = held.iter().map(|it| nearest(&it.groups)).sum();
    let scale = own as f64 / beside.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let answer = |(held, weight): (&Held, f64)| {
        let weight = (weight * scale).round() as u64;
        let cap = held.cap.unwrap_or_default();
        Asked {
            weight: weight.clamp(limits::WEIGHT.least, limits::WEIGHT.most),
            cap_percent: cap.percent.min(limits::CAP_PERCENT.most),
            cap_burst_ns: cap.burst_ns.min(limits::CAP_BURST_NS.most),
        }
    };
    held.iter().zip(beside).map(answer).collect()
}

/// The first weight that somebody chose.
fn nearest(groups: &[Group]) -> u64 {
    let chosen = groups.iter().map(|group| group.weight.into()).find(|&weight| weight != USUAL);
    chosen.unwrap_or(USUAL)
}

struct Reader<'a> {
    /// Where control groups are.
    groups: &'a Path,
    ids: HashMap<PathBuf, u64>,
}

impl Reader<'_> {
    fn held(&mut self, process: &Path, vcpus: &[Thread]) -> Held {
        let chain = |vcpu: &Thread| -> Vec<GroupPath> {
            let thread = process.join("task").join(vcpu.tid.to_string());
            let innermost = GroupPath::of_thread(&thread, self.groups);
            innermost.iter().flat_map(GroupPath::chain).collect()
        };
        let chains: Vec<_> = vcpus.iter().map(chain).collect();
        let Some((first, others)) = chains.split_first() else {
            return Held { groups: vec![], cap: None };
        };
        let is_common = |group: &&GroupPath| others.iter().all(|chain| chain.contains(group));
        let common: Vec<_> = first.iter().filter(is_common).collect();
        let least = |groups: &[GroupPath]| groups.iter().filter_map(Cap::of).min();
        let within = |chain: &Vec<GroupPath>| least(&chain[..chain.len() - common.len()]);
        let together = Cap::together(chains.iter().map(within));
        let cap = common.iter().filter_map(|group| Cap::of(group)).chain(together).min();
        let told = |group: &&GroupPath| {
            let next = self.ids.len() as u64;
            let id = *self.ids.entry(group.path().to_owned()).or_insert(next);
            Some(Group { id, weight: u32::try_from(group.weight()?).ok()? })
        };
        Held { groups: common.iter().filter_map(told).collect(), cap }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A host in a directory.
    struct Host(tempfile::TempDir);

    impl Host {
        fn new() -> Host {
            let host = Host(tempfile::tempdir().unwrap());
            host.write("groups/cgroup.procs", "");
            host
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.0.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn group(&self, name: &str, weight: u64, max: &str) {
            self.write(&format!("groups/{name}/cpu.weight"), &weight.to_string());
            self.write(&format!("groups/{name}/cpu.max"), max);
        }

        /// Of a process of this number, whose threads have those that follow: the groups they are in.
        fn asked(&self, domains: &[(i32, &[(&str, f64)])]) -> Vec<(u64, u64)> {
            self.all_asked(domains).iter().map(|it| (it.weight, it.cap_percent)).collect()
        }

        fn all_asked(&self, domains: &[(i32, &[(&str, f64)])]) -> Vec<Asked> {
            let domains: Vec<_> = domains
                .iter()
                .map(|(pid, vcpus)| {
                    let threads = (pid + 1..).zip(*vcpus).map(|(tid, &(group, activity))| {
                        self.write(&format!("{pid}/task/{tid}/cgroup"), &format!("0::/{group}\n"));
                        Thread { tid, activity }
                    });
                    (*pid, threads.collect())
                })
                .collect();
            let groups = self.0.path().join("groups");
            asked(self.0.path(), &groups, &domains)
        }
    }

    #[test]
    fn side_by_side_each_has_its_own_weight_whoever_runs() {
        let host = Host::new();
        host.group("machine.slice", 100, "max 100000");
        host.group("machine.slice/a.scope", 50, "max 100000");
        host.group("machine.slice/b.scope", 400, "150000 100000");
        for activity in [0.0, 0.1, 1.0] {
            let asked = host.asked(&[
                (10, &[("machine.slice/a.scope", 1.0)]),
                (20, &[("machine.slice/b.scope", activity); 2]),
            ]);
            assert_eq!(asked, [(128, 0), (1024, 150)], "{activity}");
        }
    }

    #[test]
    fn groups_divide_what_the_group_around_them_has() {
        let host = Host::new();
        for slice in ["one", "two"] {
            host.group(slice, 100, "max 100000");
            for name in ["a", "b", "c"] {
                host.group(&format!("{slice}/{name}"), 100, "max 100000");
            }
        }
        let busy = |group| (group, 1.0);
        // A half for the one, and a sixth for each of three: three quarters of 4 x 256 are 512 and 170.67 thrice.
        let all: [&[_]; 4] =
            [&[busy("one/a")], &[busy("two/a")], &[busy("two/b")], &[busy("two/c")]];
        let asked = host.asked(&[(10, all[0]), (20, all[1]), (30, all[2]), (40, all[3])]);
        assert_eq!(asked, [(512, 0), (171, 0), (171, 0), (171, 0)]);
        // While nobody else of that slice runs, its one has the half.
        let idle: &[_] = &[("two/b", 0.0)];
        let asked = host.asked(&[(10, all[0]), (20, all[1]), (30, idle)]);
        assert_eq!(asked, [(256, 0), (256, 0), (256, 0)]);
    }

    #[test]
    fn a_cap_is_the_least_of_all_around_a_domain_and_of_its_vcpus_together() {
        let host = Host::new();
        host.group("slice", 100, "300000 100000");
        host.group("slice/vm", 100, "max 100000");
        host.group("slice/vm/vcpu0", 100, "40000 100000");
        host.group("slice/vm/vcpu1", 100, "30000 100000");
        let vcpus = [("slice/vm/vcpu0", 1.0), ("slice/vm/vcpu1", 1.0)];
        assert_eq!(host.asked(&[(10, &vcpus)]), [(256, 70)]);
        host.group("slice/vm/vcpu1", 100, "max 100000");
        assert_eq!(host.asked(&[(10, &vcpus)]), [(256, 300)]);
        host.group("slice/vm", 100, "500 100000");
        assert_eq!(host.asked(&[(10, &vcpus)]), [(256, 1)]);
    }

    #[test]
    fn a_burst_is_that_of_the_group_that_caps() {
        let host = Host::new();
        host.group("slice", 100, "300000 100000");
        host.write("groups/slice/cpu.max.burst", "100000");
        for (vcpu, burst_us) in [("vcpu0", "7000"), ("vcpu1", "0")] {
            host.group(&format!("slice/vm/{vcpu}"), 100, "40000 100000");
            host.write(&format!("groups/slice/vm/{vcpu}/cpu.max.burst"), burst_us);
        }
        let vcpus: &[_] = &[("slice/vm/vcpu0", 1.0), ("slice/vm/vcpu1", 1.0)];
        let burst = || {
            let asked = host.all_asked(&[(10, vcpus)])[0];
            (asked.cap_percent, asked.cap_burst_ns)
        };
        assert_eq!(burst(), (80, 7_000_000));
        host.group("slice/vm/vcpu1", 100, "max 100000");
        assert_eq!(burst(), (300, 100_000_000));
    }

    /// The kernel shows a group of `cpu.idle` with a weight of 0.
    #[test]
    fn an_idle_group_has_the_least_weight() {
        let host = Host::new();
        host.group("idle", 0, "max 100000");
        host.group("other", 100, "max 100000");
        let asked = host.asked(&[(10, &[("idle", 1.0)]), (20, &[("other", 1.0)])]);
        assert_eq!(asked, [(1, 0), (256, 0)]);
    }

    #[test]
    fn who_shares_a_group_or_is_in_none_has_the_usual_weight_there() {
        let host = Host::new();
        host.group("session", 200, "max 100000");
        let shared: &[_] = &[("session", 1.0)];
        // 512 for both of them beside 256 for the third, of 512 + 512 + 256 in all.
        assert_eq!(
            host.asked(&[(10, shared), (20, shared), (30, &[("", 1.0)])]),
            [(427, 0), (427, 0), (427, 0)]
        );
        // Who has ended.
        assert_eq!(host.asked(&[(10, &[])]), [(256, 0)]);
        assert_eq!(host.asked(&[]), []);
    }
}
