// SPDX-License-Identifier: GPL-2.0-only
//! From the files of a folder to an experiment of which every part is known to fit the others.

use std::collections::{BTreeMap, BTreeSet};

use steelyard_policy::Policy;
use steelyard_scenario::{
    Diagnostic, Loaded, Options, Source, did_you_mean, load_text, locate, parse,
};
use steelyard_simulator::config::Setup;
use steelyard_simulator::units::Nanoseconds;

use crate::SYSTEMS;
use crate::file::{
    CalibrationFile, Claim, ExperimentFile, Figure, Free, Matrix, Metric, Parameter, PublishedFile,
    Statement, Table, Test, TimeMeasure, VariantEntry, X,
};
use crate::lab::Lab;

/// Every file of every experiment: its path, and its text.
const EMBEDDED: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The texts of one experiment's files.
#[derive(Clone, Debug, Default)]
pub struct Files<'a> {
    /// Name of the folder.
    pub name: &'a str,
    /// By name, such as `experiment.toml`.
    pub texts: BTreeMap<&'a str, &'a str>,
    /// Changes to every variant whose scenario and policy they suit, as `--set` takes them.
    pub set: Vec<String>,
}

/// A published experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Name of its folder.
    pub name: String,
    /// What the file says.
    pub(crate) file: ExperimentFile,
    /// What is run.
    pub variants: Vec<Variant>,
    /// Everything that the publication says in numbers or comparisons.
    pub statements: Vec<Statement>,
    /// What was published and is checked.
    pub(crate) published: Vec<Table>,
    /// What was published and used to fit parameters.
    pub(crate) calibrated: Vec<Table>,
    /// The parameters that were fitted.
    pub(crate) parameters: Vec<Parameter>,
    /// The experiment in real hosts, if it was measured there.
    pub(crate) lab: Option<Lab>,
}

/// A scenario under a policy, with changes.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Unique in the experiment.
    pub name: String,
    /// The scenario's file, without `.toml`.
    pub scenario: String,
    /// The policy.
    pub policy: Policy,
    /// Changes to scenario and policy.
    pub set: Vec<String>,
    /// Time to simulate.
    pub length: Nanoseconds,
    /// Host and domains.
    pub setup: Setup,
}

/// The names of all experiments, in alphabetical order.
pub fn names() -> Vec<&'static str> {
    let paths = EMBEDDED.iter().map(|(path, _)| *path);
    paths.filter_map(|path| path.strip_suffix("/experiment.toml")).collect()
}

/// The experiment of this name, with changes to every variant that they suit.
///
/// # Errors
/// There is none of this name, its files are wrong, or a change suits no variant.
pub fn named(name: &str, set: &[String]) -> Result<Experiment, Diagnostic> {
    if !names().contains(&name) {
        let nearest = did_you_mean(name, names());
        let message = format!("there is no experiment `{name}`{nearest}");
        return Err(Source::new("NAME", name).error(0..name.len(), message).with_known(names()));
    }
    let texts = EMBEDDED.iter().filter_map(|(path, text)| {
        let file = path.strip_prefix(name)?.strip_prefix('/')?;
        Some((file, *text))
    });
    Experiment::read(&Files { name, texts: texts.collect(), set: set.to_vec() })
}

