// SPDX-License-Identifier: GPL-2.0-only
//! What an administrator asks for a domain of a real host, by the names and units of scenarios: as `NAME=VALUE` of
//! `steelyard kvm set`, in the file that this writes, and as libvirt keeps it in a domain's metadata. In the same file,
//! what `steelyard kvm change` asks of the policy itself.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use steelyard_policy::ffi::Settings;
use steelyard_policy::{Parameter, Policy, disciplines, governors, settings};
use steelyard_simulator::units::Nanoseconds;
use toml_edit::{Document, Item, TableLike, Value};

use crate::diagnostic::{Diagnostic, Source, did_you_mean};
use crate::load::has;

/// Where a domain reserves time.
const PERIOD: &str = "sedf.period";
const RESERVED: &str = "sedf.slice";
const EXTRA_TIME: &str = "sedf.extra_time";
/// What a vCPU saves under `boost-credit`.
const LIMIT: &str = "boost.limit";
const RATIO: &str = "boost.ratio_percent";

/// What somebody asks for a domain; what nobody asks for is not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainSettings(
    /// By number in [`settings`].
    BTreeMap<usize, u64>,
);

impl DomainSettings {
    /// What must have been asked for, since this holds.
    pub fn of(mut settings: Settings) -> DomainSettings {
        let mut usual = Settings::usual();
        let both = settings.fields().iter().zip(usual.fields()).enumerate();
        let asked = both.filter(|(_, (now, usual))| now != usual);
        DomainSettings(asked.map(|(number, (&now, _))| (number, now)).collect())
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a setting of this name is asked for.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Asks for the value that a text says.
    ///
    /// # Errors
    /// There is no such setting, or this is none of its values.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let number = number_of(name)?;
        self.0.insert(number, value_of(&settings()[number], value)?);
        Ok(())
    }

    /// Takes back what was asked for.
    ///
    /// # Errors
    /// There is no such setting.
    pub fn unset(&mut self, name: &str) -> Result<(), String> {
        self.0.remove(&number_of(name)?);
        Ok(())
    }

    /// What this makes of what holds else.
    pub fn over(&self, mut others: Settings) -> Settings {
        let fields = others.fields();
        for (&number, &value) in &self.0 {
            // 0 would be "not asked"; 1 ns is less than any boost.
            let is_limit = settings()[number].name == LIMIT;
            fields[number] = if is_limit { value.max(1) } else { value };
        }
        others
    }

    /// Whether all of it can be had together.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        match (self.get(PERIOD), self.get(RESERVED)) {
            (None, None) => Ok(()),
            (Some(period), Some(reserved)) if reserved <= period => Ok(()),
            (Some(period), Some(reserved)) => Err(format!(
                "`{RESERVED}` {} is longer than `{PERIOD}` {}",
                Nanoseconds(reserved),
                Nanoseconds(period)
            )),
            (Some(_), None) => {
                Err(format!("`{PERIOD}` needs `{RESERVED}`, the time reserved in it"))
            }
            (None, Some(_)) => {
                Err(format!("`{RESERVED}` needs `{PERIOD}`, in which it is reserved"))
            }
        }
    }

    fn get(&self, name: &str) -> Option<u64> {
        self.0.get(&number_of(name).ok()?).copied()
    }

    /// Those that a scenario's domain takes, as its lines, and what it does not take.
    pub(crate) fn in_scenario(&self) -> (String, Vec<String>) {
        let mut asked = self.clone();
        let mut left_out = vec![];
        if self.get(PERIOD).is_some() && self.get(EXTRA_TIME).is_none() {
            // There a reservation is all, unless it says otherwise.
            let _ = asked.set(EXTRA_TIME, "true");
        }
        if self.get(LIMIT).is_none() && self.get(RATIO).is_some() {
            let _ = asked.unset(RATIO);
            left_out.push(format!("the ratio of its boost (`{RATIO}`), which needs `{LIMIT}`"));
        }
        (asked.lines(), left_out)
    }

    /// In TOML.
    fn lines(&self) -> String {
        let line = |(setting, value): (&Parameter, String)| match setting.unit {
            "ns" => format!("{} = {}\n", setting.name, Value::from(value)),
            _ => format!("{} = {value}\n", setting.name),
        };
        self.iter().map(line).collect()
    }

    /// Each with its value, as [`DomainSettings::set`] takes it.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Parameter, String)> {
        self.0.iter().map(|(&number, &value)| {
            let setting = &settings()[number];
            (setting, text_of(setting, value))
        })
    }
}

