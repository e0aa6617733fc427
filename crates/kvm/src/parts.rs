// SPDX-License-Identifier: GPL-2.0-only
//! What part of each pCPU the vCPUs have beside the other tasks of a host, by what its control groups ask for.
//!
//! The groups right in that of the whole host stand side by side: those that hold vCPUs on the one hand, all others on the
//! other. Each hand has the weights that are runnable there in the mean, as long as any is
//! (`steelyard_recording::groups`). That changes with who runs, so that it is found anew now and then: of vCPUs from what
//! each did since, of other groups from the CPU time that they used and, where the kernel counts that, waited for.
//!
//! Parts are equal where no group holds a vCPU, or no other is there: threads in no group have no weight together.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use steelyard_recording::groups::{Groups, Member};
use steelyard_recording::weight::USUAL;
use steelyard_recording::{Group, GroupPath};

use crate::asked::Thread;

/// Equal parts, `ENGINE_PARTS_EQUAL` of policy/engine/others.h.
pub const EQUAL: u32 = 1024;

/// Up to how many times of the others' part the engine tells vCPUs' parts apart, and down to what part of it:
/// `ENGINE_PARTS_MAX` and `ENGINE_PARTS_MIN`.
const MOST: u32 = 8;

/// What vCPUs with this part by that of all others have of a CPU, in percent, to a tenth.
pub fn percent(parts: u32) -> f64 {
    let parts = f64::from(parts.clamp(EQUAL / MOST, EQUAL * MOST));
    (1000.0 * parts / (parts + f64::from(EQUAL))).round() / 10.0
}

/// Around all groups of one hand.
const HAND: Group = Group { id: u64::MAX, weight: USUAL as u32 };

/// What the other groups did when they were looked at last, and when that was.
pub struct Parts {
    /// How many the host has that are online.
    cpus: u32,
    done_ns: HashMap<PathBuf, (Option<u64>, Option<u64>)>,
    looked: Instant,
}

impl Parts {
    /// Nothing is known yet. `cpus`: how many are online, at least 1; when that changes the scheduler begins anew.
    pub fn new(cpus: u32) -> Parts {
        Parts { cpus, done_ns: HashMap::new(), looked: Instant::now() }
    }

    /// The vCPUs' part by that of all others, in 1/[`EQUAL`]. `domains`: each a process with its vCPUs.
    pub fn look(&mut self, proc: &Path, groups: &Path, domains: &[(i32, Vec<Thread>)]) -> u32 {
        let since_ns = self.looked.elapsed().as_nanos().max(1) as f64;
        self.looked = Instant::now();
        let holds = |(pid, vcpus): &(i32, Vec<Thread>)| {
            let thread = proc.join(format!("{pid}/task/{}", vcpus.first()?.tid));
            GroupPath::of_thread(&thread, groups)?.chain().last()
        };
        let held: Vec<Option<GroupPath>> = domains.iter().map(holds).collect();
        let Some(any) = held.iter().flatten().next() else { return EQUAL };
        let is_other = |it: &GroupPath| !held.iter().flatten().any(|held| held == it);
        let others: Vec<GroupPath> = any.outermost().into_iter().filter(is_other).collect();
        let in_groups =
            held.iter().zip(domains).filter_map(|(it, domain)| Some((it.as_ref()?, domain)));
        let of_vcpus = in_groups
            .flat_map(|(group, (_, vcpus))| vcpus.iter().map(move |it| (group, it.activity)));
        let active = |group: &GroupPath, now: (Option<u64>, Option<u64>)| {
            let before = self.done_ns.get(group.path()).copied().unwrap_or(now);
            let passed_ns = |now: Option<u64>, before: Option<u64>| {
                now.unwrap_or(0).saturating_sub(before.unwrap_or(0)) as f64
            };
            let used_ns = passed_ns(now.0, before.0) / f64::from(self.cpus);
            (used_ns + passed_ns(now.1, before.1)) / since_ns
        };
        let done: Vec<_> = others.iter().map(|it| (it.used_ns(), it.stalled_ns())).collect();
        let of_others = others.iter().zip(&done).map(|(group, &now)| (group, active(group, now)));
        let (vcpus, rest) = (runnable(of_vcpus), runnable(of_others));
        let told = others.iter().map(|it| it.path().to_owned());
        self.done_ns = told.zip(done).collect();
        match (vcpus, rest) {
            // Far beyond where the engine tells parts apart.
            (Some(vcpus), Some(rest)) => (f64::from(EQUAL) * vcpus / rest).round() as u32,
            _ => EQUAL,
        }
    }
}

