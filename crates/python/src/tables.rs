// SPDX-License-Identifier: GPL-2.0-only
//! What the tables have in their columns.

use std::sync::Arc;

use steelyard_experiment::{Reproduction, Spread, State};
use steelyard_policy::{Parameter, disciplines, governors};
use steelyard_scenario::LabelledPolicy;
use steelyard_simulator::measure::{DomainMeasure, Run, TaskMeasure, TaskValue, TimeMeasure};
use steelyard_tune::{Outcome, spread};

use crate::arrow::{Column, Table};

/// A row per run.
pub fn runs(runs: &[Run], policies: &[LabelledPolicy]) -> Arc<Table> {
    let all: Vec<&Run> = runs.iter().collect();
    let number =
        |name, of: fn(&Run) -> u64| Column::numbers(name, all.iter().map(|run| Some(of(run))));
    let mut columns = of_run(&all);
    columns.extend([
        number("elapsed_ns", |run| run.elapsed_ns),
        Column::figures("fairness", all.iter().map(|run| Some(run.fairness))),
        number("idle_ns", |run| run.pcpus.iter().map(|pcpu| pcpu.idle_ns).sum()),
        number("wakes", |run| run.scheduling_events.wakes),
        number("blocks", |run| run.scheduling_events.blocks),
        number("switches", |run| run.scheduling_events.switches),
        number("ticks", |run| run.scheduling_events.ticks),
        number("accountings", |run| run.scheduling_events.accountings),
        number("slice_ends", |run| run.scheduling_events.slice_ends),
        number("policy_timers", |run| run.scheduling_events.policy_timers),
        number("guest_steps", |run| run.guest_steps),
    ]);
    columns.extend(parameters(&all, policies));
    table(columns, all.len())
}

/// A row per run and domain.
pub fn domains(runs: &[Run], policies: &[LabelledPolicy]) -> Arc<Table> {
    let rows: Vec<(&Run, &DomainMeasure)> =
        runs.iter().flat_map(|run| run.domains.iter().map(move |domain| (run, domain))).collect();
    let runs: Vec<_> = rows.iter().map(|row| row.0).collect();
    let all: Vec<_> = rows.iter().map(|row| row.1).collect();
    let figure = |name, of: fn(&DomainMeasure) -> f64| {
        Column::figures(name, all.iter().map(|domain| Some(of(domain))))
    };
    let mut columns = of_run(&runs);
    columns.extend([
        Column::texts("domain", all.iter().map(|domain| Some(&domain.name))),
        Column::numbers("weight", all.iter().map(|domain| Some(domain.weight.into()))),
        Column::numbers("cap_percent", all.iter().map(|domain| Some(domain.cap_percent.into()))),
        figure("share_percent", |domain| domain.share_percent),
        figure("entitlement_percent", |domain| domain.entitlement_percent),
    ]);
    columns.extend(times(&all.iter().map(|domain| &domain.time).collect::<Vec<_>>()));
    columns.extend(parameters(&runs, policies));
    table(columns, rows.len())
}

/// A row per run and vCPU.
pub fn vcpus(runs: &[Run], policies: &[LabelledPolicy]) -> Arc<Table> {
    let of_domain = |domain: &'_ DomainMeasure| domain.vcpus.len();
    let (mut of, mut names, mut numbers, mut all) = (vec![], vec![], vec![], vec![]);
    for run in runs {
        for domain in &run.domains {
            of.extend(std::iter::repeat_n(run, of_domain(domain)));
            names.extend(std::iter::repeat_n(Some(&domain.name), of_domain(domain)));
            numbers.extend((0..of_domain(domain) as u64).map(Some));
            all.extend(domain.vcpus.iter().map(|vcpu| &vcpu.time));
        }
    }
    let mut columns = of_run(&of);
    columns.extend([Column::texts("domain", names), Column::numbers("vcpu", numbers)]);
    columns.extend(times(&all));
    columns.extend(parameters(&of, policies));
    table(columns, all.len())
}

/// A row per run and figure that a workload reports.
pub fn tasks(runs: &[Run], policies: &[LabelledPolicy]) -> Arc<Table> {
    let mut rows: Vec<(&Run, &DomainMeasure, &TaskMeasure, &TaskValue)> = vec![];
    for run in runs {
        for domain in &run.domains {
            for task in &domain.tasks {
                rows.extend(task.values.iter().map(|value| (run, domain, task, value)));
            }
        }
    }
    let runs: Vec<_> = rows.iter().map(|row| row.0).collect();
    let mut columns = of_run(&runs);
    columns.extend([
        Column::texts("domain", rows.iter().map(|row| Some(&row.1.name))),
        Column::texts("task", rows.iter().map(|row| Some(&row.2.name))),
        Column::texts("measure", rows.iter().map(|row| Some(&row.3.name))),
        Column::texts("unit", rows.iter().map(|row| Some(&row.3.unit))),
        Column::flags("more_is_better", rows.iter().map(|row| row.3.more_is_better)),
        Column::figures("value", rows.iter().map(|row| row.3.value)),
    ]);
    columns.extend(parameters(&runs, policies));
    table(columns, rows.len())
}