fn number_of(name: &str) -> Result<usize, String> {
    settings().iter().position(|setting| setting.name == name).ok_or_else(|| {
        let names = || settings().iter().map(|setting| setting.name);
        let near = did_you_mean(name, names());
        let known: Vec<_> = names().collect();
        format!("there is no setting `{name}`{near}; there are {}", known.join(", "))
    })
}

fn value_of(setting: &Parameter, text: &str) -> Result<u64, String> {
    let wrong = |why| format!("`{}`: {why}", setting.name);
    let text = text.trim();
    let value = if let Some(mut choices) = setting.choices() {
        let known = || format!("`{text}` is none of {}", setting.unit.replace('|', ", "));
        choices.position(|choice| choice == text).ok_or_else(|| wrong(known()))? as u64
    } else if setting.unit == "ns" {
        text.parse::<Nanoseconds>().map_err(wrong)?.0
    } else {
        let number = || format!("`{text}` is no whole number");
        text.parse().map_err(|_| wrong(number()))?
    };
    if (setting.minimum..=setting.maximum).contains(&value) {
        return Ok(value);
    }
    let [value, least, most] =
        [value, setting.minimum, setting.maximum].map(|value| text_of(setting, value));
    Err(wrong(format!("`{value}` is out of range: {least} to {most}")))
}

fn text_of(setting: &Parameter, value: u64) -> String {
    let choice = setting.choices().and_then(|mut choices| choices.nth(value as usize));
    match choice {
        Some(choice) => choice.to_owned(),
        None if setting.unit == "ns" => Nanoseconds(value).to_string(),
        None => value.to_string(),
    }
}

/// What is asked of the policy while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicySettings {
    /// Another one than it was started with.
    name: Option<String>,
    /// Values by `DISCIPLINE.NAME` or `GOVERNOR.NAME`, of any policy.
    parameters: BTreeMap<String, String>,
}

/// Instead of a parameter: the policy itself.
const NAME: &str = "policy";

impl PolicySettings {
    /// Asks for the value that a text says: of a parameter, or for another `policy`.
    ///
    /// # Errors
    /// There is no such policy or parameter, or this is none of its values.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        if key == NAME {
            Policy::named(value).map_err(|error| error.to_string())?;
            self.name = Some(value.to_owned());
        } else {
            set_parameter(&mut some_policy_with(key)?, key, value)?;
            self.parameters.insert(key.to_owned(), value.to_owned());
        }
        Ok(())
    }

    /// Takes back what was asked for.
    ///
    /// # Errors
    /// There is no such parameter.
    pub fn unset(&mut self, key: &str) -> Result<(), String> {
        if key == NAME {
            self.name = None;
        } else if self.parameters.remove(key).is_none() {
            some_policy_with(key)?;
        }
        Ok(())
    }

    /// What this makes of a policy that was asked for otherwise. Parameters of what it has not are left out.
    pub fn over(&self, policy: &Policy) -> Policy {
        let named = self.name.as_deref().and_then(|name| Policy::named(name).ok());
        let mut policy = named.unwrap_or_else(|| policy.clone());
        for (key, value) in &self.parameters {
            if has(&policy, owner_of(key)) {
                // It was checked as it was set.
                let _ = set_parameter(&mut policy, key, value);
            }
        }
        policy
    }

    /// Each with its value, as [`PolicySettings::set`] takes it.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let name = self.name.iter().map(|name| (NAME, name.as_str()));
        name.chain(self.parameters.iter().map(|(key, value)| (key.as_str(), value.as_str())))
    }

    /// In TOML.
    fn lines(&self) -> String {
        self.iter().map(|(key, value)| format!("{key} = {}\n", Value::from(value))).collect()
    }
}

