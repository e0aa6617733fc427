// SPDX-License-Identifier: GPL-2.0-only
//! What an administrator asks for a domain of a real host, by the names and units of scenarios: as `NAME=VALUE` of
//! `steelyard kvm set`, in the file that this writes, and as libvirt keeps it in a domain's metadata.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use steelyard_policy::ffi::Settings;
use steelyard_policy::{Parameter, settings};
use steelyard_simulator::units::Nanoseconds;
use toml_edit::{Document, Item, TableLike, Value};

use crate::diagnostic::{Diagnostic, Source, did_you_mean};

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

/// What is asked for each domain, by its name.
pub type SettingsOfDomains = BTreeMap<String, DomainSettings>;

/// The file of [`write_settings`].
///
/// # Errors
/// It cannot be read, or holds what it should not, and where.
pub fn read_settings(path: &Path) -> Result<SettingsOfDomains, Diagnostic> {
    parse_settings(&Source::read(path)?)
}

/// The same of its text.
///
/// # Errors
/// As those of [`read_settings`].
pub fn parse_settings(source: &Source) -> Result<SettingsOfDomains, Diagnostic> {
    let document = Document::parse(source.text.as_str()).map_err(|error| {
        source.error(error.span().unwrap_or(0..0), error.message().replace('\n', ", "))
    })?;
    let mut found = SettingsOfDomains::new();
    for (key, item) in document.as_table() {
        let span = item.span().unwrap_or(0..0);
        let domains = item.as_table_like().filter(|_| key == "domain").ok_or_else(|| {
            source
                .error(span, format!("unknown key `{key}`"))
                .with_help("what is asked for a domain stands below [domain.NAME]")
        })?;
        for (name, item) in domains.iter() {
            let span = item.span().unwrap_or(0..0);
            let asked = item.as_table_like().ok_or_else(|| {
                source.error(span.clone(), format!("`{name}` is no table of settings"))
            })?;
            let mut domain = DomainSettings::default();
            add_table(source, &mut domain, "", asked)?;
            domain.check().map_err(|why| source.error(span, format!("domain `{name}`: {why}")))?;
            found.insert(name.to_owned(), domain);
        }
    }
    Ok(found)
}

/// Names with a dot in them are tables within tables.
fn add_table(
    source: &Source,
    domain: &mut DomainSettings,
    before: &str,
    table: &dyn TableLike,
) -> Result<(), Diagnostic> {
    for (key, item) in table.iter() {
        let name = format!("{before}{key}");
        if let Some(table) = item.as_table_like() {
            // No setting has a longer name: what is nested deeper is none.
            let near = || settings().iter().any(|it| it.name.starts_with(&format!("{name}.")));
            if near() {
                add_table(source, domain, &format!("{name}."), table)?;
                continue;
            }
        }
        let fault = |why| source.error(item.span().unwrap_or(0..0), why);
        let text = match item {
            Item::Value(Value::String(text)) => text.value().clone(),
            Item::Value(Value::Integer(number)) => number.value().to_string(),
            Item::Value(Value::Boolean(choice)) => choice.value().to_string(),
            _ => return Err(fault(format!("`{name}` is no value of a setting"))),
        };
        domain.set(&name, &text).map_err(fault)?;
    }
    Ok(())
}

/// As [`read_settings`] reads it.
pub fn write_settings(domains: &SettingsOfDomains) -> String {
    let mut text = "# What `steelyard kvm set` asks for domains.\n".to_owned();
    for (name, asked) in domains.iter().filter(|(_, asked)| !asked.is_empty()) {
        let name = toml_edit::Key::new(name);
        // Writing to a string does not fail.
        let _ = write!(text, "\n[domain.{}]\n{}", name.display_repr(), asked.lines());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<SettingsOfDomains, Diagnostic> {
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
        let text = write_settings(&domains);
        assert_eq!(parsed(&text).unwrap(), domains, "{text}");
        assert_eq!(parsed(&write_settings(&SettingsOfDomains::new())).unwrap(), [].into());
    }

    #[test]
    fn every_form_of_toml_will_do() {
        let expected = |text| {
            let domains = parsed(text).unwrap();
            domains["web"]
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
}
