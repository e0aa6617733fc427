// SPDX-License-Identifier: GPL-2.0-only
//! What an administrator asks for domains of a real host and of its policy: what is taken is within its range, and is read again as it
//! was written.

use std::collections::BTreeMap;

use steelyard_policy::ffi::Settings;
use steelyard_policy::settings;
use steelyard_scenario::{
    DomainSettings, Source, libvirt_settings, parse_settings, write_settings,
};

/// Any bytes as the file, as `NAME=VALUE`, and as a domain's metadata.
pub fn any(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(asked) = parse_settings(&Source::new("fuzz.toml", text.clone())) {
        asked.domains.values().for_each(holds);
        let written = write_settings(&asked);
        let mut again = parse_settings(&Source::new("again.toml", &*written)).expect(&written);
        // Of whom nothing is asked is not written.
        again.domains.extend(
            asked
                .domains
                .iter()
                .filter(|it| it.1.is_empty())
                .map(|(name, it)| (name.clone(), it.clone())),
        );
        assert_eq!(again, asked);
    }
    let mut domain = DomainSettings::default();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let taken = pairs.filter(|(name, value)| domain.set(name, value).is_ok()).count();
    assert_eq!(domain.is_empty(), taken == 0);
    holds(&domain);
    let metadata = format!(
        "<domain><metadata><settings xmlns='urn:steelyard:settings' {text}/></metadata></domain>"
    );
    if let Ok(asked) = libvirt_settings(&Source::new("fuzz.xml", metadata)) {
        holds(&asked);
    }
}

fn holds(domain: &DomainSettings) {
    let mut again = DomainSettings::default();
    for (setting, value) in domain.iter() {
        again.set(setting.name, &value).expect("it was taken before");
    }
    assert_eq!(&again, domain);
    let fields: BTreeMap<_, _> = settings()
        .iter()
        .zip(*domain.over(Settings::usual()).fields())
        .map(|(it, value)| (it.name, (it, value)))
        .collect();
    for (setting, _) in domain.iter() {
        let (setting, value) = fields[setting.name];
        assert!((setting.minimum..=setting.maximum).contains(&value), "{} {value}", setting.name);
    }
}
