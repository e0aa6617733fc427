// SPDX-License-Identifier: GPL-2.0-only
//! What each domain is entitled to, and how near its share came to that.

use crate::measure::{DomainMeasure, TimeMeasure};
use crate::units::CpuSet;

/// What a domain can use at most.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usable {
    /// By its vCPUs and its cap, in percent of one pCPU.
    pub percent: f64,
    /// The pCPUs that it may use; none: all.
    pub pcpus: Option<CpuSet>,
    /// Whether each of its vCPUs has its weight for itself.
    pub ungrouped: bool,
    /// Of `percent`, what is reserved for it, where the policy heeds that.
    pub reserved_percent: f64,
}

/// With more different sets of pCPUs than this, only single sets, their pairs and all of them
/// together are looked at as bottlenecks.
const SETS: usize = 10;

struct Claim {
    domain: usize,
    weight: f64,
    /// What it would have used beyond what is reserved for it, in percent of one pCPU.
    wanted: f64,
    /// What it would have used of that.
    reserved: f64,
    pcpus: Vec<bool>,
}

/// Fills in every domain's entitlement by weighted max-min fairness over what it would use if it
/// never had to wait, and can use; gives Jain's index of share over entitlement. What is reserved and would be used comes
/// first, all of it or, if it is more than there is, a part of each that is the same; the rest goes by weight.
///
/// Of a domain that is ungrouped each vCPU claims for itself. Where domains are pinned, the sets of pCPUs that are most in demand are divided first: those
/// whose domains could each have least per weight.
pub fn entitle(domains: &mut [DomainMeasure], usable: &[Usable], pcpus: u32) -> f64 {
    let mut claims: Vec<Claim> = domains
        .iter()
        .zip(usable)
        .enumerate()
        .flat_map(|(index, (domain, usable))| {
            let demands = domain.vcpus.iter().map(|vcpu| demand_percent(&vcpu.time));
            let asked: f64 = demands.clone().sum();
            let mut set = vec![usable.pcpus.is_none(); pcpus as usize];
            for pcpu in usable.pcpus.iter().flat_map(CpuSet::iter).filter(|&pcpu| pcpu < pcpus) {
                set[pcpu as usize] = true;
            }
            let wanted = asked.min(usable.percent).min(100.0 * size(&set));
            let claim = move |used: f64, reserved: f64| Claim {
                domain: index,
                weight: f64::from(domain.weight.max(1)),
                wanted: used - used.min(reserved),
                reserved: used.min(reserved),
                pcpus: set.clone(),
            };
            if usable.ungrouped {
                // What limits them all together takes the same part from each.
                let part = if asked > 0.0 { wanted / asked } else { 0.0 };
                let reserved = usable.reserved_percent / domain.vcpus.len() as f64;
                demands.map(|demand| claim(demand * part, reserved)).collect()
            } else {
                vec![claim(wanted, usable.reserved_percent)]
            }
        })
        .collect();
    for domain in domains.iter_mut() {
        domain.entitlement_percent = 0.0;
    }
    while !claims.is_empty() {
        let bottleneck = unions(&claims)
            .into_iter()
            .map(|union| {
                let inside: Vec<_> =
                    claims.iter().filter(|claim| within(&claim.pcpus, &union)).collect();
                let reserved: f64 = inside.iter().map(|claim| claim.reserved).sum();
                let all = 100.0 * size(&union);
                (level(inside, all - reserved), all / reserved.max(all), union)
            })
            .min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((level, kept, union)) = bottleneck else { break };
        claims.retain_mut(|claim| {
            let divided = within(&claim.pcpus, &union);
            if divided {
                domains[claim.domain].entitlement_percent +=
                    claim.reserved * kept + claim.wanted.min(level.max(0.0) * claim.weight);
            }
            // What the others may use is left without these pCPUs.
            for (mine, &taken) in claim.pcpus.iter_mut().zip(&union) {
                *mine &= !taken;
            }
            !divided
        });
    }
    jain(
        domains
            .iter()
            .filter(|domain| domain.entitlement_percent > 0.0)
            .map(|domain| domain.share_percent / domain.entitlement_percent),
    )
}

