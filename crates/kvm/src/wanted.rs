// SPDX-License-Identifier: GPL-2.0-only
//! What an administrator asks for domains beside what their control groups say: by `steelyard kvm set`, which keeps it
//! in a file, and in the metadata of libvirt's domains; and of the policy, by `steelyard kvm change`, in the same file.
//! Files are read again when they have changed.

use std::collections::HashMap;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use steelyard_policy::Policy;
use steelyard_policy::ffi::Settings;
use steelyard_scenario::{
    Diagnostic, DomainSettings, HostSettings, Loads, Source, libvirt_settings, parse_loads,
    parse_settings,
};

/// Where libvirt keeps the description of each domain that runs.
const LIBVIRT: &str = "/run/libvirt/qemu";

/// What is asked now.
pub struct Wanted {
    file: PathBuf,
    set: Watched<HostSettings>,
    /// Where libvirt's are.
    descriptions: PathBuf,
    /// By the names of domains.
    described: HashMap<String, Watched<DomainSettings>>,
    /// What load domains are offered: no setting, but told in the same way.
    loads_file: PathBuf,
    loads: Watched<Loads>,
}

impl Wanted {
    /// Nothing has been read yet.
    pub fn new(file: PathBuf, loads_file: PathBuf) -> Wanted {
        Wanted {
            file,
            set: Watched::default(),
            descriptions: LIBVIRT.into(),
            described: HashMap::new(),
            loads_file,
            loads: Watched::default(),
        }
    }

    /// Reads what has changed; these are the domains. What could not be read is told, once, and what held before goes
    /// on.
    pub fn look(&mut self, domains: &[String], complain: &dyn Fn(&str)) {
        self.set.look(&self.file, parse_settings, complain);
        self.loads.look(&self.loads_file, parse_loads, complain);
        self.described.retain(|name, _| domains.contains(name));
        // libvirt's names have no slash.
        for name in domains.iter().filter(|name| !name.contains('/')) {
            let described = self.described.entry(name.clone()).or_default();
            let file = self.descriptions.join(format!("{name}.xml"));
            described.look(&file, libvirt_settings, complain);
        }
    }

    /// The policy that is asked for, where this one was at the start.
    pub fn policy(&self, given: &Policy) -> Policy {
        self.set.value.policy.over(given)
    }

    /// What is asked for a domain of which `others` says what holds else: the metadata go before that, and what was set
    /// before the metadata.
    pub fn over(&self, domain: &str, others: Settings) -> Settings {
        let described = self.described.get(domain).map(|it| &it.value);
        let set = self.set.value.domains.get(domain);
        described.into_iter().chain(set).fold(others, |others, asked| asked.over(others))
    }

    /// The load that a domain is offered, in percent of one pCPU, and how long ago that was written.
    pub fn load(&self, domain: &str) -> Option<(u32, Duration)> {
        let percent = *self.loads.value.get(domain)?;
        // A clock may have been set back.
        Some((percent, self.loads.written?.elapsed().unwrap_or_default()))
    }
}

/// What one file says.
#[derive(Default)]
struct Watched<T> {
    /// When it was looked at; none: it was not there.
    stamp: Option<Stamp>,
    /// When it was written, as it is there; it changes with the stamp.
    written: Option<SystemTime>,
    value: T,
}

/// By which one sees that a file has changed.
type Stamp = (u64, u64, u64, i64, i64);

fn stamp(file: &Metadata) -> Stamp {
    (file.dev(), file.ino(), file.size(), file.ctime(), file.ctime_nsec())
}

