// SPDX-License-Identifier: GPL-2.0-only
//! The control groups that share out CPU time among the threads of a Linux host, of either version.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::weight::Scale;

/// Where a control group is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPath {
    /// Of its hierarchy.
    root: PathBuf,
    /// From there; empty: the group of the whole host.
    path: PathBuf,
    scale: Scale,
}

impl GroupPath {
    /// The one that a thread is in.
    ///
    /// `thread`: its directory of `/proc`; `groups`: where control groups are mounted, `/sys/fs/cgroup`. None: it has
    /// ended, or where it is cannot be told.
    pub fn of_thread(thread: &Path, groups: &Path) -> Option<GroupPath> {
        let text = fs::read_to_string(thread.join("cgroup")).ok()?;
        let mut lines = text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        let of_cpu = |controllers: &str| controllers.split(',').any(|name| name == "cpu");
        let (controllers, path) = match lines.clone().find(|(names, _)| of_cpu(names)) {
            Some(line) => line,
            None => lines.find(|(names, _)| names.is_empty())?,
        };
        let path = Path::new(path.strip_prefix('/')?);
        // Beyond the root of a namespace nothing can be told.
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return None;
        }
        // A hierarchy of several controllers is mounted under one order of them, and linked to under each name.
        let (roots, scale) = match controllers {
            "" => (["", "unified"], Scale::Group),
            names => ([names, "cpu"], Scale::Shares),
        };
        let mut roots = roots.iter().map(|root| groups.join(root));
        let root = roots.find(|root| root.join(path).is_dir())?;
        Some(GroupPath { root, path: path.to_owned(), scale })
    }

    /// From the root of its hierarchy.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// This one and those around it, the innermost first, without that of the whole host.
    pub fn chain(&self) -> impl Iterator<Item = GroupPath> {
        let groups = self.path.ancestors().filter(|path| !path.as_os_str().is_empty());
        groups.map(|path| GroupPath { path: path.to_owned(), ..self.clone() })
    }

    /// All that are side by side in that of the whole host.
    pub fn outermost(&self) -> Vec<GroupPath> {
        let Ok(entries) = fs::read_dir(&self.root) else { return vec![] };
        let groups = entries.flatten().filter(|it| it.file_type().is_ok_and(|kind| kind.is_dir()));
        groups.map(|it| GroupPath { path: it.file_name().into(), ..self.clone() }).collect()
    }

    /// CPU time of all in it so far.
    pub fn used_ns(&self) -> Option<u64> {
        match self.scale {
            Scale::Shares => self.number("cpuacct.usage"),
            _ => {
                let text = self.read("cpu.stat")?;
                let used = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
                used.trim().parse::<u64>().ok()?.checked_mul(1000)
            }
        }
    }

    /// For how long somebody in it has waited for a CPU so far, where the kernel counts that.
    pub fn stalled_ns(&self) -> Option<u64> {
        let text = self.read("cpu.pressure")?;
        let some = text.lines().find(|line| line.starts_with("some "))?;
        some.split_once("total=")?.1.trim().parse::<u64>().ok()?.checked_mul(1000)
    }

    /// 256 being the usual one. None: without the controller its members are those of the group around it.
    pub fn weight(&self) -> Option<u64> {
        let file = match self.scale {
            Scale::Shares => "cpu.shares",
            _ => "cpu.weight",
        };
        Some(self.scale.weight(self.read(file)?.trim().parse().ok()?))
    }

    /// Its quota in percent of one pCPU, at least 1; none if it has none.
    pub fn cap_percent(&self) -> Option<u64> {
        // -1 and `max` are none, and no numbers here.
        let (quota, period) = match self.scale {
            Scale::Shares => (self.number("cpu.cfs_quota_us")?, self.number("cpu.cfs_period_us")?),
            _ => {
                let text = self.read("cpu.max")?;
                let (quota, period) = text.trim().split_once(' ')?;
                (quota.parse::<u64>().ok()?, period.parse().ok()?)
            }
        };
        Some(quota.saturating_mul(100).checked_div(period)?.max(1))
    }

    /// CPU time of its quota that it may save for later.
    pub fn cap_burst_ns(&self) -> u64 {
        self.number(self.scale.burst_file()).unwrap_or(0).saturating_mul(1000)
    }

    fn number(&self, file: &str) -> Option<u64> {
        self.read(file)?.trim().parse().ok()
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.root.join(&self.path).join(file)).ok()
    }
}

/// The group by which the weight of a virtual machine is set, of whose vCPU this is the group: the systemd unit around
/// it, within which libvirt and others have groups of their own; without systemd libvirt has each vCPU's, `vcpu0`, in the
/// machine's. None: the path does not tell.
#[must_use]
pub fn own(path: &Path) -> Option<&Path> {
    unit(path).or_else(|| {
        let name = path.file_name()?.to_str()?;
        let number = name.strip_prefix("vcpu")?;
        (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| path.parent())?
            .filter(|group| !group.as_os_str().is_empty())
    })
}