fn owner_of(key: &str) -> &str {
    key.split('.').next().unwrap_or_default()
}

/// The newest that has this parameter.
fn some_policy_with(key: &str) -> Result<Policy, String> {
    let owner = owner_of(key);
    let of_discipline = disciplines().iter().map(|it| (it.name, it.name.to_owned()));
    let of_governor = governors()
        .iter()
        .filter_map(|it| Some((it.name, format!("{}+{}", it.disciplines.first()?, it.name))));
    let (_, name) =
        of_discipline.chain(of_governor).find(|&(name, _)| name == owner).ok_or_else(|| {
            format!(
                "no discipline or governor is called `{owner}`; `steelyard policies` lists them"
            )
        })?;
    Policy::named(&name).map_err(|error| error.to_string())
}

fn set_parameter(policy: &mut Policy, key: &str, value: &str) -> Result<(), String> {
    let own = key.strip_prefix(policy.discipline().name).and_then(|key| key.strip_prefix('.'));
    policy.set(own.unwrap_or(key), value).map_err(|error| error.to_string())
}

/// What is asked for each domain, by its name.
pub type SettingsOfDomains = BTreeMap<String, DomainSettings>;

/// What is asked for a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSettings {
    /// Of the policy.
    pub policy: PolicySettings,
    /// For its domains.
    pub domains: SettingsOfDomains,
}

/// Where `steelyard kvm set` and `change` keep what they are told, unless they are told where.
pub const SETTINGS: &str = "/etc/steelyard/kvm.toml";

/// The file of [`write_settings`].
///
/// # Errors
/// It cannot be read, or holds what it should not, and where.
pub fn read_settings(path: &Path) -> Result<HostSettings, Diagnostic> {
    parse_settings(&Source::read(path)?)
}

/// The same of its text.
///
/// # Errors
/// As those of [`read_settings`].
pub fn parse_settings(source: &Source) -> Result<HostSettings, Diagnostic> {
    let document = Document::parse(source.text.as_str()).map_err(|error| {
        source.error(error.span().unwrap_or(0..0), error.message().replace('\n', ", "))
    })?;
    let mut found = HostSettings::default();
    for (key, item) in document.as_table() {
        match item.as_table_like() {
            Some(domains) if key == "domain" => add_domains(source, &mut found.domains, domains)?,
            Some(asked) if key == "scheduler" => {
                let is_owner = |name: &str| !name.contains('.');
                add_table(source, "", asked, &is_owner, &mut |key, value| {
                    found.policy.set(key, value)
                })?;
            }
            _ => {
                let span = item.span().unwrap_or(0..0);
                let help = "what is asked for a domain stands below [domain.NAME], \
                    what is asked of the policy below [scheduler]";
                return Err(source.error(span, format!("unknown key `{key}`")).with_help(help));
            }
        }
    }
    Ok(found)
}

fn add_domains(
    source: &Source,
    found: &mut SettingsOfDomains,
    domains: &dyn TableLike,
) -> Result<(), Diagnostic> {
    for (name, item) in domains.iter() {
        let span = item.span().unwrap_or(0..0);
        let asked = item.as_table_like().ok_or_else(|| {
            source.error(span.clone(), format!("`{name}` is no table of settings"))
        })?;
        let mut domain = DomainSettings::default();
        let is_before =
            |name: &str| settings().iter().any(|it| it.name.starts_with(&format!("{name}.")));
        add_table(source, "", asked, &is_before, &mut |key, value| domain.set(key, value))?;
        domain.check().map_err(|why| source.error(span, format!("domain `{name}`: {why}")))?;
        found.insert(name.to_owned(), domain);
    }
    Ok(())
}