impl<T: Default> Watched<T> {
    fn look(
        &mut self,
        path: &Path,
        parse: impl Fn(&Source) -> Result<T, Diagnostic>,
        complain: &dyn Fn(&str),
    ) {
        let found = match path.metadata() {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            // The directory cannot be looked into.
            Err(_) => return,
        };
        let now = found.as_ref().map(stamp);
        if now == self.stamp {
            return;
        }
        self.stamp = now;
        self.written = found.as_ref().and_then(|file| file.modified().ok());
        if found.is_none() {
            self.value = T::default();
            return;
        }
        match Source::read_trusted(path).and_then(|text| parse(&text)) {
            Ok(value) => self.value = value,
            Err(fault) => complain(&format!("{fault}\n  what was asked before that goes on")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    struct Host {
        directory: tempfile::TempDir,
        wanted: Wanted,
        said: RefCell<Vec<String>>,
    }

    impl Host {
        fn new() -> Host {
            let directory = tempfile::tempdir().unwrap();
            let wanted = Wanted {
                descriptions: directory.path().to_owned(),
                ..Wanted::new(directory.path().join("kvm.toml"), directory.path().join("loads"))
            };
            Host { directory, wanted, said: RefCell::default() }
        }

        /// As who replaces a file does it.
        fn write(&self, name: &str, text: &str) {
            let path = self.directory.path().join(name);
            fs::write(path.with_extension("new"), text).unwrap();
            fs::set_permissions(path.with_extension("new"), Permissions::from_mode(0o644)).unwrap();
            fs::rename(path.with_extension("new"), path).unwrap();
        }

        /// What is asked for `web` then, its weight and its cap.
        fn asked(&mut self) -> (u64, u64) {
            let said = &self.said;
            let complain = |words: &str| said.borrow_mut().push(words.to_owned());
            self.wanted.look(&["web".to_owned(), "../web".to_owned()], &complain);
            let asked = self.wanted.over("web", Settings { weight: 100, ..Settings::usual() });
            (asked.weight, asked.cap_percent)
        }
    }

    #[test]
    fn what_was_set_goes_before_metadata_and_these_before_control_groups() {
        let mut host = Host::new();
        assert_eq!(host.asked(), (100, 0));
        let description = |attributes: &str| {
            format!(
                "<domstatus state='running'><domain><name>web</name><metadata>\
                 <s:settings xmlns:s='urn:steelyard:settings' {attributes}/>\
                 </metadata></domain></domstatus>"
            )
        };
        host.write("web.xml", &description("weight='300' cap_percent='50'"));
        assert_eq!(host.asked(), (300, 50));
        host.write("kvm.toml", "[domain.web]\nweight = 512\n[domain.other]\ncap_percent = 70");
        assert_eq!(host.asked(), (512, 50));
        host.write("web.xml", &description(""));
        assert_eq!(host.asked(), (512, 0));
        fs::remove_file(host.directory.path().join("kvm.toml")).unwrap();
        assert_eq!(host.asked(), (100, 0));
        assert!(host.said.borrow().is_empty());
    }

    #[test]
    fn a_load_is_as_old_as_its_file() {
        let mut host = Host::new();
        let load = |host: &mut Host| {
            host.asked();
            host.wanted.load("web").map(|(percent, age)| (percent, age.as_secs()))
        };
        assert_eq!(load(&mut host), None);
        host.write("loads", "web 60\nbatch 20\n");
        let file = File::options().append(true).open(host.directory.path().join("loads")).unwrap();
        let hour = Duration::from_secs(3600);
        file.set_modified(SystemTime::now() - hour).unwrap();
        let (percent, age_s) = load(&mut host).unwrap();
        assert_eq!(percent, 60);
        assert!(age_s >= 3600, "{age_s}");
        // What cannot be read leaves what was told, and how long ago that was nobody else says.
        host.write("loads", "web");
        assert_eq!(load(&mut host).unwrap().0, 60);
        fs::remove_file(host.directory.path().join("loads")).unwrap();
        assert_eq!(load(&mut host), None);
    }

    #[test]
    fn what_cannot_be_taken_is_told_once_and_changes_nothing() {
        let mut host = Host::new();
        host.write("kvm.toml", "[domain.web]\nweight = 512");
        assert_eq!(host.asked(), (512, 0));
        host.write("kvm.toml", "[domain.web]\nweight = 70000");
        assert_eq!((host.asked(), host.asked()), ((512, 0), (512, 0)));
        host.write("web.xml", "<domain>");
        assert_eq!(host.asked(), (512, 0));
        host.write("kvm.toml", "[domain.web]\nweight = 7");
        let path = host.directory.path().join("kvm.toml");
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        assert_eq!(host.asked(), (512, 0));
        {
            let said = host.said.borrow();
            let words = ["out of range: 1 to 65535", "no XML", "others may write it"];
            assert_eq!(said.len(), words.len(), "{said:?}");
            for (said, words) in said.iter().zip(words) {
                assert!(said.contains(words), "{said}");
            }
        }
        // Its owner mends it.
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(host.asked(), (7, 0));
    }
}