/// The weights that are runnable in the mean of those whose groups and activities these are; none if no group has any.
fn runnable<'a>(all: impl Iterator<Item = (&'a GroupPath, f64)>) -> Option<f64> {
    let mut ids = HashMap::<&Path, u64>::new();
    let members: Vec<([Group; 2], f64)> = all
        .filter_map(|(group, activity)| {
            let next = ids.len() as u64;
            let id = *ids.entry(group.path()).or_insert(next);
            let weight = u32::try_from(group.weight()?).ok()?;
            Some(([Group { id, weight }, HAND], activity))
        })
        .collect();
    let held = members.iter().map(|(groups, activity)| Member {
        domain: None,
        groups,
        weight: USUAL as f64,
        activity: *activity,
    });
    (!members.is_empty()).then(|| Groups::of(held).runnable(&HAND))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    struct Host(tempfile::TempDir);

    impl Host {
        fn new() -> Host {
            Host(tempfile::tempdir().unwrap())
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.0.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn group(&self, name: &str, weight: u64, used_us: u64) {
            self.write(&format!("groups/{name}/cpu.weight"), &weight.to_string());
            self.write(&format!("groups/{name}/cpu.stat"), &format!("usage_usec {used_us}\n"));
        }

        /// Of these vCPUs, busy ones.
        fn parts(&self, parts: &mut Parts, vcpus: &[&str]) -> u32 {
            let domains: Vec<_> = (1..)
                .zip(vcpus)
                .map(|(pid, group)| {
                    self.write(&format!("proc/{pid}/task/{pid}/cgroup"), &format!("0::/{group}\n"));
                    (pid, vec![Thread { tid: pid, activity: 1.0 }])
                })
                .collect();
            let at = |name: &str| self.0.path().join(name);
            parts.look(&at("proc"), &at("groups"), &domains)
        }
    }

    #[test]
    fn groups_that_hold_vcpus_stand_beside_those_that_use_the_cpu() {
        let host = Host::new();
        host.group("machine.slice", 300, 0);
        host.group("machine.slice/web", 100, 0);
        host.group("system.slice", 100, 0);
        host.group("user.slice", 100, 0);
        let mut parts = Parts::new(1);
        let web = ["machine.slice/web"; 2];
        // Nobody of the others runs: either might.
        assert_eq!(host.parts(&mut parts, &web), 3 * EQUAL);
        let mut used_us = 0;
        let both = ["system.slice", "user.slice"];
        for (runs, expected) in [(&both[..1], 3 * EQUAL), (&both, 3 * EQUAL / 2)] {
            sleep(Duration::from_millis(2));
            used_us += 1_000_000_000;
            for group in runs {
                host.group(group, 100, used_us);
            }
            assert!(host.parts(&mut parts, &web).abs_diff(expected) <= 1);
        }
    }

    #[test]
    fn parts_in_percent_are_those_that_the_engine_gives() {
        let told = [EQUAL, 3 * EQUAL, EQUAL / 2, 100 * EQUAL, 0].map(percent);
        assert_eq!(told, [50.0, 75.0, 33.3, 88.9, 11.1]);
    }

    #[test]
    fn parts_are_equal_where_nothing_is_asked() {
        let host = Host::new();
        host.group("machine.slice", 900, 0);
        // In no group; in one beside which there is none; without the controller.
        assert_eq!(host.parts(&mut Parts::new(1), &[""]), EQUAL);
        assert_eq!(host.parts(&mut Parts::new(1), &["machine.slice"]), EQUAL);
        host.write("groups/system.slice/cgroup.procs", "");
        assert_eq!(host.parts(&mut Parts::new(1), &["machine.slice"]), EQUAL);
        assert_eq!(host.parts(&mut Parts::new(1), &[]), EQUAL);
    }
}
