// SPDX-License-Identifier: GPL-2.0-only
//! From a file and the options of a command line to what can be simulated.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use steelyard_boundary::input::{OverBudget, TEXT_BYTES};
use steelyard_policy::{Policy, PolicyError, disciplines, governors};
use steelyard_simulator::config::{ConfigError, Others, Setup};
use steelyard_simulator::domain_bytes;
use steelyard_simulator::limits;
use steelyard_simulator::measure::Run;
use steelyard_simulator::units::Nanoseconds;
use steelyard_simulator::workload::Workload;

use crate::diagnostic::{Diagnostic, Source, did_you_mean, open};
use crate::document::{self, Setting};
use crate::file::{PolicyEntry, Scenario};
use crate::import::{self, Aside};
use crate::recording::Recording;

/// What a command line asks for beside the file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Policies (`--policy`) instead of the scenario's; none: the scenario's.
    pub policies: Vec<String>,
    /// Number of seeds (`--seeds`) instead of the scenario's.
    pub seeds: Option<u32>,
    /// Changes (`--set`), each KEY=VALUE. A key that begins with the name of a discipline sets a
    /// parameter of all its policies, any other a setting of the scenario.
    pub set: Vec<String>,
    /// What describes the recorded host (`--host`), instead of the file of that name beside the recording.
    pub host: Option<PathBuf>,
    /// What scheduled a recorded host (`--own`), instead of what the recording tells or lets assume.
    pub own: Option<String>,
}

/// A policy and what results call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelledPolicy {
    /// Unique in a scenario.
    pub label: String,
    /// The policy.
    pub policy: Policy,
}

/// Which policy stands for the scheduler of a recorded host: its replay shows how far replays are off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnScheduler {
    /// Label of the policy.
    pub label: String,
    /// Neither the recording nor the command line says so.
    pub assumed: bool,
}

/// A scenario that is ready to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// Its name.
    pub name: String,
    /// What one can learn from it.
    pub about: Option<String>,
    /// Time to simulate.
    pub length: Nanoseconds,
    /// Runs of each policy, with the seeds 1, 2, ...
    pub seeds: u32,
    /// Host and domains.
    pub setup: Setup,
    /// Policies, at least one.
    pub policies: Vec<LabelledPolicy>,
    /// What the recorded kernel did, if the scenario replays a recording.
    pub recorded: Option<Run>,
    /// Whether somebody chose the policies; else they are all disciplines.
    pub chosen: bool,
    /// Of a recording: which of the policies scheduled the recorded host.
    pub own: Option<OwnScheduler>,
    /// The recorded host, if `setup` is it with changes (`--set` of its domains or of what tasks of the host share).
    pub as_recorded: Option<Setup>,
    /// What a description of the recorded host says, a sentence each.
    pub known: Vec<String>,
    /// What the recording does not say, and what is taken instead, a sentence each.
    pub assumed: Vec<String>,
    /// Recordings that were read for it, beside the file itself.
    pub recordings: Vec<PathBuf>,
}

/// Simulating more events than this is refused.
pub const MAX_EVENTS: u128 = 1_000_000_000_000;

/// So much memory may a run take, or those that go on at a time.
pub const MAX_RUN_BYTES: u128 = 512 << 20;
/// And all results together.
const MAX_RESULT_BYTES: u128 = 256 << 20;
/// And all domains, before anything is made of them.
const MAX_DOMAIN_BYTES: usize = 128 << 20;

/// Reads a scenario, a recording or a VM description.
///
/// # Errors
/// What cannot be read or simulated, and where it stands.
pub fn load(path: &Path, options: &Options) -> Result<Loaded, Diagnostic> {
    let mut recordings = Recordings::default();
    let aside = Aside::of(options.host.as_deref());
    let text = import::scenario(path, open(path)?, &mut recordings, aside)?;
    let source = Source::new(path.display().to_string(), text);
    let mut loaded = load_scenario(&source, path.parent(), options, &mut recordings)?;
    if loaded.recorded.is_some() && options.set.iter().any(|set| is_change(set)) {
        let set = options.set.iter().filter(|set| !is_change(set)).cloned().collect();
        let options = Options { set, ..options.clone() };
        let plain = load_scenario(&source, path.parent(), &options, &mut recordings)?;
        loaded.as_recorded = Some(plain.setup);
    }
    Ok(loaded)
}