impl Experiment {
    /// Reads an experiment from the texts of its files.
    ///
    /// # Errors
    /// What is wrong, and where it stands.
    pub fn read(files: &Files<'_>) -> Result<Experiment, Diagnostic> {
        let source = |file: &str| {
            let path = format!("experiments/{}/{file}", files.name);
            match files.texts.get(file) {
                Some(text) => Ok(Source::new(path, *text)),
                None => Err(Diagnostic::of_file(path, "there is no such file")),
            }
        };
        let main = source("experiment.toml")?;
        let published = source("published.toml")?;
        let calibration = source("calibration.toml")?;
        let file: ExperimentFile = parse(&main)?;
        let PublishedFile { statement: statements, table: tables } = parse(&published)?;
        let CalibrationFile { parameter: parameters, table: calibrated } = parse(&calibration)?;

        let mut changes = Changes::new(&files.set);
        let mut variants: Vec<Variant> = vec![];
        for (index, entry) in file.variant.iter().enumerate() {
            for entry in expand(entry) {
                let at = |key: &str, message: String| {
                    error(&main, &["variant", &index.to_string(), key], message)
                };
                let scenario = source(&format!("{}.toml", entry.scenario)).map_err(|missing| {
                    at("scenario", format!("{}: {}", missing.file, missing.message))
                })?;
                // An error in the scenario itself keeps its place there.
                let loaded =
                    load(&scenario, &entry).map_err(|error| match error.file == scenario.name {
                        true => error,
                        false => {
                            let key = if error.file == "--policy" { "policy" } else { "set" };
                            Diagnostic { help: error.help, ..at(key, error.message) }
                        }
                    })?;
                let (entry, loaded) = changes.make(&scenario, entry, loaded);
                if variants.iter().any(|known| known.name == entry.name) {
                    return Err(at("name", format!("two variants are called `{}`", entry.name)));
                }
                variants.extend(variant(&entry, loaded));
            }
        }
        changes.all_suit()?;
        let experiment = Experiment {
            name: files.name.to_owned(),
            file,
            variants,
            statements,
            published: tables,
            calibrated,
            parameters,
            lab: match files.texts.contains_key("measured.toml") {
                true => Some(Lab::read(&source("lab.toml")?, &source("measured.toml")?)?),
                false => None,
            },
        };
        experiment.check(&main)?;
        experiment.check_tables(&published, &experiment.published)?;
        experiment.check_tables(&calibration, &experiment.calibrated)?;
        experiment.check_statements(&main, &published)?;
        experiment.check_calibration(&calibration, &main, &source)?;
        Ok(experiment)
    }

    /// Only the variants that claims are about: less to run.
    #[must_use]
    pub fn of_claims(mut self) -> Experiment {
        let tests = || self.claims().map(|(_, claim)| &claim.test);
        let named = tests().flat_map(Test::variants).map(|(_, variant)| variant.to_owned());
        let published = tests().flat_map(|test| self.published_values(test));
        let used: BTreeSet<_> = named.chain(published.map(|value| value.point.variant)).collect();
        self.variants.retain(|variant| used.contains(&variant.name));
        self
    }

    /// What was not published, and from where to where it may be.
    pub fn free(&self) -> &[Free] {
        &self.file.free
    }

    /// The metric of this name.
    pub(crate) fn metric(&self, name: &str) -> Option<&Metric> {
        self.file.metric.get(name)
    }

    /// The index of the variant of this name.
    pub(crate) fn variant(&self, name: &str) -> Option<usize> {
        self.variants.iter().position(|variant| variant.name == name)
    }

