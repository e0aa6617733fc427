// SPDX-License-Identifier: GPL-2.0-only
//! What the table in the terminal and the report have in common: the figures of a comparison, policy
//! beside policy; which is best; and a line for each domain on who serves it best, and why.
//!
//! Domains that are alike are shown as one. A figure is the median over seeds and such domains, with
//! the least and the greatest where these differ.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;
use steelyard_simulator::measure::{DomainMeasure, Run, Setting, Unhonoured, WorstWait};

use crate::format;
use crate::replay_error::factor;
use crate::results::{Comparison, Known, PolicySummary};

/// A comparison as it is shown.
pub struct Summary {
    /// The policies' labels: one column each.
    pub policies: Vec<String>,
    /// One section per group of domains; the last is about the host.
    pub sections: Vec<Section>,
    /// Of a recording: how far replays are off, the verdict first, then each domain.
    pub replay: Vec<String>,
    /// Who serves whom best, and why.
    pub verdicts: Vec<String>,
    /// The same in a sentence, by the [`HEADLINE`] alone.
    pub headline: String,
    /// By policy: what it did not honour, and whom it starved. It is best at nothing then.
    pub faults: Vec<Vec<String>>,
    /// What is known of the policies' parts.
    pub known: Vec<Known>,
}

impl Summary {
    /// Every fault, after the policy that has it.
    pub fn all_faults(&self) -> impl Iterator<Item = String> + '_ {
        let named = |(label, faults): (&'_ String, &'_ Vec<String>)| {
            let label = label.clone();
            faults.clone().into_iter().map(move |fault| format!("{label} {fault}"))
        };
        self.policies.iter().zip(&self.faults).flat_map(named)
    }
}

/// Figures of domains that are alike, or of the host.
pub struct Section {
    /// Names of the domains, or "Whole host".
    pub title: String,
    /// Their settings.
    pub detail: String,
    /// How many they are; of the host 0.
    pub domains: usize,
    /// Whether their figures count, and they are not what else ran on a recorded host.
    pub counts: bool,
    /// The figures.
    pub rows: Vec<Row>,
}

/// The figure that is compared first, of everybody.
pub const HEADLINE: &str = "wait p99";

impl Section {
    /// The row of the [`HEADLINE`].
    pub fn headline(&self) -> Option<&Row> {
        self.rows.iter().find(|row| row.label == HEADLINE)
    }
}

/// A figure under each policy.
pub struct Row {
    /// What it is.
    pub label: String,
    /// Whether it is worth a line in a terminal.
    pub terse: bool,
    /// One cell per policy.
    pub cells: Vec<Cell>,
}

/// A figure under one policy.
#[derive(Clone, Default)]
pub struct Cell {
    /// The median, with its unit.
    pub text: String,
    /// Least and greatest, where they do not read the same.
    pub spread: Option<String>,
    /// Whether no other policy does better, and some do worse.
    pub best: bool,
}

/// Domains that differ in nothing but their names.
pub struct Group {
    /// What to call them.
    pub title: String,
    /// Their names.
    pub names: HashSet<String>,
    /// They are what ran on a recorded host beside its virtual machines.
    pub rest_of_host: bool,
    /// One of them, in a run that knows its tasks.
    settings: DomainMeasure,
}

impl Group {
    fn detail(&self) -> String {
        let vcpus = self.settings.vcpus.len();
        let mut detail = format!("{vcpus} vCPU{}, weight {}", plural(vcpus), self.settings.weight);
        if self.settings.cap_percent > 0 {
            detail += &format!(", cap {} %", self.settings.cap_percent);
        }
        detail
    }

    /// The measures of these domains in a run.
    pub fn members<'a>(&'a self, run: &'a Run) -> impl Iterator<Item = &'a DomainMeasure> {
        run.domains.iter().filter(|domain| self.names.contains(&domain.name))
    }

