// SPDX-License-Identifier: GPL-2.0-only
//! Loads the scheduler, and takes it away again.

use std::fs;
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr;
use std::thread::sleep;
use std::time::Duration;

use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, OpenObject, PrintCallback, PrintLevel, set_print};
use steelyard_boundary::text::{harmless_lines, told};
use steelyard_policy::Policy;
use steelyard_policy::ffi::sy_wants_packets;
use steelyard_recording::Packets;

use crate::skeleton::scheduler::types::bss;
use crate::skeleton::scheduler::{SteelyardSkel, SteelyardSkelBuilder};
use crate::topology::{CPUS, Numbers, groups};
use crate::{KvmError, as_core, check, text};

/// The list of CPUs on which tasks can run.
const ONLINE: &str = "/sys/devices/system/cpu/online";
/// How often the loader looks whether it should end, or has been ended.
const LOOK: Duration = Duration::from_millis(100);

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Print what libbpf and the verifier say.
    pub verbose: bool,
    /// For tests of what happens then: tasks of this name are lost.
    #[cfg(feature = "faults")]
    pub lose: String,
}

/// A running scheduler. The kernel schedules by itself again when this is dropped, or its process
/// ends in whatever way.
pub struct Scheduler {
    skeleton: SteelyardSkel<'static>,
    _link: Link,
    /// If the policy asks for them.
    packets: Option<Packets>,
}

impl Scheduler {
    /// Makes this policy schedule the vCPUs of this host.
    ///
    /// # Errors
    /// Any [`KvmError`] but [`KvmError::Ejected`]; nothing is changed then.
    pub fn start(policy: &Policy, options: &Options) -> Result<Scheduler, KvmError> {
        let print: PrintCallback = if options.verbose { tell } else { |_, _| {} };
        set_print(Some((PrintLevel::Debug, print)));
        check::host()?;
        // Lives as long as the process: the skeleton borrows it, and is never loaded twice.
        let storage: &'static mut MaybeUninit<OpenObject> =
            Box::leak(Box::new(MaybeUninit::uninit()));
        let mut builder = SteelyardSkelBuilder::default();
        builder.obj_builder.debug(options.verbose);
        let mut open = builder.open(storage).map_err(|error| KvmError::Refused("open", error))?;
        let count = cpus()?;
        let numbers = number_pcpus(count);
        if options.verbose {
            let [core, cache, node, socket] = numbers.level_pcpus;
            eprintln!(
                "{} numbers of pCPUs; of a core {core}, a cache {cache}, a node {node}, a socket {socket}",
                numbers.cpus.len()
            );
        }
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            // SAFETY: both are `struct sy_policy`.
            constants.policy_constant = unsafe { *as_core(policy.parameters()) };
            constants.pcpus_count = numbers.cpus.len() as u32;
            constants.cpus_count = count;
            constants.level_pcpus = numbers.level_pcpus;
            for (pcpu, &cpu) in numbers.cpus.iter().enumerate() {
                let Some(cpu) = cpu else { continue };
                // Both are below the length of the tables.
                constants.pcpu_of_cpu[cpu as usize] = pcpu as u16;
                constants.cpu_of_pcpu[pcpu] = cpu as u16;
            }
            write_text(&mut constants.policy_name, &policy.to_string());
            #[cfg(feature = "faults")]
            write_text(&mut constants.lost_comm, &options.lose);
        }
        if let Some(tables) = open.maps.bss_data.as_deref_mut() {
            for (number, pcpu) in tables.pcpus.iter_mut().enumerate() {
                pcpu.offline = numbers.cpus.get(number).is_none_or(Option::is_none).into();
            }
        }
        let mut skeleton =
            open.load().map_err(|error| KvmError::Refused("load the program", error))?;
        if options.verbose {
            for program in ProgInfoIter::default() {
                let name = program.name.to_string_lossy();
                if name.starts_with("steelyard_") {
                    // The kernel gives up after a million.
                    eprintln!("{}: {} instructions verified", told(&*name), program.verified_insns);
                }
            }
        }
        let link = skeleton
            .maps
            .steelyard_ops
            .attach_struct_ops()
            .map_err(|error| KvmError::Refused("start the scheduler", error))?;
        let asked = sy_wants_packets(policy.parameters());
        Ok(Scheduler { skeleton, _link: link, packets: asked.then(Packets::default) })
    }

    /// Waits until `stop` says so.
    ///
    /// # Errors
    /// [`KvmError::Ejected`] if the kernel puts an end to it before that.
    pub fn wait(&mut self, stop: impl Fn() -> bool) -> Result<(), KvmError> {
        while !stop() {
            self.check()?;
            self.tell_packets();
            sleep(LOOK);
        }
        self.check()
    }

    /// Tells the program how many packets each domain has received.
    fn tell_packets(&mut self) {
        let (Some(packets), Some(state)) =
            (&mut self.packets, self.skeleton.maps.bss_data.as_deref_mut())
        else {
            return;
        };
        packets.begin();
        for domain in &mut state.domains {
            // SAFETY: both pointers are to fields of the map's memory. The kernel writes the first,
            // and the second only when it clears the slot for another process, which is told anew.
            unsafe {
                let pid = ptr::read_volatile(&raw const domain.pid);
                if pid != 0 {
                    ptr::write_volatile(&raw mut domain.samples.packets, packets.received(pid));
                }
            }
        }
    }

    fn check(&self) -> Result<(), KvmError> {
        let Some(state) = self.skeleton.maps.bss_data.as_deref() else { return Ok(()) };
        // SAFETY: the pointer is to a field of the map's memory, which the kernel changes.
        let kind = unsafe { ptr::read_volatile(&raw const state.exit_kind) };
        if kind == 0 {
            return Ok(());
        }
        Err(ejected(state, kind))
    }
}