/// Whether a `--set` changes the host; others say more exactly what it is.
fn is_change(set: &str) -> bool {
    let parts = Setting::parse(set).map_or(vec![], |setting| setting.path);
    let parts: Vec<_> = parts.iter().map(String::as_str).collect();
    matches!(parts[..], ["domain", ..] | ["host", "others"])
}

/// Reads a scenario from its text; recordings in it are relative to the current directory.
///
/// # Errors
/// As those of [`load`].
pub fn load_text(name: &str, text: &str, options: &Options) -> Result<Loaded, Diagnostic> {
    load_scenario(&Source::new(name, text), None, options, &mut Recordings::default())
}

/// Recordings that were read, by their path.
pub(crate) type Recordings = BTreeMap<PathBuf, Arc<Recording>>;

fn load_scenario(
    source: &Source,
    directory: Option<&Path>,
    options: &Options,
    recordings: &mut Recordings,
) -> Result<Loaded, Diagnostic> {
    if source.text.len() as u64 > TEXT_BYTES {
        return Err(Diagnostic::of_budget(&source.name, OverBudget::Text));
    }
    let (for_policies, mut for_scenario): (Vec<_>, Vec<_>) = options
        .set
        .iter()
        .map(|text| Setting::parse(text))
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .partition(|setting| is_owner(&setting.path[0]));
    let scenario = document::apply(source, &mut for_scenario)?;
    let place = |path: &[String], message: String| match for_scenario
        .iter()
        .rev()
        .find(|setting| setting.covers(path))
    {
        Some(setting) => setting.value_error(message),
        None => source.error(document::locate(source, path), message),
    };

    let (mut setup, entry_of) =
        expand(&scenario).map_err(|ConfigError { path, problem }| place(&path, problem))?;
    for (index, domain) in setup.domains.iter_mut().enumerate() {
        for (number, task) in domain.task.iter_mut().enumerate() {
            let Workload::Replay(replay) = &mut task.workload else { continue };
            let path =
                path_of(&["domain", &entry_of[index].to_string(), "task", &number.to_string()]);
            // What is wrong with the scenario itself is said before its recordings are read.
            let jitter = limits::JITTER_PERCENT.check(replay.jitter_percent.into());
            jitter.map_err(|problem| {
                let mut path = path.clone();
                path.extend(path_of(&["workload", "replay", "jitter_percent"]));
                place(&path, problem)
            })?;
            let file = directory.unwrap_or(Path::new("")).join(&replay.recording);
            let recording = match recordings.get(&file) {
                Some(recording) => recording.clone(),
                None => {
                    let recording =
                        Arc::new(import::recording(&file, Aside::of(options.host.as_deref()))?);
                    recordings.insert(file, recording.clone());
                    recording
                }
            };
            let Some(process) = recording.processes.get(&replay.process) else {
                let mut path = path;
                path.extend(path_of(&["workload", "replay", "process"]));
                let message =
                    format!("there is no process {} in `{}`", replay.process, replay.recording);
                return Err(place(&path, message));
            };
            replay.threads = process.replay.clone();
        }
    }
    setup.validate().map_err(|ConfigError { mut path, problem }| {
        // The file counts entries, not the domains that they stand for.
        if let ("domain", Some(entry)) = (
            path[0].as_str(),
            path.get(1).and_then(|n| n.parse::<usize>().ok()).and_then(|n| entry_of.get(n)),
        ) {
            path[1] = entry.to_string();
        }
        place(&path, problem)
    })?;

    import::used(options.host.as_deref(), recordings)?;
    let mut files: Vec<_> = recordings.values().collect();
    let recording = files.pop().filter(|_| files.is_empty());
    let recorded = recording.and_then(|recording| recording.measure(&setup));
    let recording = recording.filter(|_| recorded.is_some());
    let (policies, own) =
        policies(&scenario, setup.host.others, options, &for_policies, recording, &place)?;
    let seeds = options.seeds.unwrap_or(scenario.seeds);
    limits::SEEDS.check(seeds.into()).map_err(|problem| match options.seeds {
        Some(seeds) => {
            let seeds = seeds.to_string();
            Source::new("--seeds", &seeds).error(0..seeds.len(), problem)
        }
        None => place(&path_of(&["seeds"]), problem),
    })?;
    if scenario.length.0 == 0 {
        return Err(place(&path_of(&["length"]), "nothing to simulate: `length` is 0".to_owned()));
    }
    check_cost(&setup, scenario.length, seeds, &policies, &place)?;

    Ok(Loaded {
        name: scenario.name,
        about: scenario.about,
        length: scenario.length,
        seeds,
        setup,
        policies,
        chosen: !(options.policies.is_empty() && scenario.policy.is_empty()),
        own,
        as_recorded: None,
        known: recording.map_or(vec![], |recording| recording.known.clone()),
        assumed: recording.map_or(vec![], |recording| recording.assumed.clone()),
        recorded,
        recordings: recordings.keys().cloned().collect(),
    })
}

