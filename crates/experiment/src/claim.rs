// SPDX-License-Identifier: GPL-2.0-only
//! Whether a claim holds of what was measured. All tests speak of medians over seeds.

use crate::experiment::Point;
use crate::file::{Test, X};
use crate::measure::Spread;
use crate::outcome::Figures;

/// What was measured: the figure of a metric, a variant, and for a series an interval.
pub(crate) trait Measured {
    fn figure(&self, metric: &str, variant: &str, index: usize) -> Option<Spread>;
    fn unit(&self, metric: &str) -> &str;
}

/// A value that was published, and what it is measured by.
pub(crate) struct Published<'a> {
    pub curve: &'a str,
    pub point: Point<'a>,
    pub value: f64,
    /// What was published of the curve at the place whose constant is to be beaten.
    pub constant: Option<f64>,
}

/// What came out of a test.
pub(crate) struct Verdict {
    pub holds: bool,
    /// What should be.
    pub expected: String,
    /// What is.
    pub measured: Vec<Figures>,
}

/// Tests. `published` are the values of `published.toml` that a test of a figure is about. What was
/// not measured holds nothing.
pub(crate) fn judge(test: &Test, measured: &dyn Measured, published: &[Published<'_>]) -> Verdict {
    let figures = |metric: &str, variants: &[&String]| -> Vec<Figures> {
        let figure = |name: &&String| Figures {
            what: (*name).clone(),
            unit: measured.unit(metric).to_owned(),
            value: measured.figure(metric, name, 0),
        };
        variants.iter().map(figure).collect()
    };
    let medians = |figures: &[Figures]| -> Option<Vec<f64>> {
        figures.iter().map(|figure| Some(figure.value?.median)).collect()
    };
    match test {
        Test::Increasing { metric, variants, by_percent } => {
            let measured = figures(metric, &variants.iter().collect::<Vec<_>>());
            let holds = medians(&measured).is_some_and(|medians| {
                medians.windows(2).all(|pair| pair[1] > pair[0] * (1.0 + by_percent / 100.0))
            });
            let least = match by_percent {
                0.0 => String::new(),
                percent => format!(", each by at least {percent} %"),
            };
            Verdict { holds, expected: format!("{}{least}", variants.join(" < ")), measured }
        }
        Test::Equal { metric, variants, tolerance_percent } => {
            let measured = figures(metric, &variants.iter().collect::<Vec<_>>());
            let holds = medians(&measured).is_some_and(|medians| {
                let least = medians.iter().copied().fold(f64::INFINITY, f64::min);
                let greatest = medians.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                greatest <= least * (1.0 + tolerance_percent / 100.0)
            });
            let expected = format!("equal, to {tolerance_percent} %");
            Verdict { holds, expected, measured }
        }
        Test::Bounds { metric, variant, at_least, at_most } => {
            let measured = figures(metric, &[variant]);
            let holds =
                measured[0].value.is_some_and(|value| within(value.median, *at_least, *at_most));
            let expected = limits(*at_least, *at_most, &measured[0].unit);
            Verdict { holds, expected, measured }
        }
        Test::Ratio { metric, of, to, at_least, at_most } => {
            let mut measured = figures(metric, &[of, to]);
            // Nothing is no multiple of nothing.
            let ratio = medians(&measured).filter(|medians| medians[1] > 0.0).map(|m| m[0] / m[1]);
            measured.push(Figures::exact("ratio", "", ratio));
            let holds = ratio.is_some_and(|ratio| within(ratio, *at_least, *at_most));
            let expected = format!("{} times", limits(*at_least, *at_most, ""));
            Verdict { holds, expected, measured }
        }
        Test::Near { figure: _, curves, x, mean_error, mean_error_percent, constant_at } => {
            let is_meant = |value: &&Published<'_>| {
                (curves.is_empty() || curves.iter().any(|curve| curve == value.curve))
                    && (x.is_empty() || x.contains(value.point.x))
            };
            let meant: Vec<_> = published.iter().filter(is_meant).collect();
            near(&meant, measured, [*mean_error_percent, *mean_error], constant_at.as_ref())
        }
    }
}

