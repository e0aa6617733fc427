// SPDX-License-Identifier: GPL-2.0-only
//! The functions, and what they give.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::slice::from_ref;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use steelyard_boundary::output::Output;
use steelyard_experiment::{Experiment, named, names};
use steelyard_report::{Results, write_reproduction_json};
use steelyard_run::{MOST_SETTINGS, RunError, Search, check_own, pool, search, within_memory};
use steelyard_scenario::{LabelledPolicy, Options};
use steelyard_tune::Outcome;

use crate::error::{input_error, run_error};
use crate::input::{Read, changes, check_recorded, read};
use crate::watch::watched;
use crate::{arrow, tables};

/// A table that whoever knows Arrow takes as it lies in memory: `pandas.DataFrame.from_arrow(table)`,
/// `polars.DataFrame(table)`, `pyarrow.table(table)`.
///
/// Names end in the unit of what stands below them. What is not known in a row is null there.
#[pyclass(frozen, module = "steelyard")]
pub struct Table(Arc<arrow::Table>);

#[pymethods]
impl Table {
    /// Itself as a capsule with an ArrowArrayStream. Whoever asks for another schema is given this one.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let stream = arrow::Stream::of(self.0.clone());
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<&str> {
        self.0.columns.iter().map(|column| column.name.as_str()).collect()
    }

    fn __len__(&self) -> usize {
        self.0.rows
    }

    fn __repr__(&self) -> String {
        format!("<Table: {} rows, {} columns>", self.0.rows, self.0.columns.len())
    }
}

/// What `compare` and `replay` give. As a table it is that of `domains`.
///
/// The figures are those of docs/results.md. Each table has every parameter of the policies as a column, by the name
/// that `set` takes.
#[pyclass(frozen, module = "steelyard")]
pub struct Comparison {
    /// Of one input.
    results: Results,
    policies: Vec<LabelledPolicy>,
}

impl Comparison {
    fn comparison(&self) -> &steelyard_report::Comparison {
        &self.results.comparisons[0]
    }
}

#[pymethods]
impl Comparison {
    /// A row for each run: policy and seed.
    #[getter]
    fn runs(&self) -> Table {
        Table(tables::runs(&self.comparison().runs, &self.policies))
    }

    /// A row for each run and domain.
    #[getter]
    fn domains(&self) -> Table {
        Table(tables::domains(&self.comparison().runs, &self.policies))
    }

    /// A row for each run and vCPU.
    #[getter]
    fn vcpus(&self) -> Table {
        Table(tables::vcpus(&self.comparison().runs, &self.policies))
    }

    /// A row for each run and figure that a workload reports of itself.
    #[getter]
    fn tasks(&self) -> Table {
        Table(tables::tasks(&self.comparison().runs, &self.policies))
    }

    /// Of a recording: what it does not say, and what is taken instead.
    #[getter]
    fn assumed(&self) -> Vec<String> {
        self.comparison().assumed.clone()
    }

    /// Of a recording: how far replays are off, where it is known what scheduled the recorded host.
    #[getter]
    fn replay_error(&self) -> Option<String> {
        self.comparison().replay_error.as_ref().map(steelyard_report::ReplayError::short)
    }

    /// `results.json`, to the byte what `steelyard compare --json` prints.
    fn to_json(&self, py: Python) -> PyResult<String> {
        py.detach(|| {
            let mut text = vec![];
            self.results.write_json(&mut text)?;
            Ok(String::from_utf8_lossy(&text).into_owned())
        })
    }

    /// Itself as a table: that of domains.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.domains().__arrow_c_stream__(py, requested_schema)
    }

    fn __repr__(&self) -> String {
        let comparison = self.comparison();
        let (policies, runs) = (comparison.policies.len(), comparison.runs.len());
        format!("<Comparison {:?}: {policies} policies, {runs} runs>", comparison.scenario)
    }
}

