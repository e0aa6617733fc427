// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard reproduce`: published experiments, and which of their claims hold.

use std::io::{self, BufWriter, Write};

use steelyard_boundary::output::Output;
use steelyard_boundary::text::told;
use steelyard_experiment::{
    Experiment, Reproduction, State, named, names as known, run as run_experiments,
};
use steelyard_report::{
    REPRODUCTION_FILES, Style, reproduction_table, write_reproduction, write_reproduction_json,
};
use steelyard_run::{RunError, Watch, pool};

use crate::arguments::Reproduce;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::terminal::{self, Bar};

/// The exit code if a claim is not in the state that its experiment expects.
pub const UNEXPECTED: u8 = 3;

/// Seeds unless others are asked for; what is expected of claims is expected with these.
pub const SEEDS: u32 = 10;

const ALL: &str = "all";

/// What may be asked for.
pub fn names() -> Vec<String> {
    known().into_iter().chain([ALL]).map(str::to_owned).collect()
}

pub fn run(arguments: &Reproduce, interrupt: &Interrupt) -> Result<(), Failure> {
    let out = arguments.out.as_ref();
    let out = out.map(|out| Output::directory(out, &REPRODUCTION_FILES, &[])).transpose()?;
    let asked = arguments.names.iter().map(String::as_str).filter(|name| *name != ALL);
    let mut experiments: Vec<Experiment> = vec![];
    for name in asked {
        let experiment = named(name, &arguments.set)?;
        // Once is enough.
        if experiments.iter().all(|known| known.name != experiment.name) {
            experiments.push(experiment);
        }
    }
    if arguments.names.is_empty() || arguments.names.iter().any(|name| name == ALL) {
        experiments = known()
            .into_iter()
            .map(|name| named(name, &arguments.set))
            .collect::<Result<_, _>>()?;
    }
    if arguments.claims {
        experiments = experiments.into_iter().map(Experiment::of_claims).collect();
    }
    let seeds: u64 = u32::from(arguments.seeds).into();

    let pool = pool(arguments.threads)?;
    let bar = Bar::new(interrupt);
    bar.begin(
        "Simulating",
        Some(experiments.iter().map(|experiment| experiment.work(seeds)).sum()),
    );
    let done = |work| Ok::<_, RunError>(bar.done(work)?);
    let outcomes = pool.install(|| run_experiments(&experiments, seeds, &done))?;
    let reproduction = Reproduction::new(seeds, outcomes);
    if let Some(out) = &out {
        bar.set_unmeasured("Writing");
        interrupt.while_writing(|asked| Ok(write_reproduction(out, &reproduction, asked)?))?;
    }
    bar.clear();

    if arguments.json {
        let mut stdout = BufWriter::new(io::stdout().lock());
        let written = write_reproduction_json(&reproduction, &mut stdout);
        terminal::output(written.and_then(|()| stdout.flush()))?;
    } else {
        let style = Style { width: terminal::width(), color: true };
        terminal::print(&reproduction_table(&reproduction, style))?;
    }
    // Last, so that they are not far up.
    for path in out.iter().flat_map(Output::paths) {
        terminal::note(&format!("wrote {}", told(path)));
    }
    let claims: Vec<_> = reproduction
        .unexpected()
        .map(|(outcome, claim)| {
            let is = if claim.state == State::Fails { "does not hold" } else { "holds" };
            format!("{}: {is}: {}", outcome.name, claim.says)
        })
        .collect();
    // Of what is changed nothing is expected.
    match claims.is_empty() || !arguments.set.is_empty() {
        true => Ok(()),
        false => Err(Failure::Unexpected { claims, few_seeds: seeds < SEEDS.into() }),
    }
}
