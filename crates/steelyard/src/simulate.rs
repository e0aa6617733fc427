// SPDX-License-Identifier: GPL-2.0-only
//! Many hosts that come from one input, with many seeds, on all cores, with results in an order that does not depend
//! on the threads.

use std::ops::Range;

use indicatif::ProgressBar;
use rayon::ThreadPool;
use rayon::prelude::*;
use steelyard_policy::Policy;
use steelyard_scenario::{Diagnostic, LabelledPolicy, Loaded, Options};
use steelyard_simulator::Simulation;
use steelyard_simulator::config::Setup;

use crate::arguments::Simulated;
use crate::failure::Failure;

/// How to load an input of which the host as it is matters.
pub fn options(simulated: &Simulated) -> Options {
    Options {
        policies: simulated.own.iter().cloned().collect(),
        seeds: simulated.seeds.map(u32::from),
        set: simulated.set.clone(),
        own: simulated.own.clone(),
        host: simulated.host.clone(),
    }
}

/// What schedules the host as it is: of a recording the recorded host's, else the first that somebody chose.
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

/// That one's name, with a word where it is only assumed.
pub fn own_label(input: &Loaded, own: &LabelledPolicy) -> String {
    match input.own.as_ref().is_some_and(|own| own.assumed) {
        true => format!("{} (assumed: --own tells)", own.label),
        false => own.label.clone(),
    }
}

/// Runs hosts that come from one input.
pub struct Simulator<'a> {
    pub pool: ThreadPool,
    /// Goes on by one with each run.
    pub bar: ProgressBar,
    /// Name of the input.
    pub name: &'a str,
}

impl Simulator<'_> {
    /// What is made of each host with each seed.
    pub fn run<T: Send>(
        &self,
        hosts: &[(&Setup, &Policy)],
        seeds: Range<u64>,
        make: impl Fn(&mut Simulation) -> T + Sync,
    ) -> Result<Vec<Vec<T>>, Failure> {
        let run = |setup: &Setup, policy: &Policy, seed| {
            let mut simulation = Simulation::new(setup, policy, seed)
                .map_err(|error| Diagnostic::of_file(self.name, error.to_string()))?;
            let made = make(&mut simulation);
            self.bar.inc(1);
            Ok(made)
        };
        let host = |&(setup, policy): &(&Setup, &Policy)| {
            seeds.clone().into_par_iter().map(|seed| run(setup, policy, seed)).collect()
        };
        self.pool.install(|| hosts.par_iter().with_max_len(1).map(host).collect())
    }
}