    /// The worst of the worst waits under a policy, and the domain that had it.
    pub fn worst_wait<'a>(
        &'a self,
        runs: impl Iterator<Item = &'a Run>,
    ) -> Option<(&'a DomainMeasure, &'a WorstWait)> {
        runs.flat_map(|run| self.members(run))
            .filter_map(|domain| Some((domain, domain.time.waits.worst.as_ref()?)))
            // Of equal ones the first.
            .reduce(|worst, next| if next.1.length_ns > worst.1.length_ns { next } else { worst })
    }
}

/// Groups in the order of their first domains, the rest of a recorded host last.
pub fn groups(comparison: &Comparison) -> Vec<Group> {
    // A recorded host knows no tasks.
    let simulated = comparison.runs.iter().find(|run| run.policy != PolicySummary::RECORDED);
    let Some(run) = simulated.or(comparison.runs.first()) else { return vec![] };
    let measures: HashMap<_, _> = run.domains.iter().map(|d| (d.name.as_str(), d)).collect();
    let mut members = BTreeMap::<(bool, usize), Vec<&str>>::new();
    for domain in &comparison.domains {
        members.entry((domain.rest_of_host, domain.like)).or_default().push(&domain.name);
    }
    let group = |((rest_of_host, _), names): ((bool, usize), Vec<&str>)| {
        let (first, last) = (names.first()?, names.last()?);
        Some(Group {
            title: match names.len() {
                1 => (*first).to_owned(),
                count => format!("{first} .. {last} ({count} domains)"),
            },
            settings: (*measures.get(first)?).clone(),
            names: names.into_iter().map(str::to_owned).collect(),
            rest_of_host,
        })
    };
    members.into_iter().filter_map(group).collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Goal {
    More,
    Less,
    Neither,
}

/// Unit of Jain's index, where what counts is how far below 1 it is.
const JAIN: &str = "Jain";

/// A figure with all its values, by policy.
pub struct Figure {
    /// What it is.
    pub label: String,
    /// Unit, as a workload names it.
    pub unit: String,
    goal: Goal,
    values: Vec<Vec<f64>>,
    doubt: Option<Doubt>,
}

/// What of a recording's figure cannot be told.
struct Doubt {
    /// The policy that is what was recorded: it is compared with none.
    recorded: usize,
    /// The error of replays: less between two policies is no difference.
    factor: f64,
}

impl Figure {
    fn text(&self, value: f64) -> String {
        match self.unit.as_str() {
            JAIN => format!("{value:.4}"),
            unit => format::with_unit(value, unit),
        }
    }

    /// As [`steelyard_simulator::measure::TaskValue`] has it.
    pub fn more_is_better(&self) -> Option<bool> {
        match self.goal {
            Goal::More => Some(true),
            Goal::Less => Some(false),
            Goal::Neither => None,
        }
    }

    /// By policy; none where there was nothing to measure.
    pub fn spreads(&self) -> Vec<Option<Spread>> {
        self.values.iter().map(|values| Spread::of(values)).collect()
    }

    fn medians(&self) -> Vec<Option<f64>> {
        self.spreads().into_iter().map(|spread| Some(spread?.median)).collect()
    }

    /// Of the policies with faults none is best.
    fn row(&self, faulty: &[bool]) -> Row {
        let mut cells: Vec<Cell> = self
            .values
            .iter()
            .map(|values| match Spread::of(values) {
                None => Cell { text: "–".to_owned(), ..Cell::default() },
                Some(Spread { least, median, greatest }) => {
                    let (least, greatest) = (self.text(least), self.text(greatest));
                    Cell {
                        text: self.text(median),
                        spread: (least != greatest).then(|| spread(&least, &greatest)),
                        best: false,
                    }
                }
            })
            .collect();
        let scores: Vec<_> = self
            .medians()
            .into_iter()
            .map(|median| match self.goal {
                Goal::More => median.map(|value| -value),
                Goal::Less => median,
                Goal::Neither => None,
            })
            .zip(faulty)
            .map(|(score, &faulty)| score.filter(|_| !faulty))
            .collect();
        match &self.doubt {
            None => mark_best(&mut cells, &scores),
            Some(_) => {
                let best = self.extremes(faulty).map(|extremes| extremes.best);
                let alike = |policy| best.is_some_and(|best| !self.differ(best, policy));
                let known = |policy: usize| scores[policy].is_some() && !self.is_recorded(policy);
                let known: Vec<usize> = (0..cells.len()).filter(|&policy| known(policy)).collect();
                if best.is_some() && !known.iter().all(|&policy| alike(policy)) {
                    known.iter().for_each(|&policy| cells[policy].best = alike(policy));
                }
            }
        }
        // What nobody recorded has nothing to stand beside.
        let recorded = self.doubt.as_ref().map(|doubt| &self.values[doubt.recorded]);
        let terse = recorded.is_none_or(|values| !values.is_empty());
        Row { label: self.label.clone(), terse, cells }
    }

    fn is_recorded(&self, policy: usize) -> bool {
        self.doubt.as_ref().is_some_and(|doubt| doubt.recorded == policy)
    }

    /// Whether two policies differ by more than replays are off, in more than one seed.
    fn differ(&self, one: usize, other: usize) -> bool {
        let Some(doubt) = &self.doubt else { return true };
        let spreads = self.spreads();
        let (Some(one), Some(other)) = (spreads[one], spreads[other]) else { return false };
        let apart = one.greatest < other.least || other.greatest < one.least;
        apart && factor(one.median, other.median) > doubt.factor
    }

    /// The best and the worst policy without faults and how far they are apart, if more than one has
    /// the figure.
    fn extremes(&self, faulty: &[bool]) -> Option<Extremes> {
        let sign = match self.goal {
            Goal::More => -1.0,
            Goal::Less => 1.0,
            Goal::Neither => return None,
        };
        let medians = self.medians();
        let mut order: Vec<_> = (0..medians.len())
            .filter(|&i| !faulty[i] && !self.is_recorded(i))
            .filter_map(|i| Some((i, medians[i]? * sign)))
            .collect();
        order.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (&(best, a), &(worst, b)) = (order.first()?, order.last()?);
        // A microsecond here or there is no difference.
        let grain = format::unit_ns(&self.unit).map_or(1e-9, |ns| 1e3 / ns);
        let (low, high) = (a.abs().min(b.abs()), a.abs().max(b.abs()));
        Some(Extremes { best, worst, ratio: (high + grain) / (low + grain) })
            .filter(|_| order.len() > 1)
    }
}

struct Extremes {
    best: usize,
    worst: usize,
    ratio: f64,
}

/// Values summed up.
#[derive(Clone, Copy, Serialize)]
pub struct Spread {
    pub least: f64,
    pub median: f64,
    pub greatest: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Option<Self> {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        let (&least, &greatest) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            (values[middle - 1] + values[middle]) / 2.0
        };
        Some(Spread { least, median, greatest })
    }
}

