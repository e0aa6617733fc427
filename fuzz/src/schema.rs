// SPDX-License-Identifier: GPL-2.0-only
//! Any document that a JSON Schema describes: what a scenario may say is fuzzed as soon as it can be said.

use std::sync::LazyLock;

use arbitrary::{Result, Unstructured};
use serde_json::{Map, Value};
use steelyard_policy::{disciplines, governors, published};

use crate::values::{Number, Word, chance};

/// That of scenarios.
static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(&steelyard_scenario::schema()).expect("the schema is JSON")
});

/// Items of a list at most.
const MOST_ITEMS: usize = 4;

/// A scenario: of the right form, if not always of values that can be.
pub fn scenario(bytes: &mut Unstructured<'_>) -> Result<Value> {
    value(bytes, &SCHEMA)
}

fn value(bytes: &mut Unstructured<'_>, schema: &Value) -> Result<Value> {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.trim_start_matches("#/$defs/");
        return match name {
            "Time" => time(bytes),
            "CpuSet" => pcpus(bytes),
            _ => value(bytes, &SCHEMA["$defs"][name]),
        };
    }
    if let Some(constant) = schema.get("const") {
        return Ok(constant.clone());
    }
    for key in ["oneOf", "anyOf", "enum"] {
        if let Some(choices) = schema[key].as_array() {
            let choice = bytes.choose(choices)?;
            return if key == "enum" { Ok(choice.clone()) } else { value(bytes, choice) };
        }
    }
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.as_slice(),
        kind => std::slice::from_ref(kind),
    };
    match bytes.choose(kinds)?.as_str() {
        Some("object") => object(bytes, schema),
        Some("array") => {
            let items = bytes.int_in_range(0..=MOST_ITEMS)?;
            (0..items).map(|_| value(bytes, &schema["items"])).collect()
        }
        Some("integer") => number(bytes, schema),
        Some("boolean") => Ok(bytes.arbitrary::<bool>()?.into()),
        Some("string") => Ok(bytes.arbitrary::<Word>()?.0.into()),
        Some("null") => Ok(Value::Null),
        _ => unreachable!("{schema}"),
    }
}

fn object(bytes: &mut Unstructured<'_>, schema: &Value) -> Result<Value> {
    let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
    let mut object = Map::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let needed = required.iter().any(|key| key == name);
        // What runs is worth more than what else may be said.
        let wanted = matches!(name.as_str(), "task" | "policy");
        if !needed && !chance(bytes, if wanted { 7 } else { 1 }, 8)? {
            continue;
        }
        let value = match name.as_str() {
            "policy" if property["type"] == "string" => policy(bytes)?.into(),
            "set" => parameters(bytes)?,
            // Mostly names of their own.
            "name" if !chance(bytes, 1, 8)? => format!("d{}", bytes.arbitrary::<u8>()?).into(),
            _ => value(bytes, property)?,
        };
        if !value.is_null() {
            object.insert(name.clone(), value);
        }
    }
    Ok(object.into())
}

fn number(bytes: &mut Unstructured<'_>, schema: &Value) -> Result<Value> {
    let least = schema["minimum"].as_u64().unwrap_or(0);
    let most = schema["maximum"].as_u64().unwrap_or(i64::MAX as u64);
    let small = least + bytes.int_in_range(0..=3)?;
    let number = match bytes.int_in_range(0..=15_u8)? {
        15 => most,
        14 => least,
        13 => bytes.arbitrary::<Number>()?.0,
        12 => bytes.arbitrary::<u16>()?.into(),
        _ => small.min(most),
    };
    // TOML has no more.
    Ok((number.min(i64::MAX as u64)).into())
}

fn time(bytes: &mut Unstructured<'_>) -> Result<Value> {
    const UNITS: [&str; 6] = ["ns", "us", "ms", "s", "min", "h"];
    let number = bytes.int_in_range(0..=20_u32)?;
    Ok(match bytes.int_in_range(0..=15_u8)? {
        15 => format!("{} ns", bytes.arbitrary::<Number>()?.0),
        14 => format!("{number} {}", bytes.choose(&UNITS)?),
        8..14 => format!("{number} us"),
        _ => format!("{number} ms"),
    }
    .into())
}

fn pcpus(bytes: &mut Unstructured<'_>) -> Result<Value> {
    let (first, more) = (bytes.int_in_range(0..=3_u32)?, bytes.int_in_range(0..=3_u32)?);
    Ok(match bytes.int_in_range(0..=7_u8)? {
        7 => bytes.arbitrary::<Word>()?.0,
        6 => format!("{first}-{},^{first}", first + more),
        5 => format!("{first}-{}", first + more),
        _ => format!("{first}"),
    }
    .into())
}

/// A policy by its name, as [`steelyard_policy::Policy::named`] takes it.
pub fn policy(bytes: &mut Unstructured<'_>) -> Result<String> {
    let discipline = bytes.choose(disciplines())?;
    let mut name = match bytes.int_in_range(0..=7_u8)? {
        7 => return Ok(bytes.choose(published())?.0.to_owned()),
        6 => return Ok(bytes.arbitrary::<Word>()?.0),
        3..6 => format!("{}@{}", discipline.name, bytes.choose(&discipline.vintages)?),
        _ => discipline.name.to_owned(),
    };
    while chance(bytes, 1, 3)? {
        name = format!("{name}+{}", bytes.choose(governors())?.name);
    }
    Ok(name)
}

/// A parameter of a discipline or governor: its name in [`steelyard_policy::Policy::set`], a value.
pub fn parameter(bytes: &mut Unstructured<'_>) -> Result<(String, u64)> {
    let (prefix, parameters) = if bytes.arbitrary()? {
        (String::new(), &bytes.choose(disciplines())?.parameters)
    } else {
        let governor = bytes.choose(governors())?;
        (format!("{}.", governor.name), &governor.parameters)
    };
    if parameters.is_empty() {
        return Ok((prefix, 0));
    }
    let parameter = bytes.choose(parameters)?;
    let value = match bytes.int_in_range(0..=4_u8)? {
        0 => parameter.minimum,
        1 => parameter.maximum,
        2 => parameter.minimum.saturating_add(bytes.arbitrary::<u8>()?.into()),
        3 => parameter.maximum.saturating_sub(bytes.arbitrary::<u8>()?.into()),
        _ => bytes.arbitrary::<Number>()?.0,
    };
    Ok((format!("{prefix}{}", parameter.name), value))
}

fn parameters(bytes: &mut Unstructured<'_>) -> Result<Value> {
    let mut parameters = Map::new();
    while chance(bytes, 1, 2)? {
        let (name, value) = parameter(bytes)?;
        parameters.insert(name, value.min(i64::MAX as u64).into());
    }
    Ok(parameters.into())
}