/// A row per setting that a search tried.
pub fn settings(outcome: &Outcome) -> Arc<Table> {
    let rows = &outcome.rows;
    let mut columns = vec![
        Column::numbers("setting", (0..rows.len() as u64).map(Some)),
        Column::texts("scheduler", rows.iter().map(|row| Some(&row.policy))),
        Column::flags("keeps", rows.iter().map(|row| Some(row.keeps()))),
        Column::flags("front", rows.iter().map(|row| Some(row.front))),
    ];
    columns.extend(outcome.dimensions.iter().enumerate().map(|(index, name)| {
        Column::texts(name, rows.iter().map(|row| row.values.get(index).and_then(Option::as_ref)))
    }));
    for (index, wanted) in outcome.goals.iter().chain(&outcome.keeps).enumerate() {
        let spreads: Vec<_> = rows
            .iter()
            .map(|row| row.figures.goals.iter().chain(&row.figures.keeps).nth(index))
            .map(|values| spread(values?))
            .collect();
        columns.extend(of_spread(
            &format!("{}, ", wanted.text),
            &format!(", {}", wanted.unit),
            &spreads,
        ));
    }
    table(columns, rows.len())
}

/// A row per claim of experiments.
pub fn claims(reproduction: &Reproduction) -> Arc<Table> {
    let experiments = reproduction.experiments.iter();
    let rows: Vec<_> = experiments
        .flat_map(|outcome| outcome.claims.iter().map(move |claim| (&outcome.name, claim)))
        .collect();
    let holds = |state| matches!(state, State::Holds | State::Turned);
    let columns = vec![
        Column::texts("experiment", rows.iter().map(|row| Some(row.0))),
        Column::texts("says", rows.iter().map(|row| Some(&row.1.says))),
        Column::texts("source", rows.iter().map(|row| Some(&row.1.source))),
        Column::texts("needs", rows.iter().map(|row| Some(&row.1.expected))),
        Column::flags("holds", rows.iter().map(|row| Some(holds(row.1.state)))),
        Column::flags("as_expected", rows.iter().map(|row| Some(row.1.state.is_expected()))),
    ];
    table(columns, rows.len())
}

/// A row per figure that was measured in a variant of an experiment.
pub fn figures(reproduction: &Reproduction) -> Arc<Table> {
    let mut rows = vec![];
    for outcome in &reproduction.experiments {
        for variant in &outcome.variants {
            for (metric, spreads) in &variant.metrics {
                let unit = outcome.metrics.get(metric).map(|metric| metric.unit.as_str());
                for (index, spread) in spreads.iter().enumerate() {
                    rows.push((outcome, variant, metric, unit, index as u64, *spread));
                }
            }
        }
    }
    let mut columns = vec![
        Column::texts("experiment", rows.iter().map(|row| Some(&row.0.name))),
        Column::texts("variant", rows.iter().map(|row| Some(&row.1.name))),
        Column::texts("policy", rows.iter().map(|row| Some(&row.1.policy))),
        Column::texts("metric", rows.iter().map(|row| Some(row.2))),
        Column::texts("unit", rows.iter().map(|row| row.3)),
        Column::numbers("index", rows.iter().map(|row| Some(row.4))),
    ];
    columns.extend(of_spread("", "", &rows.iter().map(|row| row.5).collect::<Vec<_>>()));
    table(columns, rows.len())
}

