// SPDX-License-Identifier: GPL-2.0-only
//! Many hosts that come from one input, with many seeds, on all cores, with results in an order that does not depend
//! on the threads.

use std::ops::Range;

use rayon::ThreadPool;
use rayon::prelude::*;
use steelyard_policy::Policy;
use steelyard_scenario::{Diagnostic, LabelledPolicy, Loaded};
use steelyard_simulator::Simulation;
use steelyard_simulator::config::Setup;

use crate::{Ended, RunError, Watch};

/// What schedules the host as it is: of a recording the recorded host's, else the first that somebody chose.
///
/// # Errors
/// Nothing tells.
pub fn own(input: &Loaded) -> Result<&LabelledPolicy, Diagnostic> {
    let own = input.own.as_ref();
    let known = own.is_some() || (input.chosen && input.recorded.is_none());
    let is_own =
        |policy: &&LabelledPolicy| own.is_none_or(|own| policy.label == own.label) && known;
    input.policies.iter().find(is_own).ok_or_else(|| {
        let message = "nothing tells what schedules this host";
        Diagnostic::of_file(&input.name, message).with_help(
            "`--own P` does: `--own fair` on Linux, `--own credit2` on Xen since 4.12, `--own credit` on older ones",
        )
    })
}

/// Nobody's scheduler was recorded but that of a recording.
///
/// # Errors
/// One is named for something else.
pub fn check_own(own: Option<&str>, inputs: &[Loaded]) -> Result<(), Diagnostic> {
    if own.is_some()
        && let Some(input) = inputs.iter().find(|input| input.recorded.is_none())
    {
        let message = "`--own` says what scheduled a recorded host, and this is no recording";
        let help =
            "leave `--own` out, or compare recordings alone; `--policy` says what to simulate";
        return Err(Diagnostic::of_file(&input.name, message).with_help(help));
    }
    Ok(())
}

/// That one's name, with a word where it is only assumed.
pub fn own_label(input: &Loaded, own: &LabelledPolicy) -> String {
    match input.own.as_ref().is_some_and(|own| own.assumed) {
        true => format!("{} (assumed: --own tells)", own.label),
        false => own.label.clone(),
    }
}

/// Runs hosts that come from one input.
pub struct Simulator<'a> {
    /// The threads.
    pub pool: &'a ThreadPool,
    /// Told of each run, as 1.
    pub watch: &'a dyn Watch,
    /// Name of the input.
    pub name: &'a str,
}

impl Simulator<'_> {
    /// What is made of each host with each seed. `make` runs it as far as it wants, and asks whoever watches meanwhile.
    ///
    /// # Errors
    /// A host that cannot be simulated, or whoever watches wants an end.
    pub fn run<T: Send>(
        &self,
        hosts: &[(&Setup, &Policy)],
        seeds: Range<u64>,
        make: impl Fn(&mut Simulation) -> Result<T, Ended> + Sync,
    ) -> Result<Vec<Vec<T>>, RunError> {
        let run = |setup: &Setup, policy: &Policy, seed| {
            let mut simulation = Simulation::new(setup, policy, seed)
                .map_err(|error| Diagnostic::of_file(self.name, error.to_string()))?;
            let made = make(&mut simulation)?;
            self.watch.done(1)?;
            Ok(made)
        };
        let host = |&(setup, policy): &(&Setup, &Policy)| {
            seeds.clone().into_par_iter().map(|seed| run(setup, policy, seed)).collect()
        };
        self.pool.install(|| hosts.par_iter().with_max_len(1).map(host).collect())
    }
}
