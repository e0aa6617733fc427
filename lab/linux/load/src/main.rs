// SPDX-License-Identifier: GPL-2.0-only
//! Carries out a plan inside the test machine: starts the scheduler and one process per domain,
//! measures, ends the scheduler, and prints what there was as JSON.

mod plan;
mod vm;
mod wire;

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use plan::{Domain, End, Plan};
use serde::Serialize;
use steelyard_kvm::{Observer, Threads};
use steelyard_policy::Policy;
use wire::{Client, RoundTrips};

const CGROUPS: &str = "/sys/fs/cgroup";
const STATE: &str = "/sys/kernel/sched_ext/state";
/// From when the domains are told until they begin; enough for each to make its threads.
const START_NS: u64 = 200_000_000;
/// Longest wait for the scheduler to begin or to end.
const PATIENCE: Duration = Duration::from_secs(180);

#[derive(Serialize)]
struct Report {
    kernel: String,
    policy: String,
    elapsed_ns: u64,
    domains: Vec<DomainReport>,
    /// What `steelyard kvm status --json` said at the end of the measurement.
    status: Option<serde_json::Value>,
    end: Option<EndReport>,
}

#[derive(Serialize)]
struct DomainReport {
    name: String,
    weight: u32,
    /// Of its lock, if it has one.
    acquisitions: Option<u32>,
    /// Of the packets to it, if there are any.
    round_trips: Option<wire::RoundTrips>,
    vcpus: Vec<Threads>,
}

/// How the scheduler ended, and that the vCPUs go on without it.
#[derive(Serialize)]
struct EndReport {
    exit: String,
    said: String,
    took_ms: u64,
    state: String,
    gotten_after_ns: Vec<u64>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let result = match &arguments[..] {
        [_, plan] => carry_out(plan),
        [_, vm, domain, are] if vm == "vm" => run_vm(domain, are),
        _ => Err("usage: load PLAN".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("load: {error}");
            ExitCode::FAILURE
        }
    }
}

/// In the process of a domain.
fn run_vm(domain: &str, are: &str) -> Result<(), Box<dyn Error>> {
    let domain: Domain = serde_json::from_str(domain)?;
    fs::write("/proc/self/comm", &domain.name)?;
    vm::run(&domain, serde_json::from_str(are)?, wait_for_start)
}

/// All vCPUs begin together, at the time on the monotonic clock that is returned: under a policy that
/// remembers who was served first, a head start would decide over all that follows.
fn wait_for_start() -> Result<u64, Box<dyn Error>> {
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(line.trim().parse()?)
}

