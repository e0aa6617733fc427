// SPDX-License-Identifier: GPL-2.0-only
//! The list of what a publication says: that it fits the experiment's claims and tables, and what has
//! become of each of its statements.

use steelyard_scenario::{Diagnostic, Source};

use crate::experiment::{Experiment, error, unknown, value_at};
use crate::file::{Claim, Statement};
use crate::outcome::{ClaimOutcome, Settled, State, StatementOutcome};

impl Experiment {
    /// The publication's claims, then ours, with the way to each in the file.
    pub(crate) fn claims(&self) -> impl Iterator<Item = ([String; 2], &Claim)> {
        let of = |key: &'static str| {
            move |(index, claim): (usize, _)| ([key.to_owned(), index.to_string()], claim)
        };
        let published = self.file.claim.iter().enumerate().map(of("claim"));
        published.chain(self.file.ours.iter().enumerate().map(of("ours")))
    }

    /// Each claim of the publication's names statements of the list, and none of ours does; of each
    /// statement one thing has become; and every published value is one of a statement's.
    pub(crate) fn check_statements(
        &self,
        main: &Source,
        published: &Source,
    ) -> Result<(), Diagnostic> {
        let names = || self.statements.iter().map(|statement| statement.name.as_str());
        for (path, claim) in self.claims() {
            let at = |key: &str, message: String| {
                error(main, &[path[0].as_str(), path[1].as_str(), key], message)
            };
            if (path[0] == "ours") != claim.of.is_empty() {
                let message =
                    "a `claim` is `of` statements of published.toml, and `ours` is of none";
                return Err(at("says", message.to_owned()));
            }
            if let Some(name) = claim.of.iter().find(|name| !names().any(|known| known == *name)) {
                return Err(at("of", unknown("statement", name, names())));
            }
        }
        for (index, statement) in self.statements.iter().enumerate() {
            self.check_statement(index, statement).map_err(|(key, message)| {
                let path = ["statement", &index.to_string(), key];
                error(published, &path, format!("`{}`: {message}", statement.name))
            })?;
        }
        self.check_values_are_listed(published)
    }

    /// The key at which something is wrong with a statement, and what.
    fn check_statement(
        &self,
        index: usize,
        statement: &Statement,
    ) -> Result<(), (&'static str, &'static str)> {
        if self.statements[..index].iter().any(|other| other.name == statement.name) {
            return Err(("name", "there are two of this name"));
        }
        let become_of = [
            self.file.claim.iter().any(|claim| claim.of.contains(&statement.name)),
            statement.here.is_some(),
            statement.no_claim_yet.is_some(),
            statement.not_reproducible.is_some(),
        ];
        if become_of.iter().filter(|&&is| is).count() != 1 {
            let message = "it has one of: a claim, `here`, `no_claim_yet`, `not_reproducible`";
            return Err(("name", message));
        }
        if statement.differs.is_some() && statement.here.is_none() {
            return Err(("differs", "from what? `here` is missing"));
        }
        if statement.figure.is_some() != statement.curve.is_some() {
            return Err(("name", "`figure` and `curve` come together"));
        }
        if statement.figure.is_some() && self.values(statement).is_empty() {
            return Err(("curve", "no table has values of this curve of this figure"));
        }
        Ok(())
    }

    fn check_values_are_listed(&self, published: &Source) -> Result<(), Diagnostic> {
        for table in self.published.iter().chain(&self.calibrated) {
            for curve in table.values.keys() {
                let listed = self.statements.iter().any(|statement| {
                    statement.figure.as_ref() == Some(&table.figure)
                        && statement.curve.as_ref() == Some(curve)
                });
                if !listed {
                    let message =
                        format!("no statement has the values of `{curve}` of `{}`", table.figure);
                    return Err(Diagnostic::of_file(&published.name, message));
                }
            }
        }
        Ok(())
    }

    /// The values that the tables have of a statement's curve, in the order of the figure's places.
    fn values(&self, statement: &Statement) -> Vec<f64> {
        let (Some(name), Some(curve)) = (&statement.figure, &statement.curve) else {
            return vec![];
        };
        let at = |x| {
            let of = |tables| value_at(tables, name, curve, x);
            of(&self.published).or_else(|| of(&self.calibrated))
        };
        let figure = self.file.figure.iter().find(|figure| figure.name == *name);
        figure.iter().flat_map(|figure| &figure.x).filter_map(at).collect()
    }

    /// Where claims stand: the sources of their statements.
    pub(crate) fn source_of(&self, claim: &Claim) -> String {
        let mut sources: Vec<_> = self
            .statements
            .iter()
            .filter(|statement| claim.of.contains(&statement.name))
            .map(|statement| statement.source.as_str())
            .collect();
        sources.dedup();
        sources.join("; ")
    }

    /// What has become of each statement, by the claims in the order of [`Self::claims`].
    pub(crate) fn settled(&self, claims: &[ClaimOutcome]) -> Vec<StatementOutcome> {
        self.statements.iter().map(|statement| self.settle(statement, claims)).collect()
    }

    fn settle(&self, statement: &Statement, claims: &[ClaimOutcome]) -> StatementOutcome {
        let mine: Vec<usize> = self
            .file
            .claim
            .iter()
            .enumerate()
            .filter(|(_, claim)| claim.of.contains(&statement.name))
            .map(|(index, _)| index)
            .collect();
        let is = |states: &[State], index: &usize| {
            claims.get(*index).is_some_and(|claim| states.contains(&claim.state))
        };
        let reason = statement.no_claim_yet.as_ref().or(statement.not_reproducible.as_ref());
        StatementOutcome {
            name: statement.name.clone(),
            source: statement.source.clone(),
            says: statement.says.clone(),
            values: self.values(statement),
            settled: match statement {
                Statement { here: Some(_), differs: None, .. } => Settled::Followed,
                Statement { here: Some(_), .. } => Settled::Differs,
                Statement { no_claim_yet: Some(_), .. } => Settled::NoClaimYet,
                Statement { not_reproducible: Some(_), .. } => Settled::NotReproducible,
                _ if mine.iter().any(|index| is(&[State::Fails, State::Known], index)) => {
                    Settled::DoesNotHold
                }
                _ if mine.iter().any(|index| is(&[State::Undecided], index)) => Settled::Undecided,
                _ if mine.iter().any(|&index| self.file.claim[index].chosen_after.is_some()) => {
                    Settled::HoldsChosenAfter
                }
                _ => Settled::Holds,
            },
            here: statement.here.clone(),
            reason: statement.differs.as_ref().or(reason).cloned(),
            claims: mine,
        }
    }
}
