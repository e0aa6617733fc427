// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard advise`: what hurts whom on a host, and what to change (crate `steelyard-advise`).

use steelyard_advise::{Question, Toolstack, advise, text};
use steelyard_boundary::output::Output;
use steelyard_boundary::text::told;
use steelyard_policy::Policy;
use steelyard_run::{FIRST_SEED, RunError, Simulator, Watch, own, own_label, pool, within_memory};
use steelyard_scenario::load;
use steelyard_simulator::config::Setup;
use steelyard_simulator::measure::Run;

use crate::arguments::{Advise, options};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::terminal::{self, Bar};

/// Seeds where neither input nor command line asks for more: fewer say nothing of chance.
const LEAST_SEEDS: u32 = 3;

pub fn run(arguments: &Advise, interrupt: &Interrupt) -> Result<(), Failure> {
    let input = load(&arguments.input, &options(&arguments.simulated))?;
    let mut read = input.recordings.clone();
    read.push(arguments.input.clone());
    let plan = arguments.plan.as_ref().map(|path| Output::file(path, &read)).transpose()?;
    let seeds = arguments.simulated.seeds.map_or(input.seeds.max(LEAST_SEEDS), u32::from);
    let now = own(&input)?;
    let label = own_label(&input, now);
    let question = Question {
        setup: &input.setup,
        policy: &now.policy,
        label: &label,
        recorded: input.recorded.as_ref(),
        toolstack: Toolstack::of(now.policy.discipline().name),
    };
    let pool = pool(within_memory(arguments.simulated.threads, std::slice::from_ref(&input)))?;
    let bar = Bar::new(interrupt);
    let simulator = Simulator { pool: &pool, watch: &bar, name: &input.name };
    let mut simulate = |hosts: &[(&Setup, &Policy)]| -> Result<Vec<Vec<Run>>, RunError> {
        bar.begin("Simulating", Some(hosts.len() as u64 * u64::from(seeds)));
        simulator.run(hosts, FIRST_SEED..FIRST_SEED + u64::from(seeds), |simulation| {
            simulation.run_watched(input.length.0, |_| bar.wanted())?;
            Ok(simulation.measure())
        })
    };
    let advice = advise(&question, &mut simulate)?;
    bar.clear();
    if let Some(plan) = plan {
        write(&plan, advice.to_apply(), interrupt)?;
    }
    if arguments.json {
        let text = serde_json::to_string_pretty(&advice)
            .map_err(|error| Failure::System { what: "write JSON", error: error.to_string() })?;
        return terminal::print_json(&format!("{text}\n"));
    }
    terminal::print(&text(&advice, &told(&arguments.input).to_string(), arguments.all))
}

/// Writes what to apply, if that is something.
fn write(file: &Output, plan: Option<&str>, interrupt: &Interrupt) -> Result<(), Failure> {
    let Some(plan) = plan else {
        terminal::note(
            "no plan was written: no advice changes weights, caps, slices or pins of domains",
        );
        return Ok(());
    };
    interrupt.while_writing(|asked| {
        Ok(file.write(&mut [Box::new(|file| file.write_all(plan.as_bytes()))], asked)?)
    })?;
    for path in file.paths() {
        terminal::note(&format!("wrote {}", told(path)));
    }
    Ok(())
}