    /// What the curve is measured by at each place: the metric, the variant, and of a series the
    /// index of the interval.
    pub(crate) fn points<'a>(
        &'a self,
        figure: &'a Figure,
        curve: &'a crate::file::Curve,
    ) -> impl Iterator<Item = Point<'a>> + 'a {
        let metric = curve.metric.as_deref().unwrap_or(&figure.metric);
        let every = self.metric(metric).and_then(|metric| metric.every);
        figure.x.iter().map(move |x| {
            let (variant, interval) = match (every, x) {
                (Some(every), X::Number(end_s)) => {
                    (curve.variant.clone(), (end_s * 1e9 / every.0 as f64).round() as usize)
                }
                _ => (curve.variant.replace("{x}", &x.to_string()), 1),
            };
            Point { x, metric, variant, index: interval.wrapping_sub(1) }
        })
    }

    fn check(&self, source: &Source) -> Result<(), Diagnostic> {
        let checker = Checker { experiment: self, source };
        for (name, metric) in &self.file.metric {
            let at = |message: &str| Err(error(source, &["metric", name], message.to_owned()));
            match (metric.host, &metric.domain, metric.time, &metric.task, &metric.value) {
                (Some(_), None, None, None, None)
                | (None, Some(_), Some(_), None, None)
                | (None, Some(_), None, Some(_), Some(_)) => {}
                _ => {
                    return at(
                        "a metric is of the `host`, or of a `domain`: a `time`, or `task` and `value`",
                    );
                }
            }
            let windowed = metric.every.is_some() || metric.from.0 > 0;
            let divisible =
                metric.value.is_some() || metric.time == Some(TimeMeasure::SharePercent);
            if windowed && !divisible {
                return at(
                    "only `share_percent`, rates and means can be measured over a part of the time",
                );
            }
            if metric.every.is_some_and(|every| every.0 == 0) {
                return at("`every` is 0");
            }
            if metric.ends_run && metric.value.is_none() {
                return at("only a `value` of a task can end a run");
            }
        }
        for (index, figure) in self.file.figure.iter().enumerate() {
            let path = ["figure".to_owned(), index.to_string()];
            if self.file.figure[..index].iter().any(|other| other.name == figure.name) {
                return Err(checker.error(
                    &path,
                    "name",
                    format!("two figures are called `{}`", figure.name),
                ));
            }
            for (number, curve) in figure.curve.iter().enumerate() {
                let path = [&path[..], &["curve".to_owned(), number.to_string()]].concat();
                for point in self.points(figure, curve) {
                    checker.metric(&path, point.metric)?;
                    checker.variant(&path, "variant", &point.variant)?;
                    checker.measurable(&path, point.metric, &point.variant)?;
                }
            }
        }
        for (path, claim) in self.claims() {
            checker.claim(&path, claim)?;
        }
        if let Some(matrix) = &self.file.matrix {
            let path = ["matrix".to_owned()];
            checker.metric(&path, &matrix.metric)?;
            let known = || SYSTEMS.iter().map(|system| system.policy);
            for name in matrix.without.keys() {
                if !known().any(|system| system == name) {
                    return Err(checker.error(&path, "without", unknown("system", name, known())));
                }
            }
            let systems =
                SYSTEMS.iter().filter(|system| !matrix.without.contains_key(system.policy));
            let policies = systems.flat_map(|system| [system.policy, system.base]);
            for policy in std::iter::once(matrix.baseline.as_str()).chain(policies) {
                let variant = matrix.variant_of(policy);
                checker.variant(&path, "variant", &variant)?;
                checker.measurable(&path, &matrix.metric, &variant)?;
            }
        }
        Ok(())
    }

    fn check_tables(&self, source: &Source, tables: &[Table]) -> Result<(), Diagnostic> {
        for (index, table) in tables.iter().enumerate() {
            let at = |key: &[&str], message: String| {
                error(source, &[&["table", &index.to_string()], key].concat(), message)
            };
            let known = || self.file.figure.iter().map(|figure| figure.name.as_str());
            let Some(figure) = self.file.figure.iter().find(|figure| figure.name == table.figure)
            else {
                return Err(at(&["figure"], unknown("figure", &table.figure, known())));
            };
            if let Some(x) = table.x.iter().find(|x| !figure.x.contains(x)) {
                return Err(at(&["x"], format!("`{x}` is no place of the figure")));
            }
            for (curve, values) in &table.values {
                let known = || figure.curve.iter().map(|curve| curve.name.as_str());
                if !known().any(|name| name == curve) {
                    return Err(at(&["values", curve], unknown("curve", curve, known())));
                }
                if values.len() != table.x.len() {
                    let message = format!("{} values for {} places", values.len(), table.x.len());
                    return Err(at(&["values", curve], message));
                }
            }
        }
        Ok(())
    }
}