/// Runs an input under several policies, each with every seed, on all CPUs.
///
/// The same input, policies and seeds give the same bytes, whatever the number of threads. Ctrl-C ends it.
///
/// Args:
///     input: A path, a dict or a Scenario.
///     policies: Instead of those of the input; `parameters` names them.
///     seeds: Runs of each policy, instead of what the input says.
///     set: Changes, a dict such as `{"domain.web.weight": 512, "credit.slice_ns": 5000000}` or a list of
///         `KEY=VALUE`.
///     own: What schedules the host that the input stands for, where a recording does not say so.
///     host: What `steelyard describe` wrote of a recorded host.
///     threads: Runs at a time; without it one per CPU. It changes no result.
///     progress: True for a bar of tqdm, or a function that is told what is done, how much of it, and of how much
///         (None where nobody knows).
///
/// Raises:
///     InputError: What was given cannot be used.
#[pyfunction]
#[pyo3(signature = (
    input, policies = None, *, seeds = None, set = None, own = None, host = None, threads = None, progress = None
))]
#[allow(clippy::too_many_arguments)]
pub fn compare(
    input: &Bound<PyAny>,
    policies: Option<Vec<String>>,
    seeds: Option<u32>,
    set: Option<&Bound<PyAny>>,
    own: Option<String>,
    host: Option<PathBuf>,
    threads: Option<NonZeroUsize>,
    progress: Option<Bound<PyAny>>,
) -> PyResult<Comparison> {
    let policies = policies.unwrap_or_default();
    let options = Options { policies, seeds, set: changes(set)?, own, host };
    let read = read(input, &options)?;
    check_own(options.own.as_deref(), from_ref(&read.loaded))
        .map_err(|fault| input_error(input.py(), fault))?;
    run_comparison(input.py(), read, threads, progress)
}

/// Runs a recording of a real host under several policies; as `compare`, of recordings only.
///
/// `replay_error` of what it gives says how far replays are off: less than that is no difference.
///
/// Args:
///     recording: A path, or a scenario that replays one recording.
///     policies: Instead of all disciplines.
///     seeds: Runs of each policy, instead of what the input says.
///     set: Changes, a dict such as `{"domain.web.weight": 512, "credit.slice_ns": 5000000}` or a list of
///         `KEY=VALUE`.
///     own: What schedules the host that the input stands for, where a recording does not say so.
///     host: What `steelyard describe` wrote of a recorded host.
///     threads: Runs at a time; without it one per CPU. It changes no result.
///     progress: True for a bar of tqdm, or a function that is told what is done, how much of it, and of how much
///         (None where nobody knows).
///
/// Raises:
///     InputError: What was given cannot be used.
#[pyfunction]
#[pyo3(signature = (
    recording, policies = None, *, seeds = None, set = None, own = None, host = None, threads = None, progress = None
))]
#[allow(clippy::too_many_arguments)]
pub fn replay(
    recording: &Bound<PyAny>,
    policies: Option<Vec<String>>,
    seeds: Option<u32>,
    set: Option<&Bound<PyAny>>,
    own: Option<String>,
    host: Option<PathBuf>,
    threads: Option<NonZeroUsize>,
    progress: Option<Bound<PyAny>>,
) -> PyResult<Comparison> {
    let policies = policies.unwrap_or_default();
    let read = read(recording, &Options { policies, seeds, set: changes(set)?, own, host })?;
    check_recorded(recording.py(), &read)?;
    run_comparison(recording.py(), read, threads, progress)
}

fn run_comparison(
    py: Python,
    read: Read,
    threads: Option<NonZeroUsize>,
    progress: Option<Bound<PyAny>>,
) -> PyResult<Comparison> {
    let Read { loaded, source, .. } = read;
    let results = watched(py, progress, |watch| {
        let pool = pool(within_memory(threads, from_ref(&loaded)))?;
        steelyard_run::compare(&[source], from_ref(&loaded), &pool, watch)
    })?;
    Ok(Comparison { results, policies: loaded.policies })
}

/// What `tune` gives. As text it is what the command shows; as a table it is that of `settings`.
#[pyclass(frozen, module = "steelyard")]
pub struct Tuning {
    outcome: Outcome,
    input: String,
}

