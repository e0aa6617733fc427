// SPDX-License-Identifier: GPL-2.0-only
//! A running host as a scenario, from what `steelyard describe` wrote of it.

use std::fmt::Write as _;

use steelyard_boundary::text::told;
use steelyard_simulator::units::CpuSet;

use crate::diagnostic::{Diagnostic, Source};
use crate::host::{DescribedDomain, HostDescription, Machine};
use crate::import::pins::Pins;
use crate::import::{MAX_CORES, VirtualMachine, comment, libvirt, quoted};
use crate::known::less_than_all;

/// The text of a scenario with those virtual machines that run.
pub(crate) fn scenario(file: &str, host: &HostDescription) -> Result<String, Diagnostic> {
    let Machine { name, system, pcpus, sockets, cores_per_socket, threads_per_core, .. } =
        &host.host;
    let mut machines = vec![];
    let mut idle = vec![];
    for domain in &host.domain {
        match domain.id {
            Some(_) => machines.push(machine(host, domain)),
            None => idle.push(comment(&domain.name)),
        }
    }
    if machines.is_empty() {
        let message = "no virtual machine ran on this host when it was described";
        return Err(Diagnostic::of_file(file, message));
    }
    let vms = machines.len();
    let mut text = format!(
        "# From {}: {vms} virtual machine{} of the host {}, {}.\n",
        comment(file),
        if vms == 1 { "" } else { "s" },
        comment(name),
        comment(system)
    );
    if !idle.is_empty() {
        let _ = writeln!(text, "# Left out, since they do not run: {}.", idle.join(", "));
    }
    let runs = host.running();
    let others = host.thread.iter().filter(|thread| !runs.contains_key(&thread.process())).count();
    if others > 0 {
        let _ = writeln!(
            text,
            "# Left out: what else runs there, {others} processes of which is told."
        );
    }
    let _ = write!(text, "name = {}\nlength = \"10 s\"\n\n[host]\n", quoted(name));
    let online = pcpus.iter().last().map_or(1, |last| last + 1);
    let told = sockets.saturating_mul(*cores_per_socket).saturating_mul(*threads_per_core);
    let (sockets, cores, threads) = match told == online {
        true => (*sockets, *cores_per_socket, *threads_per_core),
        false => (online.div_ceil(MAX_CORES), online.div_ceil(online.div_ceil(MAX_CORES)), 1),
    };
    for (key, number, usual) in
        [("sockets", sockets, 1), ("cores_per_socket", cores, 0), ("threads_per_core", threads, 1)]
    {
        if number != usual {
            let _ = writeln!(text, "{key} = {number}");
        }
    }
    let least = super::LeastHost { pcpus: sockets * cores * threads, nodes: 0 };
    for machine in machines {
        machine.write(&least, &mut text);
    }
    Ok(text)
}

/// What is known of it now comes before what libvirt was told.
fn machine(host: &HostDescription, domain: &DescribedDomain) -> VirtualMachine {
    let described = domain.xml.as_ref().and_then(|xml| libvirt::parse(&Source::new("", xml)).ok());
    let mut machine = VirtualMachine {
        name: domain.name.clone(),
        vcpus: domain.vcpus,
        pin_soft: pins(host, &domain.pin_soft),
        ..VirtualMachine::new(&domain.name, domain.vcpus)
    };
    match described {
        Some(described) => machine.left_out = described.left_out,
        None if domain.xml.is_some() => {
            machine.left_out.push("what libvirt says of it: it cannot be read".to_owned());
        }
        None => {}
    }
    machine.weight = domain.weight.unwrap_or(machine.weight);
    machine.cap_percent = domain.cap_percent.unwrap_or(0).min(100 * domain.vcpus);
    if machine.cap_percent == 100 * domain.vcpus {
        machine.cap_percent = 0;
    }
    machine.pin = pins(host, &domain.pin);
    machine.ungrouped = domain.ungrouped;
    let threads = host.thread.iter().filter(|thread| Some(thread.process()) == domain.id);
    let held = threads.filter(|thread| thread.is_urgent() || thread.nice != 0);
    let held = held.map(|thread| match &thread.policy {
        Some(policy) => format!("{} is {}", told(&thread.name), told(policy)),
        None => format!("{} has niceness {}", told(&thread.name), thread.nice),
    });
    let held: Vec<String> = held.take(8).collect();
    if !held.is_empty() {
        machine.left_out.push(format!("how urgent its threads are: {}", held.join(", ")));
    }
    machine
}

fn pins(host: &HostDescription, pins: &[CpuSet]) -> Vec<Option<Pins>> {
    let pcpus = host.host.pcpus.iter().last().map_or(1, |last| last + 1);
    let less = |pin: &CpuSet| less_than_all(pin, pcpus).then(|| pin.clone().into());
    pins.iter().map(less).collect()
}
