// SPDX-License-Identifier: GPL-2.0-only
//! Inputs: paths, dicts, and scenarios as objects.

use std::path::PathBuf;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use steelyard_scenario::{Diagnostic, Loaded, Options, load, load_text};
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value};

use crate::error::input_error;

/// What errors call a dict.
const DICT: &str = "dict";

/// Of where something is read again and again.
#[derive(Clone)]
enum Origin {
    Path(PathBuf),
    Text { name: String, text: String },
}

/// Something that can be simulated: a scenario, a recording, or the description of a virtual machine.
///
/// It is read, and checked, once more whenever it is used; `InputError` says what is wrong with it, and where.
///
/// Args:
///     input: The path of anything that the command reads, or a dict that has the tables of a scenario
///         (docs/scenario.md) as dicts and lists. Keys whose value is None are left out.
#[pyclass(frozen, module = "steelyard")]
#[derive(Clone)]
pub struct Scenario {
    origin: Origin,
    /// As it is without further options.
    name: String,
    about: Option<String>,
    length_ns: u64,
    seeds: u32,
    policies: Vec<String>,
    domains: Vec<String>,
    recorded: bool,
}

impl Origin {
    fn of(input: &Bound<PyAny>) -> PyResult<Origin> {
        if let Ok(scenario) = input.cast::<Scenario>() {
            return Ok(scenario.get().origin.clone());
        }
        if let Ok(dict) = input.cast::<PyDict>() {
            let mut document = DocumentMut::new();
            *document.as_table_mut() = table(dict)?;
            return Ok(Origin::Text { name: DICT.to_owned(), text: document.to_string() });
        }
        match input.extract::<PathBuf>() {
            Ok(path) => Ok(Origin::Path(path)),
            Err(_) => Err(PyTypeError::new_err("an input is a path, a dict or a Scenario")),
        }
    }

    fn load(&self, py: Python, options: &Options) -> PyResult<Loaded> {
        let loaded = py.detach(|| match self {
            Origin::Path(path) => load(path, options),
            Origin::Text { name, text } => load_text(name, text, options),
        });
        loaded.map_err(|diagnostic| input_error(py, diagnostic))
    }

    /// As the command calls it in its results.
    fn source(&self) -> String {
        match self {
            Origin::Path(path) => {
                path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
            }
            Origin::Text { name, .. } => name.clone(),
        }
    }

    /// What was read: recordings, and what it is read from itself.
    fn files(&self, loaded: &Loaded) -> Vec<PathBuf> {
        let mut files = loaded.recordings.clone();
        if let Origin::Path(path) = self
            && !files.contains(path)
        {
            files.push(path.clone());
        }
        files
    }

    fn text(&self, py: Python) -> PyResult<String> {
        match self {
            Origin::Path(path) => py
                .detach(|| steelyard_scenario::import(path, None))
                .map_err(|diagnostic| input_error(py, diagnostic)),
            Origin::Text { text, .. } => Ok(text.clone()),
        }
    }
}

/// An input with what was asked of it.
pub struct Read {
    pub loaded: Loaded,
    /// What results call it.
    pub source: String,
    /// What people call it.
    pub path: String,
    /// Files that must not be written over.
    pub files: Vec<PathBuf>,
}

pub fn read(input: &Bound<PyAny>, options: &Options) -> PyResult<Read> {
    let origin = Origin::of(input)?;
    let loaded = origin.load(input.py(), options)?;
    let path = match &origin {
        Origin::Path(path) => path.to_string_lossy().into_owned(),
        Origin::Text { name, .. } => name.clone(),
    };
    Ok(Read { source: origin.source(), files: origin.files(&loaded), loaded, path })
}

#[pymethods]
impl Scenario {
    #[new]
    fn new(input: &Bound<PyAny>) -> PyResult<Scenario> {
        Scenario::of(input.py(), Origin::of(input)?)
    }