/// A row per parameter and vintage.
pub fn all_parameters() -> Arc<Table> {
    let mut rows: Vec<(&str, Option<&str>, &Parameter, u64)> = vec![];
    for discipline in disciplines() {
        for (vintage, name) in discipline.vintages.iter().enumerate() {
            let of = |parameter: &'static Parameter| {
                (discipline.name, Some(*name), parameter, parameter.defaults[vintage])
            };
            rows.extend(discipline.parameters.iter().map(of));
        }
    }
    for governor in governors() {
        let of =
            |parameter: &'static Parameter| (governor.name, None, parameter, parameter.defaults[0]);
        rows.extend(governor.parameters.iter().map(of));
    }
    let columns = vec![
        Column::texts("of", rows.iter().map(|row| Some(row.0))),
        Column::texts("vintage", rows.iter().map(|row| row.1)),
        Column::texts("name", rows.iter().map(|row| Some(format!("{}.{}", row.0, row.2.name)))),
        Column::texts("default", rows.iter().map(|row| Some(row.2.format(row.3)))),
        Column::numbers("minimum", rows.iter().map(|row| Some(row.2.minimum))),
        Column::numbers("maximum", rows.iter().map(|row| Some(row.2.maximum))),
        Column::texts("unit", rows.iter().map(|row| Some(row.2.unit))),
        Column::texts("help", rows.iter().map(|row| Some(row.2.help))),
        Column::texts("source", rows.iter().map(|row| Some(row.2.source))),
    ];
    table(columns, rows.len())
}

fn table(columns: Vec<Column>, rows: usize) -> Arc<Table> {
    Arc::new(Table { rows, columns })
}

fn of_run(rows: &[&Run]) -> Vec<Column> {
    vec![
        Column::texts("policy", rows.iter().map(|run| Some(&run.policy))),
        Column::numbers("seed", rows.iter().map(|run| Some(run.seed))),
    ]
}

fn times(rows: &[&TimeMeasure]) -> Vec<Column> {
    let number = |name, of: fn(&TimeMeasure) -> u64| {
        Column::numbers(name, rows.iter().map(|time| Some(of(time))))
    };
    // Of who never waited nothing is known.
    let wait = |name, of: fn(&TimeMeasure) -> u64| {
        Column::numbers(name, rows.iter().map(|time| (time.waits.count > 0).then(|| of(time))))
    };
    vec![
        number("gotten_ns", |time| time.gotten_ns),
        number("waited_ns", |time| time.waited_ns),
        number("blocked_ns", |time| time.blocked_ns),
        number("parked_ns", |time| time.parked_ns),
        number("beside_idle_ns", |time| time.beside_idle_ns),
        number("overhead_ns", |time| time.overhead_ns),
        number("spun_ns", |time| time.spun_ns),
        number("switches", |time| time.switches),
        number("migrations", |time| time.migrations),
        number("preemptions", |time| time.preemptions),
        number("waits", |time| time.waits.count),
        wait("wait_p50_ns", |time| time.waits.p50_ns),
        wait("wait_p90_ns", |time| time.waits.p90_ns),
        wait("wait_p99_ns", |time| time.waits.p99_ns),
        wait("wait_p999_ns", |time| time.waits.p999_ns),
        wait("worst_wait_ns", |time| time.waits.worst.as_ref().map_or(0, |worst| worst.length_ns)),
    ]
}

fn of_spread(before: &str, behind: &str, spreads: &[Option<Spread>]) -> [Column; 3] {
    let column = |what: &str, of: fn(&Spread) -> f64| {
        let name = format!("{before}{what}{behind}");
        Column::figures(&name, spreads.iter().map(|spread| spread.as_ref().map(of)))
    };
    [
        column("median", |it| it.median),
        column("least", |it| it.least),
        column("greatest", |it| it.greatest),
    ]
}

/// A column for each parameter that one of the policies has, by the name that `set` takes.
fn parameters(rows: &[&Run], policies: &[LabelledPolicy]) -> Vec<Column> {
    let key = |policy: &LabelledPolicy, name: &str| match name.contains('.') {
        true => name.to_owned(),
        false => format!("{}.{name}", policy.policy.discipline().name),
    };
    let values: Vec<Vec<(String, &Parameter, u64)>> = policies
        .iter()
        .map(|policy| {
            let values = policy.policy.values();
            values.map(|(name, parameter, value)| (key(policy, &name), parameter, value)).collect()
        })
        .collect();
    let mut known: Vec<(&String, &Parameter)> = vec![];
    for (name, parameter, _) in values.iter().flatten() {
        if known.iter().all(|(other, _)| *other != name) {
            known.push((name, parameter));
        }
    }
    let of_run: Vec<Option<usize>> = rows
        .iter()
        .map(|run| policies.iter().position(|policy| policy.label == run.policy))
        .collect();
    let column = |(name, parameter): (&String, &Parameter)| {
        let of_policy: Vec<Option<u64>> = values
            .iter()
            .map(|values| values.iter().find(|it| it.0 == *name).map(|(_, _, value)| *value))
            .collect();
        let of_rows = of_run.iter().map(|index| of_policy[(*index)?]);
        match parameter.choices() {
            Some(_) => Column::texts(name, of_rows.map(|value| Some(parameter.format(value?)))),
            None => Column::numbers(name, of_rows),
        }
    };
    known.into_iter().map(column).collect()
}
