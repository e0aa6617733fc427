// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard tune`: the settings that serve somebody's goals best (crates `steelyard-run`, `steelyard-tune`).

use std::io::Write;
use std::path::PathBuf;

use steelyard_boundary::output::{Output, WriteFile};
use steelyard_boundary::text::told;
use steelyard_run::{Search, pool, search, within_memory};
use steelyard_scenario::{Loaded, load};
use steelyard_tune::{Outcome, text, write_csv, write_page};

use crate::arguments::{Tune, options};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::terminal::{self, Bar};

pub fn run(arguments: &Tune, interrupt: &Interrupt) -> Result<(), Failure> {
    let input = load(&arguments.input, &options(&arguments.simulated))?;
    let files = Files::new(arguments, &input)?;
    let pool = pool(within_memory(arguments.simulated.threads, std::slice::from_ref(&input)))?;
    let bar = Bar::new(interrupt);
    let asked = Search {
        minimise: &arguments.minimise,
        maximise: &arguments.maximise,
        keep: &arguments.keep,
        vary: &arguments.vary,
        policies: &arguments.policies,
        settings: arguments.settings,
        seeds: arguments.simulated.seeds.map(u32::from),
        state: files.state.as_ref(),
    };
    let outcome = search(&arguments.input.to_string_lossy(), &input, &asked, &pool, &bar)?;
    bar.clear();
    files.write(&outcome, &told(&arguments.input).to_string(), interrupt)?;
    print(&outcome, &told(&arguments.input).to_string(), arguments)
}

/// What is written; it was looked at before the work, and nothing was changed.
struct Files {
    state: Option<Output>,
    csv: Option<Output>,
    page: Option<Output>,
    plan: Option<Output>,
}

impl Files {
    fn new(arguments: &Tune, input: &Loaded) -> Result<Files, Failure> {
        let mut read = input.recordings.clone();
        read.push(arguments.input.clone());
        let file = |path: &Option<PathBuf>| {
            path.as_ref().map(|path| Output::file(path, &read)).transpose()
        };
        Ok(Files {
            state: file(&arguments.state)?,
            csv: file(&arguments.csv)?,
            page: file(&arguments.page)?,
            plan: file(&arguments.plan)?,
        })
    }

    /// All but the state, which was written as the search went on.
    fn write(&self, outcome: &Outcome, input: &str, interrupt: &Interrupt) -> Result<(), Failure> {
        let plan = outcome.proposals.first().and_then(|best| best.plan.as_deref());
        let mut files: Vec<(&Output, WriteFile)> = vec![];
        files.extend(self.csv.iter().map(|to| (to, contents(|file| write_csv(outcome, file)))));
        files.extend(
            self.page.iter().map(|to| (to, contents(|file| write_page(outcome, input, file)))),
        );
        files.extend(
            self.plan
                .iter()
                .zip(plan)
                .map(|(to, plan)| (to, contents(|file| file.write_all(plan.as_bytes())))),
        );
        let paths: Vec<_> = files.iter().flat_map(|(to, _)| to.paths()).collect();
        interrupt.while_writing(|asked| {
            for (to, contents) in &mut files {
                to.write(std::slice::from_mut(contents), asked)?;
            }
            Ok(())
        })?;
        for path in paths {
            terminal::note(&format!("wrote {}", told(path)));
        }
        if self.plan.is_some() && plan.is_none() {
            terminal::note(
                "no plan was written: no gain changes weights, caps or slices of domains",
            );
        }
        Ok(())
    }
}

/// Closures need to be told that they take any writer.
fn contents<'a>(write: impl FnMut(&mut dyn Write) -> std::io::Result<()> + 'a) -> WriteFile<'a> {
    Box::new(write)
}

fn print(outcome: &Outcome, input: &str, arguments: &Tune) -> Result<(), Failure> {
    if !arguments.json {
        return terminal::print(&text(outcome, input, arguments.all));
    }
    let text = serde_json::to_string_pretty(outcome)
        .map_err(|error| Failure::System { what: "write JSON", error: error.to_string() })?;
    terminal::print_json(&format!("{text}\n"))
}