/// Refuses what would take for ever, or more memory than is given to it.
fn check_cost(
    setup: &Setup,
    length: Nanoseconds,
    seeds: u32,
    policies: &[LabelledPolicy],
    place: &dyn Fn(&[String], String) -> Diagnostic,
) -> Result<(), Diagnostic> {
    let pcpus = u128::from(setup.host.pcpus());
    let paced = |policy: &Policy| match shortest_run_ns(policy) {
        Some(run_ns) => 2 * pcpus * u128::from(length.0) / u128::from(run_ns),
        None => 0,
    };
    let asked = setup.estimated_events(length);
    let each = policies.iter().map(|item| asked.saturating_add(paced(&item.policy)));
    let events = each.fold(0, u128::saturating_add).saturating_mul(seeds.into());
    if events > MAX_EVENTS {
        let exponent = events.ilog10();
        let message = format!(
            "this asks for about {} x 10^{exponent} events in {} policies x {seeds} seeds: at most 10^12",
            events / 10u128.pow(exponent),
            policies.len()
        );
        let help = "shorten `length`, or what happens more often than every microsecond";
        return Err(place(&path_of(&["length"]), message).with_help(help));
    }
    let mib = |bytes: u128| bytes.div_ceil(1 << 20);
    let memory = setup.estimated_memory(length);
    if memory > MAX_RUN_BYTES {
        let message = format!(
            "a run of these {} domains takes about {} MiB of memory: at most {}",
            setup.domains.len(),
            mib(memory),
            mib(MAX_RUN_BYTES)
        );
        let help = "take fewer vCPUs, threads or clients, or a shorter `length`";
        return Err(place(&path_of(&["domain"]), message).with_help(help));
    }
    let runs = u128::from(seeds) * policies.len() as u128;
    let results = setup.estimated_result().saturating_mul(runs);
    if results > MAX_RESULT_BYTES {
        let message = format!(
            "the results of {} policies x {seeds} seeds take about {} MiB of memory: at most {}",
            policies.len(),
            mib(results),
            mib(MAX_RESULT_BYTES)
        );
        let path = if seeds > 1 { "seeds" } else { "domain" };
        return Err(place(&path_of(&[path]), message)
            .with_help("take fewer seeds, policies or vCPUs, or compare in several goes"));
    }
    Ok(())
}

/// Parameters that say for how long a vCPU runs at most, or after what time a pCPU looks again; 0 is never.
const PACES: [&str; 9] = [
    "slice_ns",
    "run_max_ns",
    "boost_slice_ns",
    "extra_quantum_ns",
    "latency_ns",
    "base_slice_ns",
    "tick_ns",
    "cosched.moment_ns",
    "balance_interval_ns",
];

/// How often at most the policy's parameters make a pCPU choose.
fn shortest_run_ns(policy: &Policy) -> Option<u64> {
    PACES.iter().filter_map(|name| policy.value(name)).filter(|&ns| ns > 0).min()
}

fn path_of(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|&part| part.to_owned()).collect()
}