/// What a vCPU would use if it never waited: who waits cannot sleep, so it is the part of the other
/// time in which it ran. Who only ever waited wants all it can get.
pub fn demand_percent(time: &TimeMeasure) -> f64 {
    if time.gotten_ns == 0 && time.waited_ns > 0 {
        return 100.0;
    }
    100.0 * time.gotten_ns as f64 / (time.gotten_ns + time.blocked_ns).max(1) as f64
}

fn size(set: &[bool]) -> f64 {
    set.iter().filter(|&&member| member).count() as f64
}

fn within(inner: &[bool], outer: &[bool]) -> bool {
    inner.iter().zip(outer).all(|(&inner, &outer)| !inner || outer)
}

/// The unions of the claims' sets that may be bottlenecks.
fn unions(claims: &[Claim]) -> Vec<Vec<bool>> {
    let mut sets: Vec<Vec<bool>> = vec![];
    for claim in claims {
        if !sets.contains(&claim.pcpus) {
            sets.push(claim.pcpus.clone());
        }
    }
    let union = |members: &mut dyn Iterator<Item = &Vec<bool>>| {
        let mut union = vec![false; claims[0].pcpus.len()];
        for set in members {
            for (all, &member) in union.iter_mut().zip(set) {
                *all |= member;
            }
        }
        union
    };
    if sets.len() <= SETS {
        (1u32..1 << sets.len())
            .map(|chosen| {
                let chosen = |index: usize| chosen >> index & 1 != 0;
                union(&mut (0..sets.len()).filter(|&index| chosen(index)).map(|index| &sets[index]))
            })
            .collect()
    } else {
        let pairs = sets
            .iter()
            .enumerate()
            .flat_map(|(index, a)| sets[index..].iter().take(SETS).map(move |b| [a, b]));
        let mut unions: Vec<_> = pairs.map(|pair| union(&mut pair.into_iter())).collect();
        unions.push(union(&mut sets.iter()));
        unions
    }
}

/// What each gets per weight if so much is divided among these; infinite if it is enough for all, below 0 if more than there
/// is was reserved.
/// Who wants least per weight is served first, the rest divide what is left.
fn level(mut claims: Vec<&Claim>, mut left: f64) -> f64 {
    claims.sort_by(|a, b| (a.wanted / a.weight).total_cmp(&(b.wanted / b.weight)));
    let mut weight_left: f64 = claims.iter().map(|claim| claim.weight).sum();
    for claim in claims {
        let level = left / weight_left;
        if claim.wanted > level * claim.weight {
            return level;
        }
        left -= claim.wanted;
        weight_left -= claim.weight;
    }
    f64::INFINITY
}