impl Experiment {
    /// What these tables are about: metric, variant and, of a series, index.
    fn told<'a>(&'a self, tables: &'a [Table]) -> impl Iterator<Item = (&'a str, String, usize)> {
        let figures = self.file.figure.iter();
        figures.flat_map(|figure| figure.curve.iter().map(move |curve| (figure, curve))).flat_map(
            move |(figure, curve)| {
                let told = move |point: &Point<'_>| {
                    value_at(tables, &figure.name, &curve.name, point.x).is_some()
                };
                self.points(figure, curve)
                    .filter(told)
                    .map(|point| (point.metric, point.variant, point.index))
            },
        )
    }

    /// Nothing that was used to fit a parameter is used to check: neither published values, nor a
    /// claim about one of them alone. And fitted parameters have the values that they are said to.
    fn check_calibration(
        &self,
        calibration: &Source,
        main: &Source,
        file: &dyn Fn(&str) -> Result<Source, Diagnostic>,
    ) -> Result<(), Diagnostic> {
        let fitted: Vec<_> = self.told(&self.calibrated).collect();
        if let Some((metric, variant, _)) =
            self.told(&self.published).find(|told| fitted.contains(told))
        {
            let message = format!(
                "`{metric}` of `{variant}` is here and in published.toml: fitted on a check"
            );
            return Err(Diagnostic::of_file(&calibration.name, message));
        }
        for (path, claim) in self.claims() {
            let metric = claim.test.metric();
            let is_fitted = |variant: &str| {
                fitted.iter().any(|(told, where_told, _)| *told == metric && where_told == variant)
            };
            let variants = claim.test.variants();
            if !variants.is_empty() && variants.iter().all(|(_, variant)| is_fitted(variant)) {
                let path = [path[0].as_str(), path[1].as_str(), "test"];
                let message = "a parameter was fitted on this: it checks nothing".to_owned();
                return Err(error(main, &path, message));
            }
        }
        for (index, parameter) in self.parameters.iter().enumerate() {
            let at = |key: &str, message: String| {
                error(calibration, &["parameter", &index.to_string(), key], message)
            };
            let figures = || self.calibrated.iter().map(|table| table.figure.as_str());
            if !figures().any(|figure| figure == parameter.fitted_on) {
                let message = unknown("figure of this file", &parameter.fitted_on, figures());
                return Err(at("fitted_on", message));
            }
            for name in &parameter.scenarios {
                let scenario = file(&format!("{name}.toml")).map_err(|missing| {
                    at("scenarios", format!("{}: {}", missing.file, missing.message))
                })?;
                let set = vec![format!("{}={}", parameter.key, parameter.value)];
                let [plain, again] = [vec![], set].map(|set| {
                    let options = Options { set, ..Options::default() };
                    load_text(&scenario.name, &scenario.text, &options)
                });
                let again = again.map_err(|error| at("key", error.message))?;
                if again.setup != plain?.setup {
                    let message = format!("`{}` has another value in {name}.toml", parameter.key);
                    return Err(at("value", message));
                }
            }
        }
        Ok(())
    }
}

/// What was published at a place.
pub(crate) fn value_at(tables: &[Table], figure: &str, curve: &str, x: &X) -> Option<f64> {
    let tables = tables.iter().filter(|table| table.figure == figure);
    tables.flat_map(|table| table.values_of(curve)).find(|(place, _)| *place == x).map(|(_, v)| v)
}

/// What a curve is measured by at one place.
#[derive(Clone, Debug)]
pub(crate) struct Point<'a> {
    pub x: &'a X,
    pub metric: &'a str,
    pub variant: String,
    /// Of a series.
    pub index: usize,
}

impl Matrix {
    /// The variant of a policy.
    pub(crate) fn variant_of(&self, policy: &str) -> String {
        self.variant.replace("{policy}", policy)
    }
}

impl Table {
    /// The values that can be read of a curve: places and figures.
    pub(crate) fn values_of(&self, curve: &str) -> impl Iterator<Item = (&X, f64)> {
        let values = self.values.get(curve).into_iter().flatten();
        self.x.iter().zip(values.copied()).filter(|(_, value)| !value.is_nan())
    }
}

struct Checker<'a> {
    experiment: &'a Experiment,
    source: &'a Source,
}