fn carry_out(path: &str) -> Result<(), Box<dyn Error>> {
    let plan: Plan = serde_json::from_str(&fs::read_to_string(path)?)?;
    for domain in plan.domains.iter().filter(|domain| !domain.asked.is_empty()) {
        ask(domain)?;
    }
    let mut observer = Observer::attach()?;
    let mut scheduler = match plan.policy.as_str() {
        "stock" => None,
        policy => Some(start_scheduler(policy, &plan)?),
    };
    for group in &plan.groups {
        make_group(&group.name, group.weight, group.cap_percent)?;
        fs::write(format!("{CGROUPS}/{}/cgroup.subtree_control", group.name), "+cpu")?;
    }
    let mut processes = vec![];
    for domain in &plan.domains {
        processes.push(start_domain(domain, &plan)?);
    }
    let start_ns = vm::now_ns(libc::CLOCK_MONOTONIC) + START_NS;
    for process in &mut processes {
        if let Some(mut stdin) = process.stdin.take() {
            stdin.write_all(format!("{start_ns}\n").as_bytes())?;
        }
    }
    let mut clients = vec![];
    for (index, domain) in plan.domains.iter().enumerate() {
        clients.push(match domain.ping_interval_ns {
            0 => None,
            interval_ns => {
                Some(Client::start(&domain.name, index, interval_ns, start_ns + domain.start_ns)?)
            }
        });
    }
    vm::sleep_until(start_ns)?;
    sleep(Duration::from_millis(plan.warm_up_ms));
    let acquisitions = || -> std::io::Result<Vec<u32>> {
        let locks = plan.domains.iter().filter(|domain| domain.hold_ns > 0);
        locks.map(vm::acquisitions).collect()
    };
    let before = acquisitions()?;
    let round_trips = || clients.iter().map(|client| client.as_ref().map(Client::take)).collect();
    let _: Vec<Option<RoundTrips>> = round_trips();
    observer.begin();
    let mut passed_ms = 0;
    for change in &plan.meanwhile {
        sleep(Duration::from_millis(change.at_ms.saturating_sub(passed_ms)));
        passed_ms = change.at_ms;
        fs::write(&change.file, &change.text)
            .map_err(|error| format!("{}: {error}", change.file))?;
    }
    sleep(Duration::from_millis(plan.length_ms.saturating_sub(passed_ms)));
    let (elapsed_ns, threads) = observer.end();
    let round_trips: Vec<Option<RoundTrips>> = round_trips();
    let mut acquired = acquisitions()?.into_iter().zip(before).map(|(now, before)| now - before);
    for (domain, process) in plan.domains.iter().zip(&mut processes) {
        if let Some(status) = process.try_wait()? {
            return Err(format!("domain {} ended: {status}", domain.name).into());
        }
    }
    let status = match &mut scheduler {
        Some(scheduler) => match scheduler.try_wait()? {
            Some(status) => return Err(format!("the scheduler ended: {status}").into()),
            None => Some(status()?),
        },
        None => None,
    };
    let of_domains = plan.domains.iter().zip(&processes).zip(round_trips);
    let domains = of_domains.map(|((domain, process), round_trips)| {
        let own = |thread: &&Threads| thread.process.unsigned_abs() == process.id();
        let mut vcpus: Vec<_> = threads.iter().filter(own).cloned().collect();
        vcpus.sort_by_key(|thread| thread.tid);
        let acquisitions = if domain.hold_ns > 0 { acquired.next() } else { None };
        DomainReport {
            name: domain.name.clone(),
            weight: domain.weight,
            acquisitions,
            round_trips,
            vcpus,
        }
    });
    let mut report = Report {
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
        policy: plan.policy.clone(),
        elapsed_ns,
        domains: domains.collect(),
        status,
        end: None,
    };
    if let Some(scheduler) = scheduler {
        report.end = Some(end_scheduler(scheduler, plan.end, &processes)?);
    }
    for mut process in processes {
        process.kill()?;
        process.wait()?;
    }
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}

fn ask(domain: &Domain) -> Result<(), Box<dyn Error>> {
    let mut command = Command::new("steelyard");
    let status = command.args(["kvm", "set", &domain.name]).args(&domain.asked).status()?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("steelyard kvm set {}: {status}", domain.name).into()),
    }
}

fn start_scheduler(policy: &str, plan: &Plan) -> Result<Child, Box<dyn Error>> {
    let mut command = Command::new("steelyard");
    command.args(["kvm", "run", "--policy", policy]);
    let discipline = Policy::named(policy)?.discipline().name;
    for (name, value) in &plan.parameters {
        let key = if name.contains('.') { name.clone() } else { format!("{discipline}.{name}") };
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        command.args(["--set", &format!("{key}={value}")]);
    }
    if plan.end == End::Stalled {
        command.args(["--lose", "stalled"]);
    }
    let mut scheduler = command.stderr(Stdio::piped()).spawn()?;
    let begin = Instant::now();
    while fs::read_to_string(STATE)?.trim() != "enabled" {
        if let Some(status) = scheduler.try_wait()? {
            return Err(format!("the scheduler ended: {status}: {}", said(&mut scheduler)).into());
        }
        if begin.elapsed() > PATIENCE {
            return Err("the scheduler does not begin".into());
        }
        sleep(Duration::from_millis(20));
    }
    Ok(scheduler)
}

fn said(scheduler: &mut Child) -> String {
    let mut said = String::new();
    if let Some(stderr) = &mut scheduler.stderr {
        // What cannot be read was not said.
        let _ = BufReader::new(stderr).read_to_string(&mut said);
    }
    said.trim().to_owned()
}