/// What libbpf says; the verifier's words are among it, and of others the names of what they loaded.
fn tell(_: PrintLevel, words: String) {
    eprint!("{}", harmless_lines(&words));
}

fn ejected(state: &bss, kind: u32) -> KvmError {
    KvmError::Ejected { kind, reason: text(&state.exit_reason), message: text(&state.exit_message) }
}

/// Fills a string of the program, all but its last byte, which stays zero.
fn write_text(to: &mut [i8], from: &str) {
    let room = to.len() - 1;
    for (to, from) in to[..room].iter_mut().zip(from.bytes()) {
        *to = from as i8;
    }
}

/// Possible CPUs of this host; the kernel's numbers are below this.
fn cpus() -> Result<u32, KvmError> {
    let most = most_pcpus();
    let count = libbpf_rs::num_possible_cpus().unwrap_or(1);
    match u32::try_from(count) {
        Ok(count) if count as usize <= most => Ok(count),
        _ => Err(KvmError::TooManyPcpus(most)),
    }
}

/// Of those that are online.
fn number_pcpus(count: u32) -> Numbers {
    let online = fs::read_to_string(ONLINE).unwrap_or_else(|_| format!("0-{}", count - 1));
    let online: Vec<u32> = (0..count).filter(|&cpu| contains(&online, cpu as usize)).collect();
    Numbers::new(&online, |cpu| groups(Path::new(CPUS), cpu), most_pcpus())
}

fn most_pcpus() -> usize {
    length(|tables: &bss| &tables.pcpus)
}

fn length<T, const N: usize>(_table: impl Fn(&bss) -> &[T; N]) -> usize {
    N
}

/// Whether a list of CPUs as the kernel writes it, such as `0-3,8`, has this one.
fn contains(list: &str, cpu: usize) -> bool {
    list.trim().split(',').any(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.parse::<usize>(), last.parse::<usize>()) {
            (Ok(first), Ok(last)) => (first..=last).contains(&cpu),
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::contains;

    #[test]
    fn lists_of_cpus_are_read() {
        let there: Vec<_> = (0..12).filter(|&cpu| contains("0-2,5,8-9\n", cpu)).collect();
        assert_eq!(there, [0, 1, 2, 5, 8, 9]);
        assert!(!contains("", 0));
    }
}