/// Whether these values are met with errors of at most so much in the mean, in percent and in the
/// metric's unit, and with smaller ones than a constant would make, if there is one.
fn near(
    meant: &[&Published<'_>],
    measured: &dyn Measured,
    [most_percent, most]: [Option<f64>; 2],
    constant_at: Option<&X>,
) -> Verdict {
    type Scale = fn(&Published<'_>) -> f64;
    let unit = meant.first().map_or("", |value| measured.unit(value.point.metric));
    let kinds: [(Scale, _, _); 2] =
        [(|value| 100.0 / value.value, most_percent, "%"), (|_| 1.0, most, unit)];
    let is: Vec<Option<Spread>> = meant
        .iter()
        .map(|Published { point, .. }| measured.figure(point.metric, &point.variant, point.index))
        .collect();
    let mean = |of: &dyn Fn(usize) -> Option<f64>, scale: Scale| {
        let errors = meant.iter().enumerate();
        let errors =
            errors.map(|(index, value)| Some((of(index)? - value.value).abs() * scale(value)));
        let errors = errors.collect::<Option<Vec<_>>>().filter(|all| !all.is_empty())?;
        Some(errors.iter().sum::<f64>() / errors.len() as f64)
    };
    let mut holds = true;
    let (mut expected, mut shown) = (vec![], vec![]);
    for (scale, most, unit) in kinds {
        let Some(most) = most else { continue };
        let error = mean(&|index| Some(is[index]?.median), scale);
        holds &= error.is_some_and(|error| error <= most);
        expected.push(format!("mean error {}", limits(None, Some(most), unit)));
        shown.push(Figures::exact("mean error", unit, error));
        let Some(place) = constant_at else { continue };
        let of_constant = mean(&|index| meant[index].constant, scale);
        holds &= error.zip(of_constant).is_some_and(|(error, than)| error < than);
        expected.push(format!("less than that of the constant at {place}"));
        shown.push(Figures::exact("error of the constant", unit, of_constant));
    }
    if meant.len() <= SHOWN {
        shown.extend(meant.iter().zip(is).map(|(value, is)| Figures {
            what: format!("{} at {}, published {}", value.curve, value.point.x, value.value),
            unit: unit.to_owned(),
            value: is,
        }));
    } else {
        shown.push(Figures::exact("values", "", Some(meant.len() as f64)));
    }
    Verdict { holds, expected: expected.join(", "), measured: shown }
}

/// Values of a figure that are shown one by one; more are counted.
const SHOWN: usize = 4;

fn within(value: f64, at_least: Option<f64>, at_most: Option<f64>) -> bool {
    at_least.is_none_or(|least| value >= least) && at_most.is_none_or(|most| value <= most)
}

fn limits(at_least: Option<f64>, at_most: Option<f64>, unit: &str) -> String {
    let limits = match (at_least, at_most) {
        (Some(least), Some(most)) => format!("{least} to {most}"),
        (Some(least), None) => format!("at least {least}"),
        (None, Some(most)) => format!("at most {most}"),
        (None, None) => String::new(),
    };
    if unit.is_empty() { limits } else { format!("{limits} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Medians by variant; spreads are wide, and must not matter.
    struct Made(&'static [(&'static str, f64)]);

    impl Measured for Made {
        fn figure(&self, metric: &str, variant: &str, index: usize) -> Option<Spread> {
            assert_eq!((metric, index), ("time", 0));
            let (_, median) = self.0.iter().find(|(name, _)| *name == variant)?;
            Some(Spread { median: *median, least: 0.0, greatest: 1e9 })
        }
        fn unit(&self, _: &str) -> &str {
            "s"
        }
    }

    const MADE: Made = Made(&[("a", 10.0), ("b", 11.0), ("c", 20.0), ("none", 0.0)]);

    fn holds(test: Test) -> bool {
        judge(&test, &MADE, &[]).holds
    }

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn an_order_is_strict() {
        let increasing = |names: &[&str], by_percent| {
            let (metric, variants) = ("time".to_owned(), strings(names));
            holds(Test::Increasing { metric, variants, by_percent })
        };
        assert!(increasing(&["a", "b", "c"], 0.0));
        assert!(!increasing(&["b", "a", "c"], 0.0));
        assert!(!increasing(&["a", "a"], 0.0));
        assert!(increasing(&["a", "b"], 9.9));
        assert!(!increasing(&["a", "b"], 10.1));
        assert!(!increasing(&["a", "unmeasured"], 0.0));
    }

    #[test]
    fn equality_is_between_the_extremes() {
        let equal = |names: &[&str], tolerance_percent| {
            let (metric, variants) = ("time".to_owned(), strings(names));
            holds(Test::Equal { metric, variants, tolerance_percent })
        };
        assert!(equal(&["b", "a"], 10.0));
        assert!(!equal(&["a", "b"], 9.0));
        assert!(!equal(&["a", "b", "c"], 50.0));
        assert!(equal(&["a", "b", "c"], 100.0));
        assert!(!equal(&["a", "unmeasured"], 100.0));
    }

    #[test]
    fn limits_are_heeded() {
        let bounds = |variant: &str, at_least, at_most| {
            let (metric, variant) = ("time".to_owned(), variant.to_owned());
            holds(Test::Bounds { metric, variant, at_least, at_most })
        };
        assert!(bounds("a", Some(10.0), Some(10.0)));
        assert!(!bounds("a", Some(10.1), None));
        assert!(!bounds("a", None, Some(9.9)));
        assert!(!bounds("unmeasured", None, Some(9.9)));
        let ratio = |of: &str, to: &str, at_least, at_most| {
            let (metric, of, to) = ("time".to_owned(), of.to_owned(), to.to_owned());
            holds(Test::Ratio { metric, of, to, at_least, at_most })
        };
        assert!(ratio("c", "a", Some(2.0), Some(2.0)));
        assert!(!ratio("c", "a", Some(2.1), None));
        assert!(!ratio("c", "a", None, Some(1.9)));
        assert!(!ratio("c", "none", Some(2.0), None));
        assert!(!ratio("none", "none", Some(0.0), None));
    }

    #[test]
    fn errors_are_taken_in_the_mean() {
        let places = [X::Number(1.0), X::Number(2.0), X::Number(3.0)];
        let value = |place: usize, variant: &str, value: f64| Published {
            curve: if place < 2 { "first" } else { "second" },
            point: Point {
                x: &places[place],
                metric: "time",
                variant: variant.to_owned(),
                index: 0,
            },
            value,
            constant: Some(10.0),
        };
        // 10 for 8, 11 for 11, 20 for 40: errors of 25 %, 0 % and 50 %, or 2, 0 and 20.
        let published = [value(0, "a", 8.0), value(1, "b", 11.0), value(2, "c", 40.0)];
        let near = |curves: &[&str], x: &[X], percent, absolute| {
            let test = Test::Near {
                figure: String::new(),
                curves: strings(curves),
                x: x.to_vec(),
                mean_error_percent: percent,
                mean_error: absolute,
                constant_at: None,
            };
            judge(&test, &MADE, &published).holds
        };
        assert!(near(&[], &[], Some(25.0), None) && !near(&[], &[], Some(24.9), None));
        assert!(
            near(&["first"], &[], Some(12.5), None) && !near(&["first"], &[], Some(12.4), None)
        );
        assert!(near(&[], &places[1..2], Some(0.0), None));
        assert!(near(&["first"], &[], None, Some(1.0)) && !near(&["first"], &[], None, Some(0.9)));
        assert!(!near(&["first"], &[], Some(12.5), Some(0.9)));
        assert!(!near(&["neither"], &[], Some(100.0), None));
        let unmeasured = [value(0, "unmeasured", 1.0)];
        let test = Test::Near {
            figure: String::new(),
            curves: vec![],
            x: vec![],
            mean_error_percent: Some(100.0),
            mean_error: None,
            constant_at: None,
        };
        assert!(!judge(&test, &MADE, &unmeasured).holds);
        // 11 for 11 beats 10 for it; 10 for 8 is as far off as 10 for it.
        let beats = |published: &Published<'_>| {
            let test = Test::Near {
                figure: String::new(),
                curves: vec![],
                x: vec![published.point.x.clone()],
                mean_error_percent: Some(100.0),
                mean_error: None,
                constant_at: Some(X::Number(1.0)),
            };
            judge(&test, &MADE, &[value(0, "a", 8.0), value(1, "b", 11.0)]).holds
        };
        assert!(beats(&value(1, "b", 11.0)) && !beats(&value(0, "a", 8.0)));
    }
}