    /// Reads a scenario from its text. Recordings in it are relative to the current directory.
    ///
    /// Args:
    ///     text: TOML.
    ///     name: What errors and results call it.
    #[staticmethod]
    #[pyo3(signature = (text, name = "text"))]
    fn parse(py: Python, text: String, name: &str) -> PyResult<Scenario> {
        Scenario::of(py, Origin::Text { name: name.to_owned(), text })
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// What one can learn from it.
    #[getter]
    fn about(&self) -> Option<&str> {
        self.about.as_deref()
    }

    /// Simulated time of each run, in ns.
    #[getter]
    fn length_ns(&self) -> u64 {
        self.length_ns
    }

    /// Runs of each policy.
    #[getter]
    fn seeds(&self) -> u32 {
        self.seeds
    }

    /// Labels of the policies that are compared if no others are asked for.
    #[getter]
    fn policies(&self) -> Vec<String> {
        self.policies.clone()
    }

    /// Names of its domains.
    #[getter]
    fn domains(&self) -> Vec<String> {
        self.domains.clone()
    }

    /// Whether it is a recording, of which `replay` can say how far replays are off.
    #[getter]
    fn recorded(&self) -> bool {
        self.recorded
    }

    /// What is read for it: the recordings that it replays, and itself, if it is a path.
    ///
    /// Args:
    ///     set: Changes, as `compare` takes them; a recording may be among them.
    #[pyo3(signature = (set = None))]
    fn files(&self, py: Python, set: Option<&Bound<PyAny>>) -> PyResult<Vec<PathBuf>> {
        let options = Options { set: changes(set)?, ..Options::default() };
        Ok(self.origin.files(&self.origin.load(py, &options)?))
    }

    /// The scenario as TOML; of a recording or description what `steelyard import` makes of it.
    #[getter]
    fn text(&self, py: Python) -> PyResult<String> {
        self.origin.text(py)
    }

    /// The same as dicts and lists, to be changed and given to the functions.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let text = self.origin.text(py)?;
        let document = text.parse::<DocumentMut>();
        let document = document.map_err(|error| PyValueError::new_err(error.to_string()))?;
        dict_of(py, document.iter())
    }

    /// So that it can be sent to another process; a path is read there again.
    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, class) = (slf.py(), slf.get_type());
        match &slf.get().origin {
            Origin::Path(path) => Ok((class.into_any(), (path,).into_pyobject(py)?)),
            Origin::Text { name, text } => {
                Ok((class.getattr("parse")?, (text, name).into_pyobject(py)?))
            }
        }
    }

    fn __repr__(&self) -> String {
        let (domains, policies) = (self.domains.len(), self.policies.len());
        format!("<Scenario {:?}: {domains} domains, {policies} policies>", self.name)
    }
}

impl Scenario {
    fn of(py: Python, origin: Origin) -> PyResult<Scenario> {
        let loaded = origin.load(py, &Options::default())?;
        Ok(Scenario {
            origin,
            name: loaded.name,
            about: loaded.about,
            length_ns: loaded.length.0,
            seeds: loaded.seeds,
            policies: loaded.policies.into_iter().map(|policy| policy.label).collect(),
            domains: loaded.setup.domains.into_iter().map(|domain| domain.name).collect(),
            recorded: loaded.recorded.is_some(),
        })
    }
}

/// Changes as the command's `--set`: of a dict, or a list of KEY=VALUE.
pub fn changes(asked: Option<&Bound<PyAny>>) -> PyResult<Vec<String>> {
    let Some(asked) = asked else { return Ok(vec![]) };
    let Ok(dict) = asked.cast::<PyDict>() else { return asked.extract() };
    let change = |(key, value): (Bound<PyAny>, Bound<PyAny>)| {
        let key: String = key.extract()?;
        let value = match value.cast::<PyString>() {
            Ok(text) => text.to_string(),
            Err(_) => inline(&value)?.to_string(),
        };
        Ok(format!("{key}={}", value.trim()))
    };
    dict.iter().map(change).collect()
}