/// Its directory.
fn make_group(name: &str, weight: u32, cap_percent: u32) -> Result<String, Box<dyn Error>> {
    const PERIOD_US: u32 = 100_000;
    let group = format!("{CGROUPS}/{name}");
    fs::create_dir(&group)?;
    fs::write(format!("{group}/cpu.weight"), (weight * 100 / 256).max(1).to_string())?;
    if cap_percent > 0 {
        let quota_us = PERIOD_US / 100 * cap_percent;
        fs::write(format!("{group}/cpu.max"), format!("{quota_us} {PERIOD_US}"))?;
    }
    Ok(group)
}

fn start_domain(domain: &Domain, plan: &Plan) -> Result<Child, Box<dyn Error>> {
    let group = make_group(
        &format!("{}/{}", domain.within, domain.name),
        domain.weight,
        domain.cap_percent,
    )?;
    let are = domain.vcpus_are.unwrap_or(plan.vcpus_are);
    let mut process = Command::new(std::env::current_exe()?)
        .args(["vm", &serde_json::to_string(domain)?, &serde_json::to_string(&are)?])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    fs::write(format!("{group}/cgroup.procs"), process.id().to_string())?;
    if let Some(stdout) = &mut process.stdout {
        BufReader::new(stdout).read_line(&mut String::new())?;
    }
    Ok(process)
}

fn status() -> Result<serde_json::Value, Box<dyn Error>> {
    let output = Command::new("steelyard").args(["kvm", "status", "--json"]).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn end_scheduler(
    mut scheduler: Child,
    end: End,
    processes: &[Child],
) -> Result<EndReport, Box<dyn Error>> {
    let begin = Instant::now();
    let mut lost = match end {
        End::Interrupted => signal(&scheduler, libc::SIGINT).map(|()| None)?,
        End::Killed => signal(&scheduler, libc::SIGKILL).map(|()| None)?,
        End::Stalled => Some(start_lost()?),
    };
    let exit = wait_for(&mut scheduler)?;
    while fs::read_to_string(STATE)?.trim() != "disabled" && begin.elapsed() < PATIENCE {
        sleep(Duration::from_millis(10));
    }
    let took_ms = begin.elapsed().as_millis() as u64;
    if let Some(lost) = &mut lost {
        lost.kill()?;
        lost.wait()?;
    }
    let before: Vec<_> = processes.iter().map(gotten_ns).collect();
    sleep(Duration::from_secs(1));
    let gotten_after_ns =
        processes.iter().zip(before).map(|(process, before)| gotten_ns(process) - before).collect();
    Ok(EndReport {
        exit: exit.to_string(),
        said: said(&mut scheduler),
        took_ms,
        state: fs::read_to_string(STATE)?.trim().to_owned(),
        gotten_after_ns,
    })
}

fn signal(process: &Child, signal: i32) -> std::io::Result<()> {
    // SAFETY: kill has no memory to harm; the child was not waited for, so the number is its own.
    match unsafe { libc::kill(process.id() as i32, signal) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn wait_for(process: &mut Child) -> Result<ExitStatus, Box<dyn Error>> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if let Some(status) = process.try_wait()? {
            return Ok(status);
        }
        sleep(Duration::from_millis(10));
    }
    Err("the scheduler does not end".into())
}

/// A process whose name the scheduler was told to lose: it takes that name and never runs again.
fn start_lost() -> std::io::Result<Child> {
    Command::new("sh").args(["-c", "printf stalled > /proc/self/comm; while :; do :; done"]).spawn()
}

/// CPU time of all threads of a process.
fn gotten_ns(process: &Child) -> u64 {
    let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", process.id())) else { return 0 };
    let time_ns = |path: std::path::PathBuf| -> Option<u64> {
        let text = fs::read(path.join("schedstat")).ok()?;
        let line = text.lines().next()?.ok()?;
        line.split(' ').next()?.parse().ok()
    };
    tasks.flatten().filter_map(|task| time_ns(task.path())).sum()
}
