// SPDX-License-Identifier: GPL-2.0-only
//! Tuning (`docs/tune.md`): searches schedulers, their parameters and what VMs are given for the settings that serve
//! somebody's goals best, by simulating each of them beside the host as it is, and judges what it found on seeds and
//! time that the search has not seen.
//!
//! `space` says what can be changed, `propose` what to try next, `order` what is better, `search` goes on with that,
//! `judge` says what comes of it; `state` is a file to go on from, `text`, `table` and `page` what people and programs
//! are shown, `shell` what they type.

mod judge;
mod order;
mod page;
mod propose;
mod search;
mod shell;
mod space;
mod state;
mod table;
mod text;

use std::collections::BTreeMap;

use steelyard_advise::Toolstack;
use steelyard_goal::{Goal, Keep};
use steelyard_policy::Policy;
use steelyard_simulator::config::Setup;
use steelyard_simulator::measure::Run;

pub use crate::judge::{ChangeMade, Cost, Judged, Outcome, Proposal, Row, Wanted, Without};
pub use crate::page::write_page;
pub use crate::search::{Figures, spread};
pub use crate::state::{Header, State};
pub use crate::table::write_csv;
pub use crate::text::text;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// Host and domains as they are.
    pub setup: &'a Setup,
    /// The scheduler that it has.
    pub policy: &'a Policy,
    /// What people call that.
    pub label: &'a str,
    /// What they call the host; others' text.
    pub input: &'a str,
    /// By what it is administered.
    pub toolstack: Toolstack,
    /// Figures to better, at least one.
    pub goals: &'a [Goal],
    /// And to keep.
    pub keeps: &'a [Keep],
    /// What may be changed.
    pub vary: &'a [Vary],
    /// Schedulers to choose from; none: all, with every governor that suits them.
    pub policies: &'a [Policy],
    /// How many settings are tried before any is judged.
    pub settings: usize,
    /// Seed of the search itself.
    pub seed: u64,
    /// By what factor replays of the host as it is are off, for each goal; none: nothing was recorded.
    pub errors: Option<&'a [f64]>,
}

#[cfg(test)]
impl<'a> Question<'a> {
    /// About a host, with nothing asked.
    fn about(setup: &'a Setup, policy: &'a Policy) -> Question<'a> {
        Question {
            setup,
            policy,
            label: "",
            input: "",
            toolstack: Toolstack::of(policy.discipline().name),
            goals: &[],
            keeps: &[],
            vary: &[],
            policies: &[],
            settings: 1,
            seed: 1,
            errors: None,
        }
    }
}

/// What may be changed of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vary {
    /// The scheduler: discipline, vintage and governors.
    Policy,
    /// Its parameters.
    Parameters,
    /// Weights of domains.
    Weight,
    /// Caps of domains.
    Cap,
    /// Slices that domains ask for.
    Slice,
}

impl Vary {
    /// All of them, by the names that people give.
    pub const ALL: [(&'static str, Vary); 5] = [
        ("policy", Vary::Policy),
        ("parameters", Vary::Parameters),
        ("weight", Vary::Weight),
        ("cap", Vary::Cap),
        ("slice", Vary::Slice),
    ];
}

/// What is simulated of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The seeds, and of a recording the time, that the search may see.
    Search,
    /// Those that it has not seen.
    Verdict,
}

/// The changes of a setting by their names, as files keep them.
pub type Written = BTreeMap<String, String>;

/// Where hosts are simulated, and what is remembered of it.
pub trait Bench {
    /// What may go wrong.
    type Error;

    /// Simulates each of these under its policy, once with every seed of this part, in their order.
    ///
    /// # Errors
    /// What went wrong.
    fn simulate(
        &mut self,
        hosts: &[(&Setup, &Policy)],
        part: Part,
    ) -> Result<Vec<Vec<Run>>, Self::Error>;

    /// What was measured of a setting before, if it was.
    fn recall(&mut self, setting: &Written) -> Option<Figures>;

    /// Remembers it; called for each setting once, in the order in which they are tried.
    ///
    /// # Errors
    /// What went wrong.
    fn note(&mut self, setting: &Written, figures: &Figures) -> Result<(), Self::Error>;
}

/// Searches, and judges what it found.
///
/// # Errors
/// Those of the bench.
pub fn tune<B: Bench>(question: &Question, bench: &mut B) -> Result<Outcome, B::Error> {
    let space = space::Space::new(question);
    let mut search = search::Search::new(question, &space, bench)?;
    search.run()?;
    judge::judge(search)
}