/// Jain's index: 1 if all are equal, 1/n if one has everything; 1 for nobody.
/// R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984.
pub fn jain(values: impl Iterator<Item = f64>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        count += 1.0;
        sum += value;
        squares += value * value;
    }
    if squares > 0.0 { sum * sum / (count * squares) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::VcpuMeasure;

    /// Each of its vCPUs ran and waited for so long out of 1000 ns.
    fn domain(weight: u32, vcpus: usize, gotten_ns: u64, waited_ns: u64) -> DomainMeasure {
        let blocked_ns = 1_000 - gotten_ns - waited_ns;
        let time = TimeMeasure { gotten_ns, waited_ns, blocked_ns, ..TimeMeasure::default() };
        let gotten_ns = gotten_ns * vcpus as u64;
        DomainMeasure {
            name: String::new(),
            weight,
            cap_percent: 0,
            share_percent: gotten_ns as f64 / 10.0,
            entitlement_percent: 0.0,
            time: time.clone(),
            vcpus: vec![VcpuMeasure { time }; vcpus],
            tasks: vec![],
            unhonoured: vec![],
        }
    }

    fn usable(percent: f64, pin: Option<&str>) -> Usable {
        let pcpus = pin.map(|pin| pin.parse().unwrap());
        Usable { percent, pcpus, ..Usable::default() }
    }

    fn entitlements(domains: &[DomainMeasure]) -> Vec<f64> {
        domains.iter().map(|domain| domain.entitlement_percent.round()).collect()
    }

    #[test]
    fn who_asks_little_gets_it_and_the_rest_follow_weights() {
        // Two pCPUs. The first ran for 100 of the 500 ns in which it did not wait: it would use
        // 20 %, and is due that; 180 % are left for weights 1 and 2: 60 and 120. The others never
        // slept and would use more.
        let mut domains = [domain(1, 1, 100, 500), domain(1, 1, 600, 400), domain(2, 2, 600, 400)];
        let limits = [usable(100.0, None), usable(100.0, None), usable(200.0, None)];
        let fairness = entitle(&mut domains, &limits, 2);
        assert_eq!(entitlements(&domains), [20.0, 60.0, 120.0]);
        // Shares over entitlements are 0.5, 1, 1: (2.5)^2 / (3 x 2.25).
        assert!((fairness - 6.25 / 6.75).abs() < 1e-9);
    }

    #[test]
    fn vcpus_that_no_group_holds_together_claim_each_for_itself() {
        // One pCPU, three vCPUs that never sleep: a third for each, two of them of the first domain, which as a
        // group has a half.
        let mut domains = [domain(1, 2, 333, 667), domain(1, 1, 334, 666)];
        let mut limits = [usable(200.0, None), usable(100.0, None)];
        entitle(&mut domains, &limits, 1);
        assert_eq!(entitlements(&domains), [50.0, 50.0]);
        limits[0].ungrouped = true;
        entitle(&mut domains, &limits, 1);
        assert_eq!(entitlements(&domains), [67.0, 33.0]);
        // A cap holds for both together.
        limits[0].percent = 40.0;
        entitle(&mut domains, &limits, 1);
        assert_eq!(entitlements(&domains), [40.0, 60.0]);
    }

    #[test]
    fn limits_hold() {
        let mut domains = [domain(1, 1, 250, 750), domain(1, 1, 750, 250)];
        entitle(&mut domains, &[usable(25.0, None), usable(100.0, None)], 1);
        assert_eq!(domains[0].entitlement_percent, 25.0);
        assert_eq!(domains[1].entitlement_percent, 75.0);
        assert_eq!(jain([1.0, 0.0].into_iter()), 0.5);
        assert_eq!(jain(std::iter::empty()), 1.0);
    }

    #[test]
    fn what_is_reserved_comes_first() {
        // One pCPU, equal weights, and all but the third never sleep. 60 % are reserved for the first; the third has 20 %
        // reserved and would use 10. The first and the second divide the 30 that are left.
        let mut domains = [domain(1, 1, 700, 300), domain(1, 1, 200, 800), domain(1, 1, 100, 0)];
        let mut limits = [60.0, 0.0, 20.0]
            .map(|reserved_percent| Usable { reserved_percent, ..usable(100.0, None) });
        entitle(&mut domains, &limits, 1);
        assert_eq!(entitlements(&domains), [75.0, 15.0, 10.0]);
        // Twice as much as there is: half of each, and nothing for who has none.
        limits[0].reserved_percent = 150.0;
        limits[1].reserved_percent = 0.0;
        limits[2].reserved_percent = 0.0;
        limits[0].percent = 200.0;
        let mut domains = [domain(1, 2, 400, 600), domain(1, 1, 200, 800), domain(1, 1, 0, 0)];
        entitle(&mut domains, &limits, 1);
        assert_eq!(entitlements(&domains), [100.0, 0.0, 0.0]);
    }

    #[test]
    fn who_is_pinned_together_divides_those_pcpus_only() {
        // Weights 2 and 1 on pCPU 0 divide it 67:33; the third has pCPU 1 for itself, though by
        // weight over both pCPUs it would be due no more than 50 %.
        let mut domains = [domain(2, 1, 600, 400), domain(1, 1, 400, 600), domain(1, 1, 1_000, 0)];
        let limits = [usable(100.0, Some("0")), usable(100.0, Some("0")), usable(100.0, None)];
        entitle(&mut domains, &limits, 2);
        assert_eq!(entitlements(&domains), [67.0, 33.0, 100.0]);
        // Many different pins: each has its own pCPU.
        let mut domains: Vec<_> = (0..20).map(|_| domain(1, 1, 500, 500)).collect();
        let limits: Vec<_> = (0..20).map(|pcpu| usable(100.0, Some(&pcpu.to_string()))).collect();
        entitle(&mut domains, &limits, 20);
        assert!(domains.iter().all(|domain| domain.entitlement_percent == 100.0));
    }
}
