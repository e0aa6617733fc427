// SPDX-License-Identifier: GPL-2.0-only
//! Values as people write them: `"27 ms"`, `"0-3,6"`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A length of time in nanoseconds, written with its unit: `"27 ms"`, `"1.5 s"`, `"100us"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanoseconds(pub u64);

impl Nanoseconds {
    /// So many microseconds.
    pub const fn from_us(us: u64) -> Self {
        Nanoseconds(us * 1_000)
    }
    /// So many milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Nanoseconds(ms * 1_000_000)
    }
    /// So many seconds.
    pub const fn from_s(s: u64) -> Self {
        Nanoseconds(s * 1_000_000_000)
    }
}

const UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

impl FromStr for Nanoseconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no length of time: write a number and ns, us, ms, s, min or h, such as \"27 ms\""
            )
        };
        let trimmed = text.trim();
        let split = trimmed
            .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')
            .ok_or_else(wrong)?;
        let (number, unit) = trimmed.split_at(split);
        let scale = UNITS
            .iter()
            .find(|(name, _)| *name == unit.trim())
            .map(|&(_, scale)| scale)
            .ok_or_else(wrong)?;
        let number = number.replace('_', "");
        let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
        if whole.is_empty() || fraction.len() > 12 || fraction.contains('.') {
            return Err(wrong());
        }
        let whole: u128 = whole.parse().map_err(|_| wrong())?;
        let thousandths: u128 =
            if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| wrong())? };
        let total = whole.checked_mul(scale.into()).ok_or_else(wrong)?
            + thousandths * u128::from(scale) / 10u128.pow(fraction.len() as u32);
        match u64::try_from(total) {
            Ok(ns) if ns <= i64::MAX as u64 => Ok(Nanoseconds(ns)),
            _ => Err(format!("`{text}` is too long: at most 292 years")),
        }
    }
}

impl fmt::Display for Nanoseconds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, scale) = UNITS
            .into_iter()
            .find(|&(_, scale)| self.0 != 0 && self.0.is_multiple_of(scale))
            .unwrap_or(("ns", 1));
        // "90 min" reads better as itself than as hours, but whole units are what round-trips.
        write!(formatter, "{} {name}", self.0 / scale)
    }
}

/// A set of pCPUs, written as in `taskset` and libvirt: `"0-3,6"`, `"0-7,^2"`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuSet(Vec<u32>);

/// The largest pCPU number that a [`CpuSet`] may name.
pub const MAX_PCPU: u32 = 4095;

impl CpuSet {
    /// The pCPUs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(pcpus: I) -> Self {
        let mut pcpus: Vec<_> = pcpus.into_iter().collect();
        pcpus.sort_unstable();
        pcpus.dedup();
        CpuSet(pcpus)
    }
}

impl FromStr for CpuSet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is no set of pCPUs: write numbers and ranges, such as \"0-3,6\"");
        // However often a pCPU is named, it takes room once.
        let mut named = vec![false; MAX_PCPU as usize + 1];
        for item in text.split(',') {
            let item = item.trim();
            let (exclude, range) = match item.strip_prefix('^') {
                Some(rest) => (true, rest),
                None => (false, item),
            };
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let first: u32 = first.trim().parse().map_err(|_| wrong())?;
            let last: u32 = last.trim().parse().map_err(|_| wrong())?;
            if last > MAX_PCPU {
                return Err(format!("`{text}`: the largest pCPU number is {MAX_PCPU}"));
            }
            if first > last {
                return Err(wrong());
            }
            named[first as usize..=last as usize].fill(!exclude);
        }
        let set: CpuSet = (0..=MAX_PCPU).filter(|&pcpu| named[pcpu as usize]).collect();
        if set.0.is_empty() { Err(wrong()) } else { Ok(set) }
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
            [one] => one.to_string(),
            run => format!("{}-{}", run[0], run[run.len() - 1]),
        });
        formatter.write_str(&runs.collect::<Vec<_>>().join(","))
    }
}

macro_rules! as_string {
    ($type:ident, $name:literal, $pattern:literal, $description:literal) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Cow::<str>::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": $pattern, "description": $description })
            }
        }
    };
}
as_string!(
    Nanoseconds,
    "Time",
    r"^ *[0-9_]+(\.[0-9]+)? *(ns|us|ms|s|min|h) *$",
    "A length of time with its unit, such as \"27 ms\"."
);
as_string!(CpuSet, "CpuSet", r"^[0-9, ^-]+$", "A set of pCPUs, such as \"0-3,6\" or \"0-7,^2\".");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_read_with_its_unit() {
        let ns = |text: &str| text.parse::<Nanoseconds>().map(|time| time.0);
        assert_eq!(ns("27 ms"), Ok(27_000_000));
        assert_eq!(ns("1.5s"), Ok(1_500_000_000));
        assert_eq!(ns(" 0.000001 us"), Ok(0));
        assert_eq!(ns("2 h"), Ok(7_200_000_000_000));
        for text in ["", "27", "ms", "1..5 s", "1.s5", "-1 s", ".5 s", "300 years", "9999999 h"] {
            assert!(ns(text).is_err(), "{text}");
        }
        for text in ["27 ms", "1500 ms", "1 h", "0 ns", "61 s"] {
            assert_eq!(text.parse::<Nanoseconds>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn cpu_sets_are_read_as_libvirt_writes_them() {
        let set = |text: &str| text.parse::<CpuSet>().map(|set| set.to_string());
        assert_eq!(set("3,0-1, 2,6"), Ok("0-3,6".to_owned()));
        assert_eq!(set("0-3,^2"), Ok("0-1,3".to_owned()));
        assert_eq!(set("0-3,^2,2,^0,4095"), Ok("1-3,4095".to_owned()));
        for text in ["", "a", "3-1", "0-", "^1", "0-99999", "-1"] {
            assert!(set(text).is_err(), "{text}");
        }
    }
}