/// The innermost systemd unit that a group is in.
#[must_use]
pub fn unit(path: &Path) -> Option<&Path> {
    let is_unit = |name: &str| name.ends_with(".scope") || name.ends_with(".service");
    path.ancestors()
        .find(|group| group.file_name().is_some_and(|name| name.to_str().is_some_and(is_unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host's `/proc/1` and `/sys/fs/cgroup` with these files.
    fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, Option<GroupPath>) {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let at = |name: &str| directory.path().join(name);
        let group = GroupPath::of_thread(&at("1"), &at("groups"));
        (directory, group)
    }

    #[test]
    fn groups_of_version_2_are_read_from_the_innermost() {
        let (_directory, group) = host(&[
            ("1/cgroup", "0::/machine.slice/web.scope/vcpu0\n"),
            ("groups/machine.slice/cpu.weight", "50\n"),
            ("groups/machine.slice/cpu.max", "max 100000\n"),
            ("groups/machine.slice/web.scope/cpu.weight", "200\n"),
            ("groups/machine.slice/web.scope/cpu.max", "150000 100000\n"),
            ("groups/machine.slice/web.scope/vcpu0/cgroup.procs", ""),
        ]);
        let chain: Vec<_> = group.unwrap().chain().collect();
        let paths: Vec<_> = chain.iter().map(|it| it.path().to_str().unwrap()).collect();
        assert_eq!(
            paths,
            ["machine.slice/web.scope/vcpu0", "machine.slice/web.scope", "machine.slice"]
        );
        let weights: Vec<_> = chain.iter().map(GroupPath::weight).collect();
        assert_eq!(weights, [None, Some(512), Some(128)]);
        let caps: Vec<_> = chain.iter().map(GroupPath::cap_percent).collect();
        assert_eq!(caps, [None, Some(150), None]);
    }

    #[test]
    fn groups_of_version_1_are_read_where_the_controller_is() {
        let (_directory, group) = host(&[
            ("1/cgroup", "4:memory:/elsewhere\n3:cpuacct,cpu:/web\n0::/\n"),
            ("groups/cpu/web/cpu.shares", "2048\n"),
            ("groups/cpu/web/cpu.cfs_quota_us", "25000\n"),
            ("groups/cpu/web/cpu.cfs_period_us", "50000\n"),
            ("groups/cpu/web/cpu.cfs_burst_us", "20000\n"),
        ]);
        let group = group.unwrap();
        assert_eq!(group.cap_burst_ns(), 20_000_000);
        assert_eq!((group.weight(), group.cap_percent()), (Some(512), Some(50)));
        assert_eq!(group.chain().count(), 1);
    }

    #[test]
    fn the_group_of_a_machine_is_its_unit_or_around_its_vcpus() {
        for (path, expected) in [
            (
                "machine.slice/machine-qemu-1-web.scope/libvirt/vcpu0",
                Some("machine.slice/machine-qemu-1-web.scope"),
            ),
            ("system.slice/web.service", Some("system.slice/web.service")),
            ("machine/qemu-1-web.libvirt-qemu/vcpu11", Some("machine/qemu-1-web.libvirt-qemu")),
            ("vcpu0", None),
            ("machine/vcpus", None),
            ("machine/vcpu", None),
            ("", None),
        ] {
            assert_eq!(own(Path::new(path)), expected.map(Path::new), "{path}");
        }
    }

    #[test]
    fn what_groups_used_and_waited_for_is_read() {
        let (_directory, group) = host(&[
            ("1/cgroup", "0::/machine.slice/web.scope\n"),
            ("groups/machine.slice/web.scope/cgroup.procs", ""),
            ("groups/cgroup.procs", ""),
            ("groups/system.slice/cpu.stat", "usage_usec 1500\nuser_usec 1000\n"),
            (
                "groups/system.slice/cpu.pressure",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=70\n",
            ),
        ]);
        let mut outermost = group.unwrap().outermost();
        outermost.sort_by(|one, other| one.path().cmp(other.path()));
        let told: Vec<_> = outermost
            .iter()
            .map(|it| (it.path().to_str(), it.used_ns(), it.stalled_ns()))
            .collect();
        assert_eq!(
            told,
            [
                (Some("machine.slice"), None, None),
                (Some("system.slice"), Some(1_500_000), Some(70_000))
            ]
        );
    }

    #[test]
    fn what_cannot_be_told_is_none() {
        for text in
            ["", "0::/../other\n", "0::/not-there\n", "nonsense\n", "1:cpu\n", "0::relative\n"]
        {
            let (_directory, group) = host(&[("1/cgroup", text), ("groups/cgroup.procs", "")]);
            assert_eq!(group, None, "{text}");
        }
        let (_directory, group) = host(&[
            ("1/cgroup", "0::/web\n"),
            ("groups/web/cpu.weight", "many\n"),
            ("groups/web/cpu.max", "100 0\n"),
        ]);
        let group = group.unwrap();
        assert_eq!((group.weight(), group.cap_percent()), (None, None));
    }
}
