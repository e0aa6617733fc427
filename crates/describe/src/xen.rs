// SPDX-License-Identifier: GPL-2.0-only
//! A Xen host, by what `xl` prints in its dom0.

use std::collections::BTreeMap;

use steelyard_apply::run;
use steelyard_boundary::text::LONGEST;
use steelyard_scenario::{DescribedDomain, HostDescription, Machine};
use steelyard_simulator::limits;
use steelyard_simulator::units::CpuSet;

use crate::{DescribeError, Described, Places, line};

/// As `xl` says that a vCPU may run anywhere.
const ALL: &str = "all";

pub fn describe(places: &Places) -> Result<Described, DescribeError> {
    let info = run("xl", &["info"], "")?;
    let fact = |key: &str| {
        let mut lines = info.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
    };
    let number = |key: &str| fact(key).and_then(|value| value.parse::<u32>().ok());
    let count =
        number("nr_cpus").filter(|&count| count > 0 && u64::from(count) <= limits::PCPUS.most);
    let count = count.ok_or(DescribeError::Unclear("xl info"))?;
    let pcpus: CpuSet = (0..count).collect();
    let threads = number("threads_per_core").unwrap_or(1).max(1);
    let cores = number("cores_per_socket").unwrap_or(count).max(1);
    let sockets = count / (threads * cores).max(1);
    let [sockets, cores_per_socket, threads_per_core] =
        if sockets * threads * cores == count { [sockets, cores, threads] } else { [1, count, 1] };
    let scheduler = fact("xen_scheduler");
    // Steelyard's calls itself credit2, whatever its policy is. Other hypervisors have no such text.
    let policy = run("xenhypfs", &["cat", "/steelyard/policy"], "").ok();
    let policy = policy.as_deref().map(str::trim).filter(|policy| !policy.is_empty());
    let mut host = HostDescription::new(Machine {
        name: fact("host").map_or_else(
            || line(places.proc.join("sys/kernel/hostname")).unwrap_or_default(),
            str::to_owned,
        ),
        system: format!("Xen {}", fact("xen_version").unwrap_or_default()),
        scheduler: policy.or(scheduler).map(str::to_owned),
        pcpus: pcpus.clone(),
        sockets,
        cores_per_socket,
        threads_per_core,
    });
    let mut missing = vec![];
    let figures = match scheduler {
        Some("credit2") => figures(&run("xl", &["sched-credit2"], "")?),
        Some("credit") => figures(&run("xl", &["sched-credit"], "")?),
        _ => {
            missing.push(
                "Weights and caps: Xen's scheduler is neither credit2 nor credit.".to_owned(),
            );
            BTreeMap::new()
        }
    };
    let listed = run("xl", &["vcpu-list"], "")?;
    for domain in domains(&listed, &pcpus) {
        let (weight, cap) = figures.get(&domain.id.unwrap_or(0)).copied().unzip();
        host.domain.push(DescribedDomain { weight, cap_percent: cap, ..domain });
    }
    match host.domain.is_empty() {
        true => Err(DescribeError::Unclear("xl vcpu-list")),
        false => Ok(Described { host, missing }),
    }
}

/// Weight and cap of each domain, out of a table of name, number, weight and cap.
fn figures(text: &str) -> BTreeMap<u32, (u32, u32)> {
    let rows = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, id, weight, cap] = words.as_slice() else { return None };
        let weight =
            weight.parse().ok().filter(|&it: &u32| limits::WEIGHT.check(it.into()).is_ok())?;
        let cap =
            cap.parse().ok().filter(|&it: &u32| limits::CAP_PERCENT.check(it.into()).is_ok())?;
        Some((id.parse().ok()?, (weight, cap)))
    });
    rows.collect()
}

/// Each domain with its vCPUs and where they may run: name, number, vCPU, pCPU, state, time, `hard / soft`.
fn domains(text: &str, pcpus: &CpuSet) -> Vec<DescribedDomain> {
    let mut domains: BTreeMap<u32, DescribedDomain> = BTreeMap::new();
    let set = |text: &str| match text.trim() {
        ALL => Some(pcpus.clone()),
        list => list.parse::<CpuSet>().ok(),
    };
    for line in text.lines() {
        let Some((before, soft)) = line.rsplit_once(" / ") else { continue };
        let words: Vec<&str> = before.split_whitespace().collect();
        let [name, id, _, .., hard] = words.as_slice() else { continue };
        let (Ok(id), Some(hard), Some(soft)) = (id.parse::<u32>(), set(hard), set(soft)) else {
            continue;
        };
        if name.chars().count() > LONGEST {
            continue;
        }
        let domain = domains.entry(id).or_insert_with(|| DescribedDomain {
            name: (*name).to_owned(),
            id: Some(id),
            ..DescribedDomain::default()
        });
        if u64::from(domain.vcpus) < limits::VCPUS.most {
            domain.vcpus += 1;
            domain.pin.push(hard);
            domain.pin_soft.push(soft);
        }
    }
    let mut domains: Vec<_> = domains.into_values().collect();
    for domain in &mut domains {
        for pins in [&mut domain.pin, &mut domain.pin_soft] {
            if pins.iter().all(|pin| pin == pcpus) {
                pins.clear();
            }
        }
    }
    domains
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read() {
        let text = "Cpupool Pool-0: sched=CREDIT2\nName                                ID Weight  Cap\n\
                    Domain-0                             0    256    0\nweb                                  3    512   50\n";
        assert_eq!(figures(text), [(0, (256, 0)), (3, (512, 50))].into());
        let text = "Name                                ID  VCPU   CPU State   Time(s) Affinity (Hard / Soft)\n\
                    Domain-0                             0     0    0   r--      10.1  all / all\n\
                    web                                  3     0    1   -b-       1.0  0-1 / all\n\
                    web                                  3     1    -   --p       1.0  all / 0\n";
        let domains = domains(text, &(0..4).collect());
        assert_eq!((domains[0].vcpus, domains[0].pin.len()), (1, 0));
        assert_eq!((domains[1].name.as_str(), domains[1].vcpus), ("web", 2));
        let shown = |pins: &[CpuSet]| pins.iter().map(CpuSet::to_string).collect::<Vec<_>>();
        assert_eq!(shown(&domains[1].pin), ["0-1", "0-3"]);
        assert_eq!(shown(&domains[1].pin_soft), ["0-3", "0"]);
    }
}