/// "0.8..1.2 ms": the unit once where both have the same.
pub fn spread(least: &str, greatest: &str) -> String {
    match (least.split_once(' '), greatest.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number}..{greatest}"),
        _ => format!("{least}..{greatest}"),
    }
}

/// Marks the cells of the least score, and those that read the same, unless all do.
fn mark_best(cells: &mut [Cell], scores: &[Option<f64>]) {
    let best = (0..cells.len())
        .filter_map(|i| Some((i, scores[i]?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(i, _)| cells[i].text.clone());
    let scored = |i: usize| scores[i].is_some();
    let Some(best) = best else { return };
    if (0..cells.len()).filter(|&i| scored(i)).all(|i| cells[i].text == best) {
        return;
    }
    for (i, cell) in cells.iter_mut().enumerate() {
        cell.best = scored(i) && cell.text == best;
    }
}

/// Sums a comparison up.
pub fn summarise(comparison: &Comparison) -> Summary {
    let labels: Vec<_> = comparison.policies.iter().map(|policy| policy.label.clone()).collect();
    let groups = groups(comparison);
    let faults: Vec<_> = comparison.policies.iter().map(|p| faults(comparison, p)).collect();
    let faulty: Vec<_> = faults.iter().map(|faults| !faults.is_empty()).collect();
    let mut sections = vec![];
    let mut verdicts = vec![];
    for group in &groups {
        let waits = figure(comparison, "waited", "percent", Goal::Less, |run, out| {
            let elapsed = run.elapsed_ns.max(1) as f64;
            out.extend(group.members(run).map(|d| 100.0 * d.time.waited_ns as f64 / elapsed));
        });
        let p99 = wait_p99(comparison, group);
        let worst = figure(comparison, "worst wait", "ns", Goal::Less, |run, out| {
            out.extend(group.members(run).map(worst_wait_ns));
        });
        let switches = figure(comparison, "switches", "1/s", Goal::Neither, |run, out| {
            let seconds = run.elapsed_ns.max(1) as f64 / 1e9;
            out.extend(group.members(run).map(|d| d.time.switches as f64 / seconds));
        });
        let mut tasks = task_figures(comparison, group);
        let beside_idle = figure(comparison, "  beside idle pCPU", "ns", Goal::Less, |run, out| {
            let simulated = run.policy != PolicySummary::RECORDED;
            let members = group.members(run).filter(|_| simulated);
            out.extend(members.map(|d| d.time.worst_beside_idle_ns as f64));
        });
        let mut rows = vec![share_row(comparison, group)];
        rows.extend([waits, p99, worst].iter().map(|figure| figure.row(&faulty)));
        rows.push(meanwhile_row(comparison, group));
        if beside_idle.values.iter().flatten().any(|&value| value > 0.0) {
            rows.push(beside_idle.row(&faulty));
        }
        rows.push(switches.row(&faulty));
        let terse = terse(&tasks);
        rows.extend(tasks.iter().zip(&terse).map(|(figure, &terse)| {
            let row = figure.row(&faulty);
            Row { terse: terse && row.terse, ..row }
        }));
        let mut terse = terse.into_iter();
        tasks.retain(|_| terse.next().unwrap_or(true));
        let error = comparison.replay_error.as_ref();
        let counts = error.is_none_or(|error| group.names.iter().any(|name| error.counts(name)));
        if counts {
            verdicts.extend(verdict(comparison, group, &tasks, &faulty));
        }
        sections.push(Section {
            title: group.title.clone(),
            detail: group.detail(),
            domains: group.names.len(),
            counts: counts && !group.rest_of_host,
            rows,
        });
    }
    sections.push(host_section(comparison, &faulty));
    let mut known: Vec<Known> = vec![];
    for one in comparison.policies.iter().flat_map(|policy| &policy.known) {
        match known.iter_mut().find(|known| known.text == one.text) {
            Some(known) if known.of.split(", ").any(|of| of == one.of) => {}
            Some(known) => known.of += &format!(", {}", one.of),
            None => known.push(one.clone()),
        }
    }
    let replay = match &comparison.replay_error {
        Some(error) => error.verdict().into_iter().chain(error.lines()).collect(),
        None if labels.iter().any(|label| label == PolicySummary::RECORDED) => {
            // Nobody is named then.
            verdicts.clear();
            vec![
                "It is not known what scheduled the recorded host, so no policy is said to be better. `--own \
                 POLICY` says it."
                    .to_owned(),
            ]
        }
        None => vec![],
    };
    let headline = headline(comparison, &sections);
    Summary { policies: labels, sections, replay, verdicts, headline, faults, known }
}

/// How many policies.
fn simulated(comparison: &Comparison) -> usize {
    let policies = comparison.policies.iter();
    policies.filter(|policy| policy.label != PolicySummary::RECORDED).count()
}

/// Which policies are best, or as good as the best, for how many.
fn headline(comparison: &Comparison, sections: &[Section]) -> String {
    let counted = || sections.iter().filter(|section| section.counts);
    let all: usize = counted().map(|section| section.domains).sum();
    let of = |policy: usize| {
        let best = counted().filter(|section| {
            section.headline().is_some_and(|row| row.cells.get(policy).is_some_and(|it| it.best))
        });
        best.map(|section| section.domains).sum::<usize>()
    };
    let mut order: Vec<(usize, &str)> = comparison
        .policies
        .iter()
        .enumerate()
        .map(|(number, policy)| (of(number), policy.label.as_str()))
        .filter(|(count, _)| *count > 0)
        .collect();
    // Of equal ones the first stays the first.
    order.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    if simulated(comparison) < 2 {
        return format!(
            "{HEADLINE}: of one policy there is none that is better: `--policy` names more."
        );
    }
    let recorded = comparison.policies.iter().any(|it| it.label == PolicySummary::RECORDED);
    let Some(&(most, _)) = order.first() else {
        return match (&comparison.replay_error, recorded) {
            (Some(error), _) => format!(
                "{HEADLINE}: no policy differs from another by more than replays are off (a factor of {:.2}), or \
                 than seeds do.",
                error.p99_median_factor
            ),
            (None, true) => {
                "It is not known what scheduled the recorded host, so no policy is said to be \
                             better. `--own POLICY` says it."
                    .to_owned()
            }
            (None, false) => format!("{HEADLINE}: no policy is better than another."),
        };
    };
    let first = order.iter().take_while(|(count, _)| *count == most);
    let labels: Vec<&str> = first.map(|(_, label)| *label).collect();
    let next = order.get(labels.len());
    let next = next.map(|(count, label)| format!(" Next: {label}, for {count}."));
    format!(
        "{HEADLINE}: best, or no worse than the best, for {most} of {all}: {}.{}",
        labels.join(", "),
        next.unwrap_or_default()
    )
}

/// A vCPU that waits for longer than this part of a run without a break is starved.
const STARVED: f64 = 0.5;
/// Shorter runs say nothing of that.
const STARVED_RUN_NS: u64 = 1_000_000_000;
/// More domains than this are only counted.
const NAMED: usize = 3;

/// What a policy did not honour in any of its runs, and whom it starved, a sentence per setting.
fn faults(comparison: &Comparison, policy: &PolicySummary) -> Vec<String> {
    let mut broken: Vec<(&Unhonoured, Vec<&str>)> = vec![];
    let mut starved: Vec<(&DomainMeasure, &WorstWait)> = vec![];
    for run in comparison.runs_of(&policy.label) {
        for domain in &run.domains {
            for one in &domain.unhonoured {
                match broken.iter_mut().find(|(known, _)| known.setting == one.setting) {
                    Some((_, names)) if names.contains(&domain.name.as_str()) => {}
                    Some((_, names)) => names.push(&domain.name),
                    None => broken.push((one, vec![&domain.name])),
                }
            }
            let longest = domain.time.waits.worst.as_ref().filter(|wait| {
                let vcpu = domain.vcpus.get(wait.vcpu as usize);
                let parked_ns = vcpu.map_or(0, |vcpu| vcpu.time.parked_ns);
                let waited_ns = wait.length_ns.saturating_sub(parked_ns);
                run.elapsed_ns >= STARVED_RUN_NS
                    && waited_ns as f64 > STARVED * run.elapsed_ns as f64
            });
            if !starved.iter().any(|(known, _)| known.name == domain.name) {
                starved.extend(longest.map(|wait| (domain, wait)));
            }
        }
    }
    let name = policy.policy.as_ref().unwrap_or(&policy.label);
    let broken = broken.into_iter().map(|(one, names)| unhonoured(name, one, &names));
    let others = |count: usize| match count {
        0 | 1 => String::new(),
        _ => format!(", and vCPUs of {} more domain{}", count - 1, plural(count - 1)),
    };
    let starved = starved.first().map(|(domain, wait)| {
        format!(
            "starved {}/{}: it waited {} without a break{}",
            domain.name,
            wait.vcpu,
            format::time(wait.length_ns as f64),
            others(starved.len())
        )
    });
    broken.chain(starved).collect()
}

fn unhonoured(policy: &str, one: &Unhonoured, domains: &[&str]) -> String {
    let percent = |value| format::with_unit(value, "percent");
    let (asked, got) = (percent(one.asked_percent), percent(one.got_percent));
    let first = domains.first().unwrap_or(&"");
    let (kind, what) = match one.setting {
        Setting::Cap => ("cap", format!("{first} ran {got} of a pCPU where {asked} are its cap")),
        Setting::Pin => ("pin", format!("{first} ran {got} of a pCPU outside its pCPUs")),
        Setting::Reservation => {
            ("reservation", format!("{first} got {got} of a pCPU where {asked} were due"))
        }
    };
    let whose = match domains.len() {
        1 => format!("the {kind} of {first}"),
        count if count <= NAMED => format!("the {kind}s of {}", domains.join(", ")),
        count => format!("the {kind}s of {count} domains"),
    };
    let why = if one.heeded { String::new() } else { format!("; {policy} knows no {kind}s") };
    format!("did not honour {whose}: {what}{why}")
}

fn figure(
    comparison: &Comparison,
    label: &str,
    unit: &str,
    goal: Goal,
    values: impl Fn(&Run, &mut Vec<f64>),
) -> Figure {
    let of = |label: &str| {
        let mut out = vec![];
        comparison.runs_of(label).for_each(|run| values(run, &mut out));
        out
    };
    let mut figure = Figure {
        label: label.to_owned(),
        unit: unit.to_owned(),
        goal,
        values: comparison.policies.iter().map(|policy| of(&policy.label)).collect(),
        doubt: None,
    };
    figure.doubt = doubt(comparison, &figure);
    figure
}

fn wait_p99(comparison: &Comparison, group: &Group) -> Figure {
    figure(comparison, HEADLINE, "ns", Goal::Less, |run, out| {
        out.extend(group.members(run).map(|domain| domain.time.waits.p99_ns as f64));
    })
}

/// Where nothing was recorded of a figure, or it is not known what scheduled the recorded host, no difference
/// means anything.
fn doubt(comparison: &Comparison, figure: &Figure) -> Option<Doubt> {
    let place = |label: &str| comparison.policies.iter().position(|policy| policy.label == label);
    let recorded = place(PolicySummary::RECORDED)?;
    let error = comparison.replay_error.as_ref();
    let medians = figure.medians();
    let off = error.and_then(|error| {
        let off = factor(medians[recorded]?, medians[place(&error.policy)?]?);
        // A single figure may be right by chance.
        Some(off.max(error.p99_median_factor))
    });
    Some(Doubt { recorded, factor: off.unwrap_or(f64::INFINITY) })
}

fn worst_wait_ns(domain: &DomainMeasure) -> f64 {
    domain.time.waits.worst.as_ref().map_or(0, |worst| worst.length_ns) as f64
}

/// Share of CPU time, and entitlement to it, in percent of one pCPU.
pub fn share_and_entitlement(comparison: &Comparison, group: &Group) -> (Figure, Figure) {
    let share = figure(comparison, "share / entitled", "", Goal::Neither, |run, out| {
        out.extend(group.members(run).map(|domain| domain.share_percent));
    });
    let entitlement = figure(comparison, "entitlement", "", Goal::Neither, |run, out| {
        out.extend(group.members(run).map(|domain| domain.entitlement_percent));
    });
    (share, entitlement)
}

/// Share beside entitlement. None is best: what one gets beyond its entitlement, another lacks or
/// leaves; fairness sums that up.
fn share_row(comparison: &Comparison, group: &Group) -> Row {
    let (share, entitlement) = share_and_entitlement(comparison, group);
    // No goal, no best.
    let mut row = share.row(&vec![false; comparison.policies.len()]);
    for ((cell, share), entitlement) in
        row.cells.iter_mut().zip(share.medians()).zip(entitlement.medians())
    {
        if let (Some(share), Some(entitlement)) = (share, entitlement) {
            cell.text = format!("{}/{} %", format::number(share), format::number(entitlement));
        }
    }
    row
}

/// Who ran most during the worst wait.
fn meanwhile_row(comparison: &Comparison, group: &Group) -> Row {
    let cells = comparison.policies.iter().map(|policy| {
        let worst = group.worst_wait(comparison.runs_of(&policy.label));
        let text = match worst {
            Some((_, wait)) if wait.length_ns > 0 => match wait.ran.first() {
                Some(ran) => format!("{}/{}", ran.domain, ran.vcpu),
                // Of tasks of a recorded host it is not told.
                None if policy.label == PolicySummary::RECORDED => "–".to_owned(),
                None => "nobody".to_owned(),
            },
            _ => "–".to_owned(),
        };
        Cell { text, ..Cell::default() }
    });
    Row { label: "  ran meanwhile".to_owned(), terse: true, cells: cells.collect() }
}

/// What the workloads say of themselves, where there was something to measure.
pub fn task_figures(comparison: &Comparison, group: &Group) -> Vec<Figure> {
    let several = group.settings.tasks.len() > 1;
    let mut figures = vec![];
    for task in &group.settings.tasks {
        for value in &task.values {
            let label =
                if several { format!("{}: {}", task.name, value.name) } else { value.name.clone() };
            let goal = match value.more_is_better {
                Some(true) => Goal::More,
                Some(false) => Goal::Less,
                None => Goal::Neither,
            };
            figures.push(figure(comparison, &label, &value.unit, goal, |run, out| {
                let tasks = group.members(run).flat_map(|domain| &domain.tasks);
                let values = tasks.filter(|t| t.name == task.name).flat_map(|t| &t.values);
                out.extend(values.filter(|v| v.name == value.name).filter_map(|v| v.value));
            }));
        }
    }
    figures.retain(|figure| figure.values.iter().any(|values| !values.is_empty()));
    figures
}

/// Of a distribution the 99th percentile says most; mean, median and worst are left out, and so is
/// what never happened under any policy.
fn terse(figures: &[Figure]) -> Vec<bool> {
    let stem = |label: &str| label.rsplit_once(' ').map(|(stem, _)| stem.to_owned());
    let has_p99 = |label: &str| {
        let p99 = stem(label).map(|stem| stem + " p99");
        figures.iter().any(|figure| Some(&figure.label) == p99.as_ref())
    };
    let rest = [" mean", " p50", " worst"];
    let terse = |figure: &Figure| {
        let happened = figure.values.iter().flatten().any(|&value| value != 0.0);
        happened && !(rest.iter().any(|end| figure.label.ends_with(end)) && has_p99(&figure.label))
    };
    figures.iter().map(terse).collect()
}

fn host_section(comparison: &Comparison, faulty: &[bool]) -> Section {
    let of = |label, unit, goal, value: &dyn Fn(&Run) -> f64| {
        figure(comparison, label, unit, goal, |run, out| out.push(value(run))).row(faulty)
    };
    let seconds = |run: &Run| run.elapsed_ns.max(1) as f64 / 1e9;
    let migrations = |run: &Run| run.domains.iter().map(|d| d.time.migrations).sum::<u64>();
    let host = comparison.host;
    Section {
        title: "Whole host".to_owned(),
        detail: format!("{} pCPU{}", host.pcpus, plural(host.pcpus as usize)),
        domains: 0,
        counts: false,
        rows: vec![
            of("fairness (Jain)", JAIN, Goal::More, &|run| run.fairness),
            of("switches", "1/s", Goal::Neither, &|run| {
                run.scheduling_events.switches as f64 / seconds(run)
            }),
            of("migrations", "1/s", Goal::Neither, &|run| migrations(run) as f64 / seconds(run)),
            of("idle, of all", "percent", Goal::Neither, &|run| {
                let idle: u64 = run.pcpus.iter().map(|pcpu| pcpu.idle_ns).sum();
                100.0 * idle as f64 / (run.elapsed_ns.max(1) as f64 * run.pcpus.len().max(1) as f64)
            }),
        ],
    }
}

/// Less than this between best and worst is no difference.
const ALIKE: f64 = 1.05;

/// Who of the policies without faults serves these domains best and worst, by their own figure that differs most, or, if none does,
/// by how long they wait; and why.
fn verdict(
    comparison: &Comparison,
    group: &Group,
    tasks: &[Figure],
    faulty: &[bool],
) -> Option<String> {
    if simulated(comparison) < 2 {
        return None;
    }
    let p99 = wait_p99(comparison, group);
    // What workloads say of themselves nobody recorded.
    let (figure, extremes) = tasks
        .iter()
        .filter(|figure| figure.doubt.is_none())
        .filter_map(|figure| Some((figure, figure.extremes(faulty)?)))
        .reduce(|most, next| if next.1.ratio > most.1.ratio { next } else { most })
        .filter(|(_, extremes)| extremes.ratio >= ALIKE)
        .or_else(|| p99.extremes(faulty).map(|extremes| (&p99, extremes)))?;
    let Extremes { best, worst, ratio } = extremes;
    let medians = figure.medians();
    let text = |policy: usize| medians[policy].map_or(String::new(), |value| figure.text(value));
    let title = &group.title;
    if !figure.differ(best, worst) {
        return Some(format!(
            "{title}: no policy differs from another by more than replays are off, or than seeds do ({} {})",
            figure.label,
            range(&text(best), &text(worst))
        ));
    }
    if ratio < ALIKE {
        return Some(format!(
            "{title}: all{} serve it alike ({} {})",
            if faulty.contains(&true) { " others" } else { "" },
            figure.label,
            range(&text(best), &text(worst))
        ));
    }
    let label = |policy: usize| &comparison.policies[policy].label;
    let known = |policy: &usize| {
        *policy != best
            && !faulty[*policy]
            && !figure.is_recorded(*policy)
            && medians[*policy].is_some()
    };
    let others = (0..medians.len()).filter(known).filter(|&policy| !figure.differ(best, policy));
    let others: String = others.map(|policy| format!(" or {}", label(policy))).collect();
    let verdict = format!(
        "{title}: {}{others} serves it best ({} {}), {} worst ({})",
        label(best),
        figure.label,
        text(best),
        label(worst),
        text(worst)
    );
    let reason = match figure.goal {
        Goal::More => lack_of_time(comparison, group, best, worst),
        _ => longest_wait(comparison, group, worst),
    };
    Some(reason.map_or(verdict.clone(), |reason| format!("{verdict}: {reason}")))
}

/// Why there was less of something.
fn lack_of_time(
    comparison: &Comparison,
    group: &Group,
    best: usize,
    worst: usize,
) -> Option<String> {
    let shares = share_and_entitlement(comparison, group).0.medians();
    let waited = figure(comparison, "", "", Goal::Less, |run, out| {
        let elapsed = run.elapsed_ns.max(1) as f64;
        out.extend(group.members(run).map(|d| 100.0 * d.time.waited_ns as f64 / elapsed));
    });
    let waited = waited.medians();
    let percent = |value: Option<f64>| Some(format::with_unit(value?, "percent"));
    Some(format!(
        "the latter gave it {} of a pCPU instead of {} (it waited {} instead of {})",
        percent(shares[worst])?,
        percent(shares[best])?,
        percent(waited[worst])?,
        percent(waited[best])?
    ))
}

/// Why something took long.
fn longest_wait(comparison: &Comparison, group: &Group, worst: usize) -> Option<String> {
    let (domain, wait) = group.worst_wait(comparison.runs_of(&comparison.policies[worst].label))?;
    if wait.length_ns == 0 {
        return None;
    }
    let time = |ns: u64| format::time(ns as f64);
    let mut reason = format!("{}/{} once waited {}", domain.name, wait.vcpu, time(wait.length_ns));
    reason += &match wait.ran.first() {
        Some(ran) => {
            format!(", while {}/{} ran {} of it", ran.domain, ran.vcpu, time(ran.ran_ns))
        }
        None => ", while nobody ran".to_owned(),
    };
    if domain.time.parked_ns > domain.time.waited_ns / 2 {
        reason += &format!(
            "; of {} that it waited, its cap or reservation kept it off for {}",
            time(domain.time.waited_ns),
            time(domain.time.parked_ns)
        );
    }
    Some(reason)
}

/// The same, or the one that both are.
pub fn range(least: &str, greatest: &str) -> String {
    if least == greatest { least.to_owned() } else { spread(least, greatest) }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}
