// SPDX-License-Identifier: GPL-2.0-only
//! The governors of the policy core (`policy/governor/`) as a host of user space calls them: it says what was measured
//! of each domain, and asks which weight and slice each has then. The rule is theirs alone.

use std::collections::BTreeMap;

use steelyard_policy::ffi::{
    sy_domain_init, sy_sample_begin, sy_sample_domain, sy_sample_ns, sy_sample_settle,
};
use steelyard_policy::{Domain, GovernorState, Policy, Sample, Settings};

/// What was measured of a domain since the look before, and what its administrator asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// What was measured.
    pub sample: Sample,
    /// Weight asked for, 256 being the usual one.
    pub weight: u64,
    /// Cap in percent of a pCPU; 0: none.
    pub cap_percent: u64,
    /// Its vCPUs.
    pub vcpus: u64,
}

/// What the governors want of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Weight, 256 being the usual one.
    pub weight: u64,
    /// Slice; 0: the scheduler's own.
    pub slice_ns: u64,
}

/// Domains that are governed, by their numbers.
pub struct Governed {
    policy: Policy,
    state: GovernorState,
    domains: BTreeMap<u64, Domain>,
    pcpus: u64,
}

impl Governed {
    /// Nobody yet, on a host of so many pCPUs.
    #[must_use]
    pub fn new(policy: Policy, pcpus: u64) -> Governed {
        Governed { policy, state: GovernorState::default(), domains: BTreeMap::new(), pcpus }
    }

    /// Time between two looks.
    #[must_use]
    pub fn interval_ns(&self) -> u64 {
        sy_sample_ns(self.policy.parameters())
    }

    /// A look at `now_ns`, which is never 0: what was measured of everybody who is there.
    pub fn look(
        &mut self,
        now_ns: u64,
        measured: &BTreeMap<u64, Measured>,
    ) -> BTreeMap<u64, Wanted> {
        let p = self.policy.parameters();
        self.domains.retain(|id, _| measured.contains_key(id));
        for (&id, new) in measured {
            self.domains.entry(id).or_insert_with(|| {
                let mut domain = Domain::of(id);
                let settings = Settings {
                    weight: new.weight,
                    cap_percent: new.cap_percent,
                    ..Settings::default()
                };
                sy_domain_init(p, &mut domain, &settings, new.vcpus, now_ns);
                domain
            });
        }
        sy_sample_begin(p, &mut self.state, self.pcpus, now_ns);
        for (id, domain) in &mut self.domains {
            sy_sample_domain(p, &mut self.state, domain, &measured[id].sample);
        }
        let settled = self.domains.iter_mut().map(|(&id, domain)| {
            sy_sample_settle(p, &mut self.state, domain);
            (id, Wanted { weight: domain.weight, slice_ns: domain.slice_ns })
        });
        settled.collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const S: u64 = 1_000_000_000;

    fn measured(gotten_ns: u64, packets: u64) -> Measured {
        let sample = Sample { interval_ns: 10 * S, gotten_ns, packets, ..Sample::default() };
        Measured { sample, weight: 256, cap_percent: 0, vcpus: 1 }
    }

    /// The published workloads, 20, 60 and 80 % of a pCPU: 256 x 20 x 3 / 160 = 96, and so on.
    #[test]
    fn weights_follow_the_workload() {
        let mut governed = Governed::new(Policy::named("fair+load-weight").unwrap(), 2);
        assert_eq!(governed.interval_ns(), 10 * S);
        let of =
            |percents: [u64; 3]| (1..).zip(percents.map(|it| measured(it * S / 10, 0))).collect();
        let wanted = governed.look(100 * S, &of([20, 60, 80]));
        assert_eq!(wanted.values().map(|it| it.weight).collect::<Vec<_>>(), [96, 288, 384]);
        let wanted = governed.look(110 * S, &of([10, 15, 90]));
        assert_eq!(wanted.values().map(|it| it.weight).collect::<Vec<_>>(), [67, 100, 601]);
        // Who went is forgotten; the mean of one is that one.
        let wanted = governed.look(120 * S, &[(3, measured(9 * S, 0))].into());
        assert_eq!(wanted.values().map(|it| it.weight).collect::<Vec<_>>(), [256]);
    }

    /// Five looks with 90 % of a pCPU and 100 packets a second make 40 % of the scheduler's slice of 3 ms; who has no
    /// packets keeps it, and so does who stops.
    #[test]
    fn who_computes_and_answers_has_a_short_slice() {
        let mut policy = Policy::named("fair@eevdf+app-slice").unwrap();
        policy.set("base_slice_ns", "3000000").unwrap();
        let mut governed = Governed::new(policy, 1);
        let second = |mut it: Measured| {
            it.sample.interval_ns = S;
            it
        };
        let busy = second(measured(9 * S / 10, 100));
        let silent = second(measured(9 * S / 10, 0));
        let mut slices = vec![];
        for look in 1..=6 {
            let wanted = governed.look((100 + look) * S, &[(1, busy), (2, silent)].into());
            slices.push([wanted[&1].slice_ns, wanted[&2].slice_ns]);
        }
        assert_eq!(slices[..4], [[0, 0]; 4]);
        assert_eq!(slices[4..], [[1_200_000, 0]; 2]);
        for look in 7..=11 {
            governed.look((100 + look) * S, &[(1, silent), (2, silent)].into());
        }
        let wanted = governed.look(112 * S, &[(1, silent), (2, silent)].into());
        assert_eq!(wanted[&1].slice_ns, 0);
    }
}
