// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard compare`: every policy with every seed on every input (crate `steelyard-run`), and the files of it.

use std::path::Path;

use steelyard_boundary::output::Output;
use steelyard_boundary::text::told;
use steelyard_report::{COMPARISON_FILES, Style, overview, table, write_all};
use steelyard_run::{check_own, pool, trace_worst_waits, within_memory};
use steelyard_scenario::{Options, load};

use crate::arguments::{Compare, options};
use crate::change;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::terminal::{self, Bar};

pub fn run(arguments: &Compare, interrupt: &Interrupt) -> Result<(), Failure> {
    if let Some(recordings) = change::wanted(arguments)? {
        return change::run(recordings, arguments);
    }
    let out = arguments.out.as_ref();
    let out = out.map(|out| Output::directory(out, &COMPARISON_FILES, &arguments.inputs));
    let out = out.transpose()?;
    let options = Options { policies: arguments.policies.clone(), ..options(&arguments.simulated) };
    let inputs: Vec<_> =
        arguments.inputs.iter().map(|path| load(path, &options)).collect::<Result<_, _>>()?;
    let own = arguments.simulated.own.as_deref();
    check_own(own, &inputs)?;
    let recordings: Vec<_> = inputs.iter().flat_map(|input| input.recordings.clone()).collect();
    let out = out.map(|out| out.beside(&recordings)).transpose()?;
    let pool = pool(within_memory(arguments.simulated.threads, &inputs))?;
    let bar = Bar::new(interrupt);

    let sources: Vec<_> = arguments.inputs.iter().map(|path| file_name(path)).collect();
    let results = steelyard_run::compare(&sources, &inputs, &pool, &bar)?;
    if let Some(out) = &out {
        let traces = trace_worst_waits(&inputs, &results, &pool, &bar)?;
        bar.set_unmeasured("Writing");
        interrupt.while_writing(|asked| Ok(write_all(out, &results, &traces, asked)?))?;
        bar.clear();
        for path in out.paths() {
            terminal::note(&format!("wrote {}", told(path)));
        }
    }
    bar.clear();

    if arguments.json {
        let mut text = vec![];
        results.write_json(&mut text).map_err(Failure::Output)?;
        terminal::print_json(&String::from_utf8_lossy(&text))
    } else {
        let style = Style { width: terminal::width(), color: true };
        terminal::print(&if arguments.all {
            table(&results, style)
        } else {
            overview(&results, style)
        })
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