#[pymethods]
impl Tuning {
    /// A row for each setting that was tried, with a column for each thing that was varied; figures are those of the
    /// search.
    #[getter]
    fn settings(&self) -> Table {
        Table(tables::settings(&self.outcome))
    }

    /// A plan for `steelyard apply`: what the best setting changes of domains, if it is a gain.
    #[getter]
    fn plan(&self) -> Option<&str> {
        self.outcome.proposals.first()?.plan.as_deref()
    }

    /// What `steelyard tune --json` prints.
    fn to_json(&self) -> PyResult<String> {
        let text = serde_json::to_string_pretty(&self.outcome);
        text.map_err(|error| PyValueError::new_err(error.to_string())).map(|text| text + "\n")
    }

    /// Itself as a table: that of settings.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.settings().__arrow_c_stream__(py, requested_schema)
    }

    fn __str__(&self) -> String {
        steelyard_tune::text(&self.outcome, &self.input, true)
    }

    fn __repr__(&self) -> String {
        let (tried, gains) = (self.outcome.tried, self.outcome.proposals.len());
        format!("<Tuning of {:?}: {tried} settings, {gains} gains>", self.input)
    }
}

/// Searches for the settings that serve some goals best, and judges them on seeds that the search has not seen.
///
/// Args:
///     input: A path, a dict or a Scenario.
///     minimise: Figures to become as small as they can, such as `web: wait p99` (docs/tune.md).
///     maximise: Figures to become as great as they can.
///     keep: What must hold, such as `batch: share >= 80 % of entitled`.
///     vary: What may be changed, of policy, parameters, weight, cap, slice; without it the first three.
///     policies: Policies to choose from; without it all, with every governor that suits them.
///     settings: How many settings to try.
///     seeds: Runs of each setting in the search.
///     set: Changes, a dict such as `{"domain.web.weight": 512, "credit.slice_ns": 5000000}` or a list of
///         `KEY=VALUE`.
///     own: What schedules the host that the input stands for, where a recording does not say so; without it a scenario's
///         first policy.
///     host: What `steelyard describe` wrote of a recorded host.
///     state: File to keep the search in, and to go on from if it is there: the same result, to the byte.
///     threads: Runs at a time; without it one per CPU. It changes no result.
///     progress: True for a bar of tqdm, or a function that is told what is done, how much of it, and of how much
///         (None where nobody knows).
///
/// Raises:
///     InputError: What was given cannot be used.
#[pyfunction]
#[pyo3(signature = (
    input, *, minimise = None, maximise = None, keep = None, vary = None, policies = None,
    settings = 500, seeds = None, set = None, own = None, host = None, state = None, threads = None,
    progress = None
))]
#[allow(clippy::too_many_arguments)]
pub fn tune(
    input: &Bound<PyAny>,
    minimise: Option<Vec<String>>,
    maximise: Option<Vec<String>>,
    keep: Option<Vec<String>>,
    vary: Option<Vec<String>>,
    policies: Option<Vec<String>>,
    settings: u32,
    seeds: Option<u32>,
    set: Option<&Bound<PyAny>>,
    own: Option<String>,
    host: Option<PathBuf>,
    state: Option<PathBuf>,
    threads: Option<NonZeroUsize>,
    progress: Option<Bound<PyAny>>,
) -> PyResult<Tuning> {
    let py = input.py();
    let [minimise, maximise, keep] = [minimise, maximise, keep].map(Option::unwrap_or_default);
    if minimise.is_empty() && maximise.is_empty() {
        return Err(PyValueError::new_err(
            "nothing is wanted: name a figure to minimise or maximise",
        ));
    }
    if settings == 0 || settings > MOST_SETTINGS {
        let message = format!("settings: {settings} is not from 1 to {MOST_SETTINGS}");
        return Err(PyValueError::new_err(message));
    }
    let options =
        Options { policies: own.iter().cloned().collect(), seeds, set: changes(set)?, own, host };
    let Read { loaded, path, files, .. } = read(input, &options)?;
    let state = state.map(|state| Output::file(&state, &files)).transpose();
    let state = state.map_err(|error| run_error(py, error.into()))?;
    let usual = || ["policy", "parameters", "weight"].map(str::to_owned).into();
    let (vary, policies) = (vary.unwrap_or_else(usual), policies.unwrap_or_default());
    let outcome = watched(py, progress, |watch| {
        let asked = Search {
            minimise: &minimise,
            maximise: &maximise,
            keep: &keep,
            vary: &vary,
            policies: &policies,
            settings,
            seeds,
            state: state.as_ref(),
        };
        let pool = pool(within_memory(threads, from_ref(&loaded)))?;
        search(&path, &loaded, &asked, &pool, watch)
    })?;
    Ok(Tuning { outcome, input: path })
}

