// SPDX-License-Identifier: GPL-2.0-only
//! Goals, and the file that a search is kept in: what is accepted reads the same when it is written, and is measured
//! without harm.

use std::sync::LazyLock;

use steelyard_advise::Toolstack;
use steelyard_goal::{Direction, Goal, Keep};
use steelyard_policy::Policy;
use steelyard_simulator::Simulation;
use steelyard_simulator::config::{Domain, Host, HostTasks, Setup};
use steelyard_simulator::measure::Run;
use steelyard_simulator::workload::{Busy, Ping};
use steelyard_tune::{Header, Question, State};

/// A host whose domains have names that look like something else, before it began and after a while.
static HOSTS: LazyLock<[Run; 2]> = LazyLock::new(|| {
    let mut simulation = Simulation::new(&setup(), &policy(), 1).expect("a setup that can be");
    let before = simulation.measure();
    simulation.run_until(50_000_000);
    [before, simulation.measure()]
});

fn setup() -> Setup {
    let domains = ["web", "a: b", "host", "al*", "\u{e9}"].map(|name| {
        let domain = Domain::new(name, 1).with_task(1, Busy::default());
        let host_tasks = (name == "host").then_some(HostTasks { priority: 120, kernel: false });
        let domain = Domain { host_tasks, ..domain };
        if name == "web" { domain.with_task(1, Ping::default()) } else { domain }
    });
    Setup { host: Host::with_pcpus(2), domains: domains.into() }
}

fn policy() -> Policy {
    Policy::named("credit").expect("a policy")
}

/// Any text, as a goal and as something to keep.
pub fn goal(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let [before, after] = &*HOSTS;
    let domains = setup().domains;
    let host = steelyard_goal::Host { domains: &domains, run: before };
    for direction in [Direction::Minimise, Direction::Maximise] {
        match Goal::parse(direction, text, &host) {
            Ok(goal) => {
                let again = Goal::parse(direction, &goal.figure.to_string(), &host);
                assert_eq!(again.as_ref(), Ok(&goal), "{text}");
                let value = goal.value(after);
                assert!(value.is_none_or(f64::is_finite), "{text}: {value:?}");
            }
            Err(error) => assert!(!error.to_string().contains('\x1b')),
        }
    }
    match Keep::parse(text, &host) {
        Ok(keep) => {
            assert_eq!(Keep::parse(&keep.to_string(), &host).as_ref(), Ok(&keep), "{text}");
            for run in [before, after] {
                let value = keep.value(run, after);
                let shortfall = value.map(|value| keep.shortfall(value));
                assert!(
                    shortfall.is_none_or(|it| it.is_finite() && it >= 0.0),
                    "{text}: {value:?}"
                );
            }
        }
        Err(error) => assert!(!error.to_string().contains('\x1b')),
    }
}

/// Any bytes as the file of a search, and as what follows the first line of this one.
pub fn search(bytes: &[u8]) {
    let (setup, policy) = (setup(), policy());
    let host = steelyard_goal::Host { domains: &setup.domains, run: &HOSTS[0] };
    let goals = [Goal::parse(Direction::Minimise, "web: wait p99", &host).expect("a goal")];
    let question = Question {
        setup: &setup,
        policy: &policy,
        label: "",
        input: "",
        toolstack: Toolstack::Xl,
        goals: &goals,
        keeps: &[],
        vary: &[],
        policies: &[],
        settings: 1,
        seed: 1,
        errors: None,
    };
    let header = Header::new(&question, 1, 1);
    let mut own = vec![];
    State::default().write(&header, &mut own).expect("memory can be written");
    own.extend(bytes);
    for mut bytes in [bytes, &own] {
        match State::read("search.jsonl", &mut bytes, &header) {
            Ok(state) => {
                let mut written = vec![];
                state.write(&header, &mut written).expect("memory can be written");
                let again = State::read("again", &mut &written[..], &header);
                assert_eq!(again.as_ref(), Ok(&state));
            }
            Err(error) => assert!(!error.to_string().contains('\x1b')),
        }
    }
}