impl Checker<'_> {
    fn error(&self, path: &[String], key: &str, message: String) -> Diagnostic {
        let mut path: Vec<_> = path.iter().map(String::as_str).collect();
        path.push(key);
        error(self.source, &path, message)
    }

    fn metric(&self, path: &[String], name: &str) -> Result<(), Diagnostic> {
        let known = &self.experiment.file.metric;
        match known.contains_key(name) {
            true => Ok(()),
            false => {
                let message = unknown("metric", name, known.keys().map(String::as_str));
                Err(self.error(path, "metric", message))
            }
        }
    }

    fn variant(&self, path: &[String], key: &str, name: &str) -> Result<(), Diagnostic> {
        let known = self.experiment.variants.iter().map(|variant| variant.name.as_str());
        match self.experiment.variant(name) {
            Some(_) => Ok(()),
            None => Err(self.error(path, key, unknown("variant", name, known))),
        }
    }

    /// Whether the domain and task that the metric names are in the variant's scenario.
    fn measurable(&self, path: &[String], metric: &str, variant: &str) -> Result<(), Diagnostic> {
        let (Some(measured), Some(index)) =
            (self.experiment.metric(metric), self.experiment.variant(variant))
        else {
            return Ok(());
        };
        let Some(pattern) = &measured.domain else { return Ok(()) };
        let mut domains = self.experiment.variants[index].setup.domains.iter();
        let there = domains.any(|domain| {
            matches(pattern, &domain.name)
                && measured.task.as_ref().is_none_or(|name| {
                    domain
                        .task
                        .iter()
                        .any(|task| task.name.as_deref().unwrap_or(task.workload.name()) == name)
                })
        });
        match there {
            true => Ok(()),
            false => {
                let message = format!(
                    "`{metric}` cannot be measured in `{variant}`: no such domain with such a task"
                );
                Err(self.error(path, "metric", message))
            }
        }
    }

    fn claim(&self, path: &[String], claim: &Claim) -> Result<(), Diagnostic> {
        let kind = match &claim.test {
            Test::Increasing { .. } => "increasing",
            Test::Equal { .. } => "equal",
            Test::Bounds { .. } => "bounds",
            Test::Ratio { .. } => "ratio",
            Test::Near { .. } => "near",
        };
        let path = [path, &["test".to_owned(), kind.to_owned()]].concat();
        let limits = |limits: [Option<f64>; 2]| match limits {
            [None, None] => Err(self.error(&path, "", "neither limit is given".to_owned())),
            _ => Ok(()),
        };
        match &claim.test {
            Test::Increasing { variants, .. } | Test::Equal { variants, .. } => {
                if variants.len() < 2 {
                    let message = "at least two variants are needed".to_owned();
                    return Err(self.error(&path, "variants", message));
                }
            }
            Test::Bounds { at_least, at_most, .. } | Test::Ratio { at_least, at_most, .. } => {
                limits([*at_least, *at_most])?;
            }
            Test::Near { figure, curves, x, mean_error, mean_error_percent, constant_at } => {
                limits([*mean_error, *mean_error_percent])?;
                let tables =
                    self.experiment.published.iter().filter(|table| table.figure == *figure);
                if tables.clone().next().is_none() {
                    let known = self.experiment.published.iter().map(|table| table.figure.as_str());
                    return Err(self.error(
                        &path,
                        "figure",
                        unknown("published figure", figure, known),
                    ));
                }
                let known =
                    || tables.clone().flat_map(|table| table.values.keys().map(String::as_str));
                for curve in curves {
                    if !known().any(|name| name == curve) {
                        return Err(self.error(
                            &path,
                            "curves",
                            unknown("published curve", curve, known()),
                        ));
                    }
                }
                let fitted =
                    self.experiment.calibrated.iter().filter(|table| table.figure == *figure);
                let constant = constant_at
                    .iter()
                    .filter(|place| !fitted.clone().any(|table| table.x.contains(place)));
                for place in x.iter().chain(constant) {
                    if !tables.clone().any(|table| table.x.contains(place)) {
                        return Err(self.error(
                            &path,
                            "x",
                            format!("nothing is published at `{place}`"),
                        ));
                    }
                }
                return Ok(());
            }
        }
        let metric = claim.test.metric();
        self.metric(&path, metric)?;
        for (key, name) in claim.test.variants() {
            self.variant(&path, key, name)?;
            self.measurable(&path, metric, name)?;
        }
        Ok(())
    }
}