/// What `reproduce` gives. As a table it is that of `claims`.
#[pyclass(frozen, module = "steelyard")]
pub struct Reproduction(steelyard_experiment::Reproduction);

#[pymethods]
impl Reproduction {
    /// A row for each claim: what it needs, whether it holds, and whether that is expected.
    #[getter]
    fn claims(&self) -> Table {
        Table(tables::claims(&self.0))
    }

    /// A row for each figure that was measured in a variant, over seeds.
    #[getter]
    fn figures(&self) -> Table {
        Table(tables::figures(&self.0))
    }

    /// Whether every claim is in the state that its experiment expects.
    #[getter]
    fn as_expected(&self) -> bool {
        self.0.unexpected().next().is_none()
    }

    /// `results.json`, to the byte what `steelyard reproduce --json` prints.
    fn to_json(&self) -> PyResult<String> {
        let mut text = vec![];
        write_reproduction_json(&self.0, &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Itself as a table: that of claims.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.claims().__arrow_c_stream__(py, requested_schema)
    }

    fn __repr__(&self) -> String {
        let names: Vec<_> = self.0.experiments.iter().map(|it| it.name.as_str()).collect();
        format!("<Reproduction of {}, {} seeds>", names.join(", "), self.0.seeds)
    }
}

/// Runs a published experiment, and says which of its claims hold.
///
/// Args:
///     name: One of `experiments()`.
///     seeds: Runs of everything; with fewer than ten a claim may fail by chance.
///     threads: Runs at a time; without it one per CPU. It changes no result.
///     progress: True for a bar of tqdm, or a function that is told what is done, how much of it, and of how much
///         (None where nobody knows).
///
/// Raises:
///     InputError: What was given cannot be used.
#[pyfunction]
#[pyo3(signature = (name, *, seeds = 10, threads = None, progress = None))]
pub fn reproduce(
    py: Python,
    name: &str,
    seeds: u32,
    threads: Option<NonZeroUsize>,
    progress: Option<Bound<PyAny>>,
) -> PyResult<Reproduction> {
    let limits = steelyard_simulator::limits::SEEDS;
    limits
        .check(seeds.into())
        .map_err(|problem| PyValueError::new_err(format!("seeds: {problem}")))?;
    let experiment = named(name, &[]).map_err(|fault| input_error(py, fault))?;
    let seeds = u64::from(seeds);
    let outcomes = watched(py, progress, |watch| {
        let pool = pool(threads)?;
        watch.begin("Simulating", Some(Experiment::work(&experiment, seeds)));
        let done = |work| Ok::<_, RunError>(watch.done(work)?);
        pool.install(|| steelyard_experiment::run(from_ref(&experiment), seeds, &done))
    })?;
    Ok(Reproduction(steelyard_experiment::Reproduction::new(seeds, outcomes)))
}

/// The names of the published experiments.
#[pyfunction]
pub fn experiments() -> Vec<&'static str> {
    names()
}

/// Every parameter of every discipline and governor: name, default of each vintage, range, unit, meaning, source.
#[pyfunction]
pub fn parameters() -> Table {
    Table(tables::all_parameters())
}