/// Lists of dicts become tables of their own, so that an error shows a line of few settings.
fn table(dict: &Bound<PyDict>) -> PyResult<Table> {
    let mut table = Table::new();
    table.set_implicit(true);
    for (key, value) in dict {
        // As with a keyword argument that was left out.
        if value.is_none() {
            continue;
        }
        let item = if let Ok(inner) = value.cast::<PyDict>() {
            Item::Table(self::table(inner)?)
        } else if let Some(tables) = tables(&value)? {
            Item::ArrayOfTables(tables)
        } else {
            Item::Value(inline(&value)?)
        };
        table.insert(&key.extract::<String>()?, item);
    }
    Ok(table)
}

/// Of a list of dicts, at least one.
fn tables(value: &Bound<PyAny>) -> PyResult<Option<ArrayOfTables>> {
    let Ok(items) = items(value) else { return Ok(None) };
    if items.is_empty() || !items.iter().all(|item| item.is_instance_of::<PyDict>()) {
        return Ok(None);
    }
    let mut tables = ArrayOfTables::new();
    for item in items {
        tables.push(table(item.cast::<PyDict>()?)?);
    }
    Ok(Some(tables))
}

fn items<'py>(value: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return value.try_iter()?.collect();
    }
    Err(PyTypeError::new_err("no list"))
}

fn inline(value: &Bound<PyAny>) -> PyResult<Value> {
    if let Ok(dict) = value.cast::<PyDict>() {
        let mut table = InlineTable::new();
        for (key, value) in dict {
            table.insert(key.extract::<String>()?, inline(&value)?);
        }
        return Ok(Value::InlineTable(table));
    }
    if let Ok(items) = items(value) {
        let values = items.iter().map(inline).collect::<PyResult<Vec<_>>>()?;
        return Ok(Value::Array(Array::from_iter(values)));
    }
    // A bool is an int to Python.
    if value.is_instance_of::<PyBool>() {
        return Ok(value.extract::<bool>()?.into());
    }
    if value.is_instance_of::<PyString>() {
        return Ok(value.extract::<String>()?.into());
    }
    // Numbers of numpy are what they can be made.
    if let Ok(number) = value.extract::<i64>() {
        return Ok(number.into());
    }
    if let Ok(number) = value.extract::<f64>() {
        return Ok(number.into());
    }
    Err(PyTypeError::new_err(format!("no setting of a scenario is of {}", value.get_type())))
}

fn dict_of<'py, 'a>(
    py: Python<'py>,
    items: impl Iterator<Item = (&'a str, &'a Item)>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (key, item) in items {
        match item {
            Item::Table(table) => dict.set_item(key, dict_of(py, table.iter())?)?,
            Item::ArrayOfTables(tables) => {
                let tables = tables.iter().map(|table| dict_of(py, table.iter()));
                dict.set_item(key, PyList::new(py, tables.collect::<PyResult<Vec<_>>>()?)?)?;
            }
            Item::Value(value) => dict.set_item(key, object(py, value)?)?,
            Item::None => {}
        }
    }
    Ok(dict)
}

fn object<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::String(text) => PyString::new(py, text.value()).into_any(),
        Value::Integer(number) => PyInt::new(py, *number.value()).into_any(),
        Value::Float(number) => PyFloat::new(py, *number.value()).into_any(),
        Value::Boolean(yes) => PyBool::new(py, *yes.value()).to_owned().into_any(),
        // No setting is one.
        Value::Datetime(time) => PyString::new(py, &time.to_string()).into_any(),
        Value::Array(values) => {
            let values = values.iter().map(|value| object(py, value));
            PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        Value::InlineTable(table) => {
            let dict = PyDict::new(py);
            for (key, value) in table {
                dict.set_item(key, object(py, value)?)?;
            }
            dict.into_any()
        }
    })
}

/// A recording is wanted.
pub fn check_recorded(py: Python, read: &Read) -> PyResult<()> {
    if read.loaded.recorded.is_some() {
        return Ok(());
    }
    let fault = Diagnostic::of_file(&read.path, "this is no recording");
    Err(input_error(py, fault.with_help("`compare` takes scenarios and descriptions too")))
}
