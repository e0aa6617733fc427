// SPDX-License-Identifier: GPL-2.0-only
//! Where vCPUs may run, as descriptions of virtual machines say it: numbers and ranges of pCPUs, `all`, NUMA
//! nodes, and what is left out of these. What it comes to depends on the host, which no description tells.

use steelyard_simulator::limits;
use steelyard_simulator::units::{CpuSet, MAX_PCPU};

/// Nodes are numbered up to this.
const MAX_NODE: u32 = limits::SOCKETS.most as u32 - 1;
const HELP: &str = "write numbers and ranges of pCPUs, `all`, `node:N` or `nodes:N-M`, each with `^` to leave it out, such as \"all,^1\"";

/// What is added or, with `without`, left out, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pins(Vec<Item>);

#[derive(Clone, Debug, PartialEq)]
struct Item {
    without: bool,
    what: What,
}

#[derive(Clone, Debug, PartialEq)]
enum What {
    All,
    /// From and to.
    Pcpus(u32, u32),
    Nodes(u32, u32),
}

impl Pins {
    /// What a text says, or what is wrong with it.
    pub fn parse(text: &str) -> Result<Pins, String> {
        let wrong = || format!("`{text}` is no set of pCPUs: {HELP}");
        let items = text.split(',').map(|item| {
            let item = item.trim();
            let (without, item) = match item.strip_prefix('^') {
                Some(item) => (true, item.trim()),
                None => (false, item),
            };
            let range = |text: &str, most: u32| {
                let (first, last) = text.split_once('-').unwrap_or((text, text));
                let number = |text: &str| text.trim().parse().ok().filter(|&it: &u32| it <= most);
                number(first).zip(number(last)).filter(|(first, last)| first <= last)
            };
            let nodes = item.strip_prefix("nodes:").or_else(|| item.strip_prefix("node:"));
            let what = match (item, nodes) {
                ("all", _) => Some(What::All),
                (_, Some(nodes)) => {
                    range(nodes, MAX_NODE).map(|(first, last)| What::Nodes(first, last))
                }
                (_, None) => range(item, MAX_PCPU).map(|(first, last)| What::Pcpus(first, last)),
            };
            Ok(Item { without, what: what.ok_or_else(wrong)? })
        });
        let items: Vec<Item> = items.collect::<Result<_, String>>()?;
        if items.iter().all(|item| item.without) {
            return Err(format!(
                "`{text}` leaves out of nothing: begin with `all`, such as \"all,{text}\""
            ));
        }
        let pins = Pins(items);
        if pins.least_nodes() == 0 && pins.on(MAX_PCPU + 1, 1).is_none() {
            return Err(format!("`{text}` leaves no pCPU"));
        }
        Ok(pins)
    }

    /// Whether it says no more than that all will do.
    pub fn is_all(&self) -> bool {
        self.0.iter().all(|item| !item.without) && self.0.iter().any(|it| it.what == What::All)
    }

    /// pCPUs that a host must have for it.
    pub fn least_pcpus(&self) -> u32 {
        let last = |item: &Item| match item.what {
            What::Pcpus(_, last) => last + 1 + u32::from(item.without),
            What::All | What::Nodes(..) => 1,
        };
        self.0.iter().map(last).max().unwrap_or(1).min(MAX_PCPU + 1)
    }

    /// NUMA nodes that a host must have for it; 0: it names none.
    pub fn least_nodes(&self) -> u32 {
        let last = |item: &Item| match item.what {
            What::Nodes(_, last) => last + 1 + u32::from(item.without),
            What::All | What::Pcpus(..) => 0,
        };
        self.0.iter().map(last).max().unwrap_or(0).min(MAX_NODE + 1)
    }

    /// The pCPUs, on a host of so many in nodes of so many each; none if nothing is left.
    pub fn on(&self, pcpus: u32, pcpus_per_node: u32) -> Option<CpuSet> {
        let mut may = vec![false; pcpus as usize];
        for Item { without, what } in &self.0 {
            let (first, end) = match *what {
                What::All => (0, pcpus),
                What::Pcpus(first, last) => (first, last + 1),
                What::Nodes(first, last) => (first * pcpus_per_node, (last + 1) * pcpus_per_node),
            };
            may[first.min(pcpus) as usize..end.min(pcpus) as usize].fill(!without);
        }
        let some = may.contains(&true);
        some.then(|| (0..pcpus).filter(|&pcpu| may[pcpu as usize]).collect())
    }
}

impl From<CpuSet> for Pins {
    fn from(set: CpuSet) -> Pins {
        let one = |pcpu| Item { without: false, what: What::Pcpus(pcpu, pcpu) };
        Pins(set.iter().map(one).collect())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_what_they_say_on_a_host() {
        // Eight pCPUs, four to a node.
        for (text, expected) in [
            ("0-3,^1", "0,2-3"),
            ("all,^1", "0,2-7"),
            ("all", "0-7"),
            ("node:1", "4-7"),
            ("nodes:0-1,^node:0", "4-7"),
            ("all,^nodes:1", "0-3"),
            (" 2 , node:1,^5", "2,4,6-7"),
            ("^1,0-3", "0-3"),
        ] {
            let set = Pins::parse(text).unwrap().on(8, 4).unwrap();
            assert_eq!(set.to_string(), expected, "{text}");
        }
        assert_eq!(Pins::parse("0,^node:0").unwrap().on(4, 2), None);
        let pins = Pins::parse("all,^3,^node:1").unwrap();
        // Beside what is left out there is another.
        assert_eq!((pins.least_pcpus(), pins.least_nodes()), (5, 3));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for text in [
            "",
            "x",
            "3-1",
            "node:",
            "nodes:2-x",
            "4096",
            "node:64",
            "all,,1",
            "1-2-3",
            "^",
            "node",
        ] {
            assert!(Pins::parse(text).unwrap_err().contains("`all`"), "{text}");
        }
        assert!(Pins::parse("^1").unwrap_err().contains("all,^1"));
        assert!(Pins::parse("0,^0").unwrap_err().contains("no pCPU"));
    }
}