/// The domains that the entries stand for, and the entry of each.
fn expand(scenario: &Scenario) -> Result<(Setup, Vec<usize>), ConfigError> {
    let (mut total, mut bytes) = (0, 0_usize);
    for (index, entry) in scenario.domain.iter().enumerate() {
        let count = entry.count.unwrap_or(1);
        total += u64::from(count);
        let most = limits::DOMAINS.most;
        let problem = match limits::DOMAINS.check(count.into()) {
            Err(problem) => problem,
            Ok(()) if total > most => {
                format!("`{count}`: this makes {total} domains, at most {most} are possible")
            }
            Ok(()) => {
                let one = entry.domains().next().map_or(0, |domain| domain_bytes(&domain));
                bytes = bytes.saturating_add(one.saturating_mul(count as usize));
                if bytes <= MAX_DOMAIN_BYTES {
                    continue;
                }
                let most = MAX_DOMAIN_BYTES >> 20;
                format!("`{count}` such domains take more than {most} MiB: pins and tasks count")
            }
        };
        return Err(ConfigError {
            path: path_of(&["domain", &index.to_string(), "count"]),
            problem,
        });
    }
    let mut setup = Setup { host: scenario.host.clone(), domains: vec![] };
    let mut entry_of = vec![];
    for (index, entry) in scenario.domain.iter().enumerate() {
        setup.domains.extend(entry.domains());
        entry_of.resize(setup.domains.len(), index);
    }
    Ok((setup, entry_of))
}

/// The policies that file and command line ask for, with labels that are unique; with a recording that of its
/// own scheduler too, before all others if nobody asks for it.
fn policies(
    scenario: &Scenario,
    others: Option<Others>,
    options: &Options,
    settings: &[Setting],
    recording: Option<&Arc<Recording>>,
    place: &dyn Fn(&[String], String) -> Diagnostic,
) -> Result<(Vec<LabelledPolicy>, Option<OwnScheduler>), Diagnostic> {
    let plain =
        |policy: &str| PolicyEntry { policy: policy.to_owned(), label: None, set: BTreeMap::new() };
    let from_options: Vec<_> = options.policies.iter().map(|name| plain(name)).collect();
    let all: Vec<_> = disciplines().iter().map(|known| plain(known.name)).collect();
    let (entries, in_file) = match (from_options.is_empty(), scenario.policy.is_empty()) {
        (false, _) => (&from_options, false),
        (true, false) => (&scenario.policy, true),
        (true, true) => (&all, false),
    };
    let mut result: Vec<LabelledPolicy> = vec![];
    for (index, entry) in entries.iter().enumerate() {
        let at = |keys: &[&str], message: String| {
            if in_file {
                let mut path = path_of(&["policy", &index.to_string()]);
                path.extend(path_of(keys));
                place(&path, message)
            } else {
                let is_own = options.own.as_ref() == Some(&entry.policy);
                let option = if is_own { "--own" } else { "--policy" };
                Source::new(option, &entry.policy).error(0..entry.policy.len(), message)
            }
        };
        let mut policy = Policy::named(&entry.policy)
            .map_err(|error| explain(&error, |m| at(&["policy"], m)))?;
        for (name, value) in &entry.set {
            policy
                .set(name, &value.0)
                .map_err(|error| explain(&error, |m| at(&["set", name], m)))?;
        }
        set_parameters(&mut policy, settings)?;
        let label = entry.label.clone().unwrap_or_else(|| policy.to_string());
        if result.iter().any(|other| other.label == label) {
            let message =
                format!("`{label}` is there twice: give each policy a `label` of its own");
            let key = if entry.label.is_some() { "label" } else { "policy" };
            return Err(at(&[key], message));
        }
        result.push(LabelledPolicy { label, policy });
    }
    let own = match recording {
        Some(recording) => own_scheduler(&mut result, others, options, settings, recording)?,
        None => None,
    };
    check_owners(settings, |name| result.iter().any(|item| has(&item.policy, name)))?;
    Ok((result, own))
}