impl Test {
    /// The metric that it names; none for what speaks of a figure.
    pub(crate) fn metric(&self) -> &str {
        match self {
            Test::Increasing { metric, .. }
            | Test::Equal { metric, .. }
            | Test::Bounds { metric, .. }
            | Test::Ratio { metric, .. } => metric,
            Test::Near { .. } => "",
        }
    }

    /// The variants that it names, and under which key; none for what speaks of a figure.
    pub(crate) fn variants(&self) -> Vec<(&'static str, &str)> {
        match self {
            Test::Increasing { variants, .. } | Test::Equal { variants, .. } => {
                variants.iter().map(|name| ("variants", name.as_str())).collect()
            }
            Test::Bounds { variant, .. } => vec![("variant", variant)],
            Test::Ratio { of, to, .. } => vec![("of", of), ("to", to)],
            Test::Near { .. } => vec![],
        }
    }
}

/// Whether a name is this one, or begins with what stands before the `*`.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |prefix| name.starts_with(prefix))
}

pub(crate) fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    format!("unknown {what} `{name}`{}", did_you_mean(name, known))
}

pub(crate) fn error(source: &Source, path: &[&str], message: String) -> Diagnostic {
    let path: Vec<_> = path.iter().map(|&part| part.to_owned()).collect();
    source.error(locate(source, &path), message)
}

/// Changes that are made wherever they suit, and why each suited nowhere yet.
struct Changes<'a>(Vec<(&'a String, Option<Diagnostic>)>);

impl<'a> Changes<'a> {
    fn new(set: &'a [String]) -> Self {
        let unused =
            |change: &String| Diagnostic::of_file("--set", format!("`{change}`: nothing is run"));
        Changes(set.iter().map(|change| (change, Some(unused(change)))).collect())
    }

    /// The variant with those that suit its scenario and policy.
    fn make(
        &mut self,
        scenario: &Source,
        mut entry: VariantEntry,
        mut loaded: Loaded,
    ) -> (VariantEntry, Loaded) {
        for (change, suits_nowhere) in &mut self.0 {
            let mut changed = entry.clone();
            changed.set.push((*change).clone());
            match load(scenario, &changed) {
                Ok(with) => {
                    (entry, loaded) = (changed, with);
                    *suits_nowhere = None;
                }
                Err(error) if suits_nowhere.is_some() => *suits_nowhere = Some(error),
                Err(_) => {}
            }
        }
        (entry, loaded)
    }

    fn all_suit(self) -> Result<(), Diagnostic> {
        self.0.into_iter().find_map(|(_, suits_nowhere)| suits_nowhere).map_or(Ok(()), Err)
    }
}

fn load(scenario: &Source, entry: &VariantEntry) -> Result<Loaded, Diagnostic> {
    let options = Options {
        policies: vec![entry.policy.clone()],
        set: entry.set.clone(),
        ..Options::default()
    };
    load_text(&scenario.name, &scenario.text, &options)
}

fn variant(entry: &VariantEntry, loaded: Loaded) -> Option<Variant> {
    Some(Variant {
        name: entry.name.clone(),
        scenario: entry.scenario.clone(),
        policy: loaded.policies.into_iter().next()?.policy,
        set: entry.set.clone(),
        length: loaded.length,
        setup: loaded.setup,
    })
}

/// One entry for each combination of values.
fn expand(entry: &VariantEntry) -> Vec<VariantEntry> {
    let plain = VariantEntry { each: BTreeMap::new(), ..entry.clone() };
    entry.each.iter().fold(vec![plain], |entries, (key, values)| {
        let with = |entry: &VariantEntry, value: &X| {
            let put = |text: &String| text.replace(&format!("{{{key}}}"), &value.to_string());
            VariantEntry {
                name: put(&entry.name),
                scenario: put(&entry.scenario),
                policy: put(&entry.policy),
                set: entry.set.iter().map(put).collect(),
                each: BTreeMap::new(),
            }
        };
        entries
            .iter()
            .flat_map(|entry| values.iter().map(move |value| with(entry, value)))
            .collect()
    })
}
