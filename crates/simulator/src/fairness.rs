// SPDX-License-Identifier: GPL-2.0-only
//! What each domain is entitled to, and how near its share came to that.

use crate::measure::DomainMeasure;

/// Fills in every domain's entitlement by weighted max-min fairness over what it asked for (gotten
/// plus waited), never more than it can use (`usable_percent`, per domain), on so many pCPUs; gives
/// Jain's index of share over entitlement.
pub fn entitle(domains: &mut [DomainMeasure], usable_percent: &[f64], pcpus: u32) -> f64 {
    let wanted: Vec<f64> = domains
        .iter()
        .zip(usable_percent)
        .map(|(domain, &usable)| {
            let time = &domain.time;
            let all_ns = (time.gotten_ns + time.waited_ns + time.blocked_ns).max(1) as f64;
            let elapsed_ns = all_ns / domain.vcpus.len().max(1) as f64;
            (100.0 * (time.gotten_ns + time.waited_ns) as f64 / elapsed_ns).min(usable)
        })
        .collect();
    // Water filling: who wants least per weight is served first; the rest divide what is left.
    let mut order: Vec<usize> = (0..domains.len()).collect();
    let weight = |domain: &DomainMeasure| f64::from(domain.weight.max(1));
    let level = |&index: &usize| wanted[index] / weight(&domains[index]);
    order.sort_by(|a, b| level(a).total_cmp(&level(b)));
    let mut left = 100.0 * f64::from(pcpus);
    let mut weight_left: f64 = domains.iter().map(weight).sum();
    for index in order {
        let domain = &mut domains[index];
        let fair = left * weight(domain) / weight_left;
        domain.entitlement_percent = wanted[index].min(fair);
        left -= domain.entitlement_percent;
        weight_left -= weight(domain);
    }
    jain(
        domains
            .iter()
            .filter(|domain| domain.entitlement_percent > 0.0)
            .map(|domain| domain.share_percent / domain.entitlement_percent),
    )
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
    use crate::measure::{TimeMeasure, VcpuMeasure};

    fn domain(weight: u32, vcpus: usize, gotten_ns: u64, waited_ns: u64) -> DomainMeasure {
        let elapsed_ns = 1_000;
        let blocked_ns = elapsed_ns * vcpus as u64 - gotten_ns - waited_ns;
        let vcpu = VcpuMeasure { time: TimeMeasure::default() };
        DomainMeasure {
            name: String::new(),
            weight,
            cap_percent: 0,
            share_percent: gotten_ns as f64 / 10.0,
            entitlement_percent: 0.0,
            time: TimeMeasure { gotten_ns, waited_ns, blocked_ns, ..TimeMeasure::default() },
            vcpus: vec![vcpu; vcpus],
            tasks: vec![],
        }
    }

    #[test]
    fn who_asks_little_gets_it_and_the_rest_follow_weights() {
        // Two pCPUs. The first asks for 20 % and gets that; 180 % are left for weights 1 and 2:
        // 60 and 120. The second asks for more than 60, the third (2 vCPUs) for more than 120.
        let mut domains =
            [domain(1, 1, 100, 100), domain(1, 1, 600, 400), domain(2, 2, 1_200, 800)];
        let fairness = entitle(&mut domains, &[100.0, 100.0, 200.0], 2);
        let entitlements = domains.each_ref().map(|domain| domain.entitlement_percent.round());
        assert_eq!(entitlements, [20.0, 60.0, 120.0]);
        // Shares over entitlements are 0.5, 1, 1: (2.5)^2 / (3 x 2.25).
        assert!((fairness - 6.25 / 6.75).abs() < 1e-9);
    }

    #[test]
    fn limits_hold() {
        let mut domains = [domain(1, 1, 250, 750), domain(1, 1, 750, 250)];
        entitle(&mut domains, &[25.0, 100.0], 1);
        assert_eq!(domains[0].entitlement_percent, 25.0);
        assert_eq!(domains[1].entitlement_percent, 75.0);
        assert_eq!(jain([1.0, 0.0].into_iter()), 0.5);
        assert_eq!(jain(std::iter::empty()), 1.0);
    }
}
