// SPDX-License-Identifier: GPL-2.0-only
//! The control group of a VM: which it is, and its files, each of which holds a line.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};
use steelyard_boundary::text::is_harmful;
use steelyard_recording::group_path::unit;
use steelyard_recording::weight::Scale;
use steelyard_simulator::units::CpuSet;

/// A file of a control group, and of no other that has its path later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupFile {
    /// The group.
    pub directory: PathBuf,
    /// Its inode.
    pub inode: u64,
    /// Which of its files.
    pub file: FileName,
}

/// Those that are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileName {
    /// Version 2: weight.
    #[serde(rename = "cpu.weight")]
    Weight,
    /// Version 2: quota and period, in us.
    #[serde(rename = "cpu.max")]
    Max,
    /// Version 1: weight.
    #[serde(rename = "cpu.shares")]
    Shares,
    /// Version 1: quota, in us.
    #[serde(rename = "cpu.cfs_quota_us")]
    Quota,
    /// Version 1: its period, in us.
    #[serde(rename = "cpu.cfs_period_us")]
    Period,
}

impl FileName {
    /// As it is called.
    pub fn word(self) -> &'static str {
        match self {
            FileName::Weight => "cpu.weight",
            FileName::Max => "cpu.max",
            FileName::Shares => "cpu.shares",
            FileName::Quota => "cpu.cfs_quota_us",
            FileName::Period => "cpu.cfs_period_us",
        }
    }

    /// Whether it can hold this.
    pub fn holds(self, value: &str) -> bool {
        let number = |text: &str| text.parse::<u32>().is_ok();
        match self {
            FileName::Weight | FileName::Shares | FileName::Period => number(value),
            FileName::Quota => value.parse::<i64>().is_ok(),
            FileName::Max => value.split_once(' ').is_some_and(|(quota, period)| {
                (quota == "max" || quota.parse::<u64>().is_ok()) && number(period)
            }),
        }
    }
}

/// Bytes of a line: a group's files here are shorter.
const LINE: u64 = 256;

impl GroupFile {
    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.directory.join(self.file.word())
    }

    /// Whether its group is there still, and is a group below these.
    pub fn is_there(&self, groups: &Path) -> io::Result<bool> {
        let found = match fs::symlink_metadata(&self.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            found => found?,
        };
        let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
        Ok(found.is_dir()
            && found.ino() == self.inode
            && self.directory.components().all(plain)
            && self.directory.starts_with(fs::canonicalize(groups)?))
    }

    /// Whether it can be one, with this line.
    pub fn is_sound(&self, line: &str) -> bool {
        let path = self.directory.to_str();
        path.is_some_and(|path| path.starts_with('/') && !path.contains(is_harmful))
            && self.file.holds(line)
    }

    /// Its line.
    pub fn read(&self) -> io::Result<String> {
        let flags = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(self.path())?;
        first_line(file)
    }

    /// Writes it. The kernel takes a line as a whole.
    pub fn write(&self, line: &str) -> io::Result<()> {
        let flags = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
        let mut file = OpenOptions::new().write(true).custom_flags(flags).open(self.path())?;
        file.write_all(format!("{line}\n").as_bytes())
    }
}