/// Names with a dot in them are tables within tables, where a name may begin like that: what is nested deeper is none.
fn add_table(
    source: &Source,
    before: &str,
    table: &dyn TableLike,
    may_begin: &dyn Fn(&str) -> bool,
    set: &mut dyn FnMut(&str, &str) -> Result<(), String>,
) -> Result<(), Diagnostic> {
    for (key, item) in table.iter() {
        let name = format!("{before}{key}");
        if let Some(table) = item.as_table_like().filter(|_| may_begin(&name)) {
            add_table(source, &format!("{name}."), table, may_begin, set)?;
            continue;
        }
        let fault = |why| source.error(item.span().unwrap_or(0..0), why);
        let text = match item {
            Item::Value(Value::String(text)) => text.value().clone(),
            Item::Value(Value::Integer(number)) => number.value().to_string(),
            Item::Value(Value::Boolean(choice)) => choice.value().to_string(),
            _ => return Err(fault(format!("`{name}` is no value of a setting"))),
        };
        set(&name, &text).map_err(fault)?;
    }
    Ok(())
}

/// As [`read_settings`] reads it.
pub fn write_settings(asked: &HostSettings) -> String {
    let mut text =
        "# What `steelyard kvm set` asks for domains, and `steelyard kvm change` of the policy.\n"
            .to_owned();
    let of_policy = asked.policy.lines();
    if !of_policy.is_empty() {
        // Writing to a string does not fail.
        let _ = write!(text, "\n[scheduler]\n{of_policy}");
    }
    for (name, asked) in asked.domains.iter().filter(|(_, asked)| !asked.is_empty()) {
        let name = toml_edit::Key::new(name);
        let _ = write!(text, "\n[domain.{}]\n{}", name.display_repr(), asked.lines());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<HostSettings, Diagnostic> {
        parse_settings(&Source::new("kvm.toml", text))
    }

    #[test]
    fn what_is_written_is_read() {
        let mut web = DomainSettings::default();
        for setting in settings() {
            let value = match setting.choices() {
                Some(mut choices) => choices.next().unwrap().to_owned(),
                None => text_of(setting, setting.maximum.min(8_000_000_000)),
            };
            web.set(setting.name, &value).unwrap();
        }
        let domains: SettingsOfDomains =
            ["web", "a b", "x.\"y\"\n", ""].map(|name| (name.to_owned(), web.clone())).into();
        let mut all = HostSettings { domains, ..HostSettings::default() };
        for (key, value) in [
            ("policy", "credit2+load-weight"),
            ("credit2.reset", "chosen"),
            ("load-weight.least_percent", "7"),
        ] {
            all.policy.set(key, value).unwrap();
        }
        let text = write_settings(&all);
        assert_eq!(parsed(&text).unwrap(), all, "{text}");
        let none = HostSettings::default();
        assert_eq!(parsed(&write_settings(&none)).unwrap(), none);
    }

    #[test]
    fn every_form_of_toml_will_do() {
        let expected = |text| {
            let domains = parsed(text).unwrap();
            domains.domains["web"]
                .iter()
                .map(|(it, value)| format!("{}={value}", it.name))
                .collect::<Vec<_>>()
        };
        let all = ["weight=512", "sedf.period=20 ms", "sedf.slice=5 ms", "sedf.extra_time=false"];
        assert_eq!(
            expected(
                "[domain.web]\nweight = 512\nsedf.period = \"20 ms\"\nsedf.slice = \"5 ms\"\nsedf.extra_time = false"
            ),
            all
        );
        assert_eq!(
            expected(
                "domain.web = { weight = 512, sedf = { period = \"20 ms\", slice = \"5 ms\", extra_time = false } }"
            ),
            all
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let fault = |text: &str| {
            let fault = parsed(text).unwrap_err();
            (fault.place.as_ref().unwrap().line, fault.to_string())
        };
        for (text, line, words) in [
            ("[domain.web]\nwieght = 5", 2, "did you mean `weight`?"),
            ("[domain.web]\nweight = 0", 2, "out of range: 1 to 65535"),
            ("[domain.web]\nweight = -1", 2, "no whole number"),
            ("[domain.web]\nweight = 1.5", 2, "no value"),
            ("[domain.web]\nslice = 5", 2, "no length of time"),
            ("[domain.web]\nsedf.extra_time = \"yes\"", 2, "none of false, true"),
            ("[domain.web]\nsedf.period = \"20 ms\"", 1, "needs `sedf.slice`"),
            ("[domain.web]\nsedf = { period = \"2 ms\", slice = \"3 ms\" }", 1, "longer than"),
            ("[domain.web]\nweight.x = 5", 2, "no value"),
            ("domain = 5", 1, "unknown key"),
            ("[dom.web]\nweight = 5", 1, "below [domain.NAME]"),
            ("[domain]\nweb = 5", 2, "no table"),
            ("[domain.web", 1, ""),
            ("scheduler = 5", 1, "below [scheduler]"),
            ("[scheduler]\npolicy = \"credit3\"", 2, "credit3"),
            ("[scheduler]\ncredit2.run_max_ns = 0", 2, "run_max_ns"),
            ("[scheduler]\ncredit2.run_max = 5", 2, "run_max"),
            ("[scheduler]\ncredit3.run_max_ns = 5", 2, "no discipline or governor"),
            ("[scheduler]\ncredit2.a.b = 5", 2, "no value"),
        ] {
            let (at, said) = fault(text);
            assert_eq!(at, line, "{said}");
            assert!(said.contains(words), "{text}: {said}");
        }
    }

    #[test]
    fn what_is_asked_for_goes_before_what_holds_else() {
        let mut asked = DomainSettings::default();
        assert_eq!(asked.over(Settings::usual()), Settings::usual());
        for (name, value) in
            [("boost.limit", "0 ns"), ("sedf.extra_time", "false"), ("weight", "7")]
        {
            asked.set(name, value).unwrap();
        }
        let expected =
            Settings { weight: 7, extra_time: 0, boost_limit_ns: 1, ..Settings::usual() };
        assert_eq!(asked.over(Settings::usual()), expected);
        let mut all = DomainSettings::of(expected);
        assert_eq!(all.iter().map(|it| it.1).collect::<Vec<_>>(), ["7", "false", "1 ns"]);
        all.set("boost.limit", "0 ns").unwrap();
        assert_eq!(all, asked);
        asked.unset("weight").unwrap();
        let mut more = DomainSettings::default();
        more.set("sedf.extra_time", "true").unwrap();
        more.set("cap_percent", "30").unwrap();
        let expected = Settings { cap_percent: 30, boost_limit_ns: 1, ..Settings::usual() };
        assert_eq!(more.over(asked.over(Settings::usual())), expected);
    }

    #[test]
    fn what_is_asked_of_a_policy_goes_before_how_it_was_started() {
        let started = crate::policy("credit2", &["credit2.run_max_ns=3000000".to_owned()]).unwrap();
        let mut asked = PolicySettings::default();
        assert_eq!(asked.over(&started), started);
        asked.set("credit2.run_max_ns", "5000000").unwrap();
        asked.set("credit.slice_ns", "5000000").unwrap();
        assert_eq!(asked.over(&started).value("run_max_ns"), Some(5_000_000));
        asked.unset("credit2.run_max_ns").unwrap();
        assert_eq!(asked.over(&started), started);
        // Another policy has its own defaults, and what is asked of it.
        asked.set("policy", "credit@xen-4.20+load-weight").unwrap();
        let other = asked.over(&started);
        assert_eq!(other.value("slice_ns"), Some(5_000_000));
        assert_eq!(other.to_string(), "credit@xen-4.20+load-weight");
        asked.unset("policy").unwrap();
        assert_eq!(asked.over(&started), started);
        assert!(asked.unset("credit2.run_max_ns").is_ok() && asked.unset("credit3.x").is_err());
    }
}