/// Which policy scheduled the recorded host; it becomes one of those.
fn own_scheduler(
    policies: &mut Vec<LabelledPolicy>,
    others: Option<Others>,
    options: &Options,
    settings: &[Setting],
    recording: &Recording,
) -> Result<Option<OwnScheduler>, Diagnostic> {
    let (mut policy, assumed) = match &options.own {
        Some(name) => {
            let at = |message| Source::new("--own", name).error(0..name.len(), message);
            (Policy::named(name).map_err(|error| explain(&error, at))?, false)
        }
        None => match recording.own_scheduler() {
            Some(own) => own,
            None => return Ok(None),
        },
    };
    // On this host that name means how it was recorded, not another reading beside it; unless it is asked what
    // `steelyard kvm run` would do.
    let beside = others == Some(Others::Beside);
    let mut plain = Policy::named(&policy.to_string()).ok().filter(|_| !beside);
    if let Some(plain) = &mut plain {
        set_parameters(plain, settings)?;
    }
    set_parameters(&mut policy, settings)?;
    for item in policies.iter_mut().filter(|item| Some(&item.policy) == plain.as_ref()) {
        item.policy.clone_from(&policy);
    }
    let known = policies.iter().find(|item| item.policy == policy);
    let label = match known {
        Some(known) => known.label.clone(),
        None => {
            let mut label = policy.to_string();
            while policies.iter().any(|item| item.label == label) {
                label += " (own)";
            }
            policies.insert(0, LabelledPolicy { label: label.clone(), policy });
            label
        }
    };
    Ok(Some(OwnScheduler { label, assumed }))
}

/// The policy of this name with changes (`--set`) to its parameters, where there is no scenario.
///
/// # Errors
/// A name, parameter or value that cannot be.
pub fn policy(name: &str, set: &[String]) -> Result<Policy, Diagnostic> {
    let at = |message| Source::new("--policy", name).error(0..name.len(), message);
    let mut policy = Policy::named(name).map_err(|error| explain(&error, at))?;
    let settings = set.iter().map(|text| Setting::parse(text)).collect::<Result<Vec<_>, _>>()?;
    set_parameters(&mut policy, &settings)?;
    check_owners(&settings, |name| has(&policy, name))?;
    Ok(policy)
}

/// Sets those parameters that the policy has. Those of its discipline it knows by their plain names.
fn set_parameters(policy: &mut Policy, settings: &[Setting]) -> Result<(), Diagnostic> {
    for setting in settings {
        let name = match &setting.path[0] {
            own if own == policy.discipline().name => setting.path[1..].join("."),
            governor if has(policy, governor) => setting.path.join("."),
            _ => continue,
        };
        policy.set(&name, &setting.value).map_err(|error| {
            explain(&error, |message| match error {
                PolicyError::BadValue { .. } => setting.value_error(message),
                _ => setting.key_error(message),
            })
        })?;
    }
    Ok(())
}

/// A parameter of a discipline or governor that is not there would silently do nothing.
fn check_owners(settings: &[Setting], known: impl Fn(&str) -> bool) -> Result<(), Diagnostic> {
    match settings.iter().find(|setting| !known(&setting.path[0])) {
        Some(setting) => {
            Err(setting.key_error(format!("no policy here has `{}`", setting.path[0])))
        }
        None => Ok(()),
    }
}

/// Whether the policy is of this discipline or has this governor.
pub(crate) fn has(policy: &Policy, name: &str) -> bool {
    policy.discipline().name == name || policy.governors().any(|governor| governor.name == name)
}

/// Whether parameters belong to something of this name.
fn is_owner(name: &str) -> bool {
    let mut disciplines = disciplines().iter().map(|discipline| discipline.name);
    disciplines.any(|known| known == name)
        || governors().iter().any(|governor| governor.name == name)
}

fn explain(error: &PolicyError, at: impl Fn(String) -> Diagnostic) -> Diagnostic {
    match error {
        PolicyError::UnknownPolicy { name, known }
        | PolicyError::UnknownVintage { name, known, .. }
        | PolicyError::UnknownGovernor { name, known }
        | PolicyError::UnknownParameter { name, known, .. } => {
            let nearest = did_you_mean(name, known.iter().copied());
            at(format!("{error}{nearest}")).with_known(known.iter().copied())
        }
        PolicyError::BadValue { .. }
        | PolicyError::Unsuited { .. }
        | PolicyError::Absent { .. } => at(error.to_string()),
    }
}