fn first_line(file: File) -> io::Result<String> {
    let mut text = String::new();
    file.take(LINE).read_to_string(&mut text)?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// The control group of a VM that nobody else manages.
#[derive(Debug)]
pub struct Group {
    directory: PathBuf,
    inode: u64,
    /// Version 1 has `cpu.shares`, version 2 `cpu.weight`.
    pub scale: Scale,
}

/// Why there is none, and the way out.
pub type Refusal = (String, String);

const OWN_GROUP: &str =
    "give the VM a group of its own, such as by `systemd-run --scope`, or let libvirt run it";

impl Group {
    /// The group that holds the threads of a process and nobody else.
    pub fn of_process(proc: &Path, groups: &Path, pid: u32) -> Result<Group, Refusal> {
        let gone = || (format!("process {pid} has ended"), "start it again".to_owned());
        let tasks = fs::read_dir(proc.join(format!("{pid}/task"))).map_err(|_| gone())?;
        let mut common: Option<Place> = None;
        for task in tasks.flatten() {
            // Who vanished meanwhile is in no group.
            let Ok(text) = fs::read_to_string(task.path().join("cgroup")) else { continue };
            let Some(place) = Place::of(CPU, &text) else {
                let message = "it is in no control group that can be told".to_owned();
                return Err((message, OWN_GROUP.to_owned()));
            };
            common = Some(match common {
                None => place,
                Some(common) => common.shared(place),
            });
        }
        let Some(common) = common else { return Err(gone()) };
        let (scale, root) = (common.scale(), common.root(groups, CPU));
        let path = common.path;
        let inner = unit(&path).unwrap_or(&path);
        if inner.as_os_str().is_empty() {
            let message = "its threads are in the control group of the whole host".to_owned();
            return Err((message, OWN_GROUP.to_owned()));
        }
        let directory = root.join(inner);
        let unreadable = |error: io::Error| {
            (format!("{}: {error}", directory.display()), "are control groups mounted?".to_owned())
        };
        let directory = fs::canonicalize(&directory).map_err(unreadable)?;
        let mut members = BTreeSet::new();
        add_members(&directory, 0, &mut members).map_err(unreadable)?;
        if let Some(other) = members.iter().find(|&&member| member != pid) {
            let message =
                format!("its control group {} holds process {other} too", directory.display());
            return Err((message, OWN_GROUP.to_owned()));
        }
        let inode = fs::metadata(&directory).map_err(unreadable)?.ino();
        Ok(Group { directory, inode, scale })
    }

    /// One of its files, if this process may change it.
    pub fn file(&self, file: FileName) -> Result<GroupFile, Refusal> {
        let found = GroupFile { directory: self.directory.clone(), inode: self.inode, file };
        match access(found.path(), Access::WRITE_OK) {
            Ok(()) => Ok(found),
            Err(rustix::io::Errno::NOENT) => {
                let above = self.directory.parent().unwrap_or(&self.directory);
                let help = match self.scale {
                    Scale::Group => format!(
                        "turn its controller on: echo +cpu > {}/cgroup.subtree_control",
                        above.display()
                    ),
                    _ => "its kernel was built without (CONFIG_CFS_BANDWIDTH)".to_owned(),
                };
                Err((format!("{} is not there", found.path().display()), help))
            }
            Err(error) => {
                let message = format!("{} cannot be written: {error}", found.path().display());
                Err((message, "run it as root".to_owned()))
            }
        }
    }

    /// In us: no quota may be less than this.
    pub fn burst_us(&self) -> u64 {
        let line = File::open(self.directory.join(self.scale.burst_file())).and_then(first_line);
        line.ok().and_then(|line| line.parse().ok()).unwrap_or(0)
    }
}

/// The version of control groups that share out CPU time, by whose numbers weights are told.
pub fn scale_of(proc: &Path, pid: u32) -> Option<Scale> {
    let text = fs::read_to_string(proc.join(format!("{pid}/cgroup"))).ok()?;
    Some(Place::of(CPU, &text)?.scale())
}

/// The pCPUs that the control group of a thread leaves it, if that can be told.
pub fn allowed(proc: &Path, groups: &Path, pid: u32, tid: u32) -> Option<CpuSet> {
    let text = fs::read_to_string(proc.join(format!("{pid}/task/{tid}/cgroup"))).ok()?;
    let place = Place::of(CPUSET, &text)?;
    let root = place.root(groups, CPUSET);
    let file = match place.controllers {
        None => "cpuset.cpus.effective",
        Some(_) => "cpuset.effective_cpus",
    };
    // A group without the controller has what the one above has.
    let found =
        place.path.ancestors().find_map(|group| File::open(root.join(group).join(file)).ok());
    first_line(found?).ok()?.parse().ok()
}

const CPU: &str = "cpu";
const CPUSET: &str = "cpuset";

/// A group in one of the hierarchies.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    /// Those of a hierarchy of version 1, as `cpu,cpuacct`; none: the one of version 2.
    controllers: Option<String>,
    /// From its root.
    path: PathBuf,
}

