// SPDX-License-Identifier: GPL-2.0-only
//! Figures as people read them: three digits and a fitting unit.

/// Three digits that matter, never fewer before the point than there are.
fn three_digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        a if a >= 99.95 => format!("{value:.0}"),
        a if a >= 9.995 => format!("{value:.1}"),
        a if a >= 0.095 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A number without a unit.
pub fn number(value: f64) -> String {
    match value.abs() {
        a if a >= 999.5e9 => format!("{value:.2e}"),
        a if a >= 999.5e6 => format!("{} G", three_digits(value / 1e9)),
        a if a >= 999.5e3 => format!("{} M", three_digits(value / 1e6)),
        a if a >= 9_999.5 => format!("{} k", three_digits(value / 1e3)),
        _ => three_digits(value),
    }
}

/// A length of time given in nanoseconds.
pub fn time(ns: f64) -> String {
    match ns.abs() {
        0.0 => "0 s".to_owned(),
        a if a >= 999.5e6 => format!("{} s", three_digits(ns / 1e9)),
        a if a >= 999.5e3 => format!("{} ms", three_digits(ns / 1e6)),
        a if a >= 999.5 => format!("{} µs", three_digits(ns / 1e3)),
        _ => format!("{ns:.0} ns"),
    }
}

/// Nanoseconds in a unit of time, if it is one.
pub fn unit_ns(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    })
}

/// A figure with its unit.
pub fn with_unit(value: f64, unit: &str) -> String {
    match unit_ns(unit) {
        Some(ns) => time(value * ns),
        None if unit.is_empty() || unit == "1" => number(value),
        // Percentages of time are of one pCPU everywhere.
        None if matches!(unit, "percent" | "%" | "% of a pCPU") => format!("{} %", number(value)),
        None => match unit.strip_prefix("1/") {
            Some(per) => format!("{} /{per}", number(value)),
            None => format!("{} {unit}", number(value)),
        },
    }
}

/// A text in lines of at most so many characters, as far as words allow.
pub fn lines(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_fitting_unit() {
        let cases = [
            (0.0, "ns", "0 s"),
            (999.0, "ns", "999 ns"),
            (999.6, "ns", "1.00 µs"),
            (58_040_000.0, "ns", "58.0 ms"),
            (0.8, "ms", "800 µs"),
            (1.0, "s", "1.00 s"),
            (99.96, "percent", "100 %"),
            (1234.0, "1/s", "1234 /s"),
            (12_345.0, "1/s", "12.3 k /s"),
            (2.5e6, "", "2.50 M"),
            (41.23, "% of a pCPU", "41.2 %"),
            (-3.0, "Mbit/s", "-3.00 Mbit/s"),
        ];
        for (value, unit, text) in cases {
            assert_eq!(with_unit(value, unit), text);
        }
    }
}