impl Place {
    /// Where `/proc/PID/cgroup` says that a controller is: in version 1 if that has it.
    fn of(controller: &str, text: &str) -> Option<Place> {
        let mut lines = text.lines().filter_map(|line| {
            let mut words = line.splitn(3, ':');
            Some((words.next()?, words.next()?, words.next()?))
        });
        let of = |line: (&str, &str, &str)| {
            let path = PathBuf::from(line.2.strip_prefix('/')?);
            // Beyond the root of a namespace nothing can be told.
            let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
            let controllers = (!line.1.is_empty()).then(|| line.1.to_owned());
            plain.then_some(Place { controllers, path })
        };
        match lines.clone().find(|line| line.1.split(',').any(|name| name == controller)) {
            Some(line) => of(line),
            None => of(lines.find(|line| *line == ("0", "", line.2))?),
        }
    }

    /// Of its hierarchy.
    fn root(&self, groups: &Path, controller: &str) -> PathBuf {
        match &self.controllers {
            None => groups.to_owned(),
            // Where distributions mount them together, and where apart.
            Some(names) => {
                let together = groups.join(names);
                if together.is_dir() { together } else { groups.join(controller) }
            }
        }
    }

    fn scale(&self) -> Scale {
        if self.controllers.is_none() { Scale::Group } else { Scale::Shares }
    }

    fn shared(self, other: Place) -> Place {
        let same = self.path.components().zip(other.path.components());
        let path = same.take_while(|(a, b)| a == b).map(|(part, _)| part).collect();
        Place { path, ..self }
    }
}

/// Groups in groups are looked at so deep; nobody has more.
const DEEPEST: u32 = 64;

/// All processes in a group and below.
fn add_members(directory: &Path, depth: u32, members: &mut BTreeSet<u32>) -> io::Result<()> {
    match fs::read_to_string(directory.join("cgroup.procs")) {
        Ok(text) => members.extend(text.lines().filter_map(|line| line.parse::<u32>().ok())),
        // Of a group of threads, whose processes are those of a group above.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::OPNOTSUPP.raw_os_error()) => {
        }
        Err(error) if error.kind() == ErrorKind::NotFound && depth > 0 => return Ok(()),
        Err(error) => return Err(error),
    }
    if depth == DEEPEST {
        return Err(io::Error::other("groups in groups without end"));
    }
    for entry in fs::read_dir(directory)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            add_members(&entry.path(), depth + 1, members)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_in_what_the_kernel_says() {
        let place = |controllers: Option<&str>, path: &str| {
            Some(Place { controllers: controllers.map(str::to_owned), path: path.into() })
        };
        let both = "3:cpuset:/a\n2:cpu,cpuacct:/machine/web\n0::/b\n";
        assert_eq!(Place::of(CPU, both), place(Some("cpu,cpuacct"), "machine/web"));
        assert_eq!(Place::of(CPUSET, both), place(Some("cpuset"), "a"));
        assert_eq!(Place::of(CPU, "0::/machine.slice/x:y\n"), place(None, "machine.slice/x:y"));
        assert_eq!(Place::of(CPU, "4:cpuset:/a\n0::/\n"), place(None, ""));
        for text in ["", "0::relative\n", "0::/../other\n", "1:name=systemd:/a\n"] {
            assert_eq!(Place::of(CPU, text), None, "{text}");
        }
        let a = Place::of(CPU, "0::/m/w.scope/libvirt/vcpu0").unwrap();
        let b = Place::of(CPU, "0::/m/w.scope/libvirt/emulator").unwrap();
        let shared = a.shared(b).path;
        assert_eq!(shared, Path::new("m/w.scope/libvirt"));
        assert_eq!(unit(&shared), Some(Path::new("m/w.scope")));
        assert_eq!(unit(Path::new("qemu/web")), None);
    }

    #[test]
    fn files_hold_what_the_kernel_takes() {
        assert!(FileName::Max.holds("max 100000") && FileName::Max.holds("50000 100000"));
        assert!(FileName::Quota.holds("-1") && FileName::Weight.holds("100"));
        for value in ["", "max", "1 2 3", "-1 5", "100\n5", "max x"] {
            assert!(!FileName::Max.holds(value), "{value}");
        }
        assert!(!FileName::Weight.holds("1 2") && !FileName::Shares.holds("-1"));
    }
}
