// SPDX-License-Identifier: GPL-2.0-only
//! A virtual machine of one page of code: its vCPUs compute, and sleep when they have computed long
//! enough, by their threads' CPU clocks.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use std::{ptr, thread};

use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd};

use crate::plan::{Domain, VcpusAre};
use crate::wire::Card;

const MEMORY_BYTES: usize = 0x10000;
const CODE_AT: u64 = 0x1000;
/// Rounds of 16 us, where an instruction takes 2 ns, each with a pause at its end: there QEMU lets the next
/// of its emulated processors run, so that all of them are equally fast. In 16-bit mode.
const COMPUTE: [u8; 10] = [
    0xbb, 0xa0, 0x0f, // mov bx, 4000
    0x4b, // dec bx
    0x75, 0xfd, // jnz -3
    0xf3, 0x90, // pause
    0xeb, 0xf6, // jmp -10
];
/// As many rounds as the VMM has put into ecx, after which it asks whether it has computed long enough.
const COMPUTE_AND_ASK: [u8; 16] = [
    0xbb, 0xa0, 0x0f, // mov bx, 4000
    0x4b, // dec bx
    0x75, 0xfd, // jnz -3
    0xf3, 0x90, // pause
    0x66, 0x49, // dec ecx
    0x75, 0xf4, // jnz -12
    0xe6, 0x10, // out 0x10, al
    0xeb, 0xf0, // jmp -16
];

/// Asks after each round in which packets have come to be answered: the first byte at [`PACKETS_AT`] says so.
const COMPUTE_AND_ANSWER: [u8; 19] = [
    0xbb, 0xa0, 0x0f, // mov bx, 4000
    0x4b, // dec bx
    0x75, 0xfd, // jnz -3
    0xf3, 0x90, // pause
    0x80, 0x3e, 0x00, 0x30, 0x00, // cmp byte [0x3000], 0
    0x74, 0xf1, // je -15
    0xe6, 0x10, // out 0x10, al
    0xeb, 0xed, // jmp -19
];
const PACKETS_AT: usize = 0x3000;

/// Takes a ticket lock for some rounds after some rounds of computing, for ever; pauses only while it spins. The lock and
/// how many rounds each takes are at [`LOCK_AT`].
const CONTEND: [u8; 56] = [
    0x8b, 0x36, 0x08, 0x30, // mov si, [0x3008]
    0xbb, 0xa0, 0x0f, // mov bx, 4000
    0x4b, // dec bx
    0x75, 0xfd, // jnz -3
    0x4e, // dec si
    0x75, 0xf7, // jnz -9
    0xb8, 0x01, 0x00, // mov ax, 1
    0xf0, 0x0f, 0xc1, 0x06, 0x00, 0x30, // lock xadd [0x3000], ax
    0x3b, 0x06, 0x02, 0x30, // cmp ax, [0x3002]
    0x74, 0x04, // je +4
    0xf3, 0x90, // pause
    0xeb, 0xf6, // jmp -10
    0x8b, 0x36, 0x0a, 0x30, // mov si, [0x300a]
    0xbb, 0xa0, 0x0f, // mov bx, 4000
    0x4b, // dec bx
    0x75, 0xfd, // jnz -3
    0x4e, // dec si
    0x75, 0xf7, // jnz -9
    0x66, 0xff, 0x06, 0x04, 0x30, // inc dword [0x3004]
    0xff, 0x06, 0x02, 0x30, // inc word [0x3002]
    0xeb, 0xc8, // jmp -56
];
const PAUSE: [u8; 2] = [0xf3, 0x90];
const NOTHING: [u8; 2] = [0x90, 0x90];
/// 16 bits each but for the third, of 32: the next ticket, whose turn it is, how often it was taken, rounds of computing,
/// rounds of holding.
const LOCK_AT: usize = 0x3000;
const ACQUISITIONS_AT: u64 = LOCK_AT as u64 + 4;
/// A round of any of these, on a processor that has the emulator to itself.
const ROUND_NS: u64 = 16_000;

/// `start` is called when the machine is made, and says at which time its vCPUs begin.
pub fn run(
    domain: &Domain,
    are: VcpusAre,
    start: impl FnOnce() -> Result<u64, Box<dyn std::error::Error>>,
) -> Result<(), Box<dyn std::error::Error>> {
    let vm = match are {
        VcpusAre::Kvm => Some(create(domain)?),
        VcpusAre::Threads => None,
    };
    let card = match &vm {
        Some(vm) if domain.ping_interval_ns > 0 => Some(Card::insert(&domain.name, vm.memory)?),
        _ => None,
    };
    // SAFETY: it has no memory to harm.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, domain.niceness) } != 0 {
        return Err(io::Error::last_os_error().into());
    }
    // A thread that sleeps asks often whether it should; as for COMPUTE, none computes long without a pause.
    let rounds = if domain.sleep_ns > 0 { 500 } else { 2_000 };
    let start_ns = start()?;
    let mut vcpus = vm.map(|vm| vm.vcpus).unwrap_or_default().into_iter();
    let mut threads = vec![];
    for index in 0..domain.vcpus {
        let vcpu = vcpus.next();
        let mut pace = Pace::new(domain, index);
        let pin = domain.pin.clone();
        let exits = domain.exits;
        let card = card.clone();
        let begin_ns = start_ns + domain.start_ns;
        threads.push(thread::spawn(move || -> io::Result<()> {
            become_vcpu(index, &pin)?;
            sleep_until(begin_ns)?;
            match vcpu {
                Some(mut vcpu) => loop {
                    match vcpu.run() {
                        Ok(VcpuExit::IoOut(..)) => {
                            if let Some(card) = &card {
                                card.answer()?;
                            }
                            pace.sleep_if_due();
                            if exits {
                                std::hint::spin_loop();
                            }
                            let mut registers = vcpu.get_regs()?;
                            registers.rcx = pace.rounds();
                            vcpu.set_regs(&registers)?;
                        }
                        Ok(exit) => return Err(io::Error::other(format!("{exit:?}"))),
                        Err(error) if [libc::EINTR, libc::EAGAIN].contains(&error.errno()) => {}
                        Err(error) => return Err(error.into()),
                    }
                },
                None => loop {
                    for count in 0..rounds {
                        std::hint::black_box(count);
                    }
                    std::hint::spin_loop();
                    pace.sleep_if_due();
                },
            }
        }));
    }
    for thread in threads {
        thread.join().map_err(|_| "a vCPU's thread panicked")??;
    }
    Ok(())
}

/// The thread gets the name that QEMU would give it, and its CPUs.
fn become_vcpu(index: u32, pin: &[usize]) -> io::Result<()> {
    let name = format!("CPU {index}/KVM\0");
    // SAFETY: the name ends with a zero; the set is ours and of the size that is told.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
        if !pin.is_empty() {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            for &cpu in pin {
                libc::CPU_SET(cpu, &mut set);
            }
            if libc::sched_setaffinity(0, size_of_val(&set), &raw const set) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    Ok(())
}

/// The file that is its memory.
fn memory_of(domain: &str) -> String {
    format!("/tmp/memory-of-{domain}")
}

/// How often its lock was taken.
pub fn acquisitions(domain: &Domain) -> io::Result<u32> {
    let mut bytes = [0; 4];
    File::open(memory_of(&domain.name))?.read_exact_at(&mut bytes, ACQUISITIONS_AT)?;
    Ok(u32::from_le_bytes(bytes))
}

struct Vm {
    vcpus: Vec<VcpuFd>,
    memory: Memory,
}

/// Where its memory begins; as large as [`MEMORY_BYTES`], and there until the process ends.
#[derive(Clone, Copy)]
pub struct Memory(*mut u8);

// SAFETY: threads only do what `tell_of_packets` does there, and the guest.
unsafe impl Send for Memory {}
// SAFETY: the same.
unsafe impl Sync for Memory {}

impl Memory {
    /// Whether there are packets for the guest to answer.
    pub fn tell_of_packets(self, there_are: bool) {
        // SAFETY: within the memory, and nothing but the guest and this touches the byte.
        let told = unsafe { AtomicU8::from_ptr(self.0.add(PACKETS_AT)) };
        told.store(there_are.into(), Ordering::Release);
    }
}

fn create(domain: &Domain) -> Result<Vm, Box<dyn std::error::Error>> {
    let kvm = Kvm::new()?;
    let vm = kvm.create_vm()?;
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(memory_of(&domain.name))?;
    file.set_len(MEMORY_BYTES as u64)?;
    // SAFETY: a fresh mapping of a file of that size, large enough for what is copied into it, and never unmapped.
    let memory = unsafe {
        let memory = libc::mmap(
            ptr::null_mut(),
            MEMORY_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error().into());
        }
        let asks = domain.sleep_ns > 0 || domain.exits;
        let code: &[u8] = match domain {
            Domain { hold_ns: 1.., .. } => &CONTEND,
            Domain { ping_interval_ns: 1.., .. } => &COMPUTE_AND_ANSWER,
            _ if asks => &COMPUTE_AND_ASK,
            _ => &COMPUTE,
        };
        let mut code = code.to_vec();
        if domain.never_pauses {
            let at = code.windows(2).position(|two| two == PAUSE);
            at.into_iter().for_each(|at| code[at..at + 2].copy_from_slice(&NOTHING));
        }
        // The emulator runs one processor after another: of two each is half as fast.
        let round_ns = ROUND_NS * thread::available_parallelism()?.get() as u64;
        let rounds = |time_ns: u64| u16::try_from((time_ns / round_ns).max(1)).unwrap_or(u16::MAX);
        let lock = [0, 0, 0, 0, rounds(domain.compute_ns), rounds(domain.hold_ns)];
        let lock: Vec<u8> = lock.into_iter().flat_map(u16::to_le_bytes).collect();
        for (at, bytes) in [(CODE_AT as usize, code), (LOCK_AT, lock)] {
            ptr::copy_nonoverlapping(bytes.as_ptr(), memory.cast::<u8>().add(at), bytes.len());
        }
        vm.set_user_memory_region(kvm_userspace_memory_region {
            slot: 0,
            flags: 0,
            guest_phys_addr: 0,
            memory_size: MEMORY_BYTES as u64,
            userspace_addr: memory as u64,
        })?;
        Memory(memory.cast())
    };
    let mut vcpus = vec![];
    for index in 0..domain.vcpus {
        let vcpu = vm.create_vcpu(index.into())?;
        let mut segments = vcpu.get_sregs()?;
        segments.cs.base = 0;
        segments.cs.selector = 0;
        vcpu.set_sregs(&segments)?;
        let mut registers = vcpu.get_regs()?;
        registers.rip = CODE_AT;
        registers.rflags = 2;
        registers.rcx = 1;
        vcpu.set_regs(&registers)?;
        vcpus.push(vcpu);
    }
    Ok(Vm { vcpus, memory })
}

/// When a vCPU sleeps, and for how long.
struct Pace {
    compute_ns: u64,
    sleep_ns: u64,
    jitter_percent: u32,
    random: u64,
    sleep_at_ns: u64,
    /// The last answer of [`Pace::rounds`], and when it was given.
    rounds: u64,
    asked_ns: u64,
    round_ns: u64,
}

impl Pace {
    fn new(domain: &Domain, index: u32) -> Pace {
        // Any number that differs between vCPUs.
        let seed = domain.name.bytes().fold(u64::from(index) + 1, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut pace = Pace {
            compute_ns: domain.compute_ns,
            sleep_ns: domain.sleep_ns,
            jitter_percent: domain.jitter_percent.min(100),
            random: seed | 1,
            sleep_at_ns: 0,
            rounds: 0,
            asked_ns: 0,
            round_ns: ROUND_NS,
        };
        pace.sleep_at_ns = pace.draw(pace.compute_ns);
        pace
    }

    fn sleep_if_due(&mut self) {
        if self.sleep_ns == 0 || cpu_time_ns() < self.sleep_at_ns {
            return;
        }
        thread::sleep(Duration::from_nanos(self.draw(self.sleep_ns)));
        self.sleep_at_ns = cpu_time_ns() + self.draw(self.compute_ns);
    }

    /// After how many rounds of its loop the guest should ask again: most of what is left to compute,
    /// then the rest, by what a round took last time.
    fn rounds(&mut self) -> u64 {
        let now_ns = cpu_time_ns();
        if self.rounds >= 10 {
            self.round_ns = ((now_ns - self.asked_ns) / self.rounds).max(1);
        }
        let rounds = self.sleep_at_ns.saturating_sub(now_ns) / self.round_ns;
        self.rounds = (rounds - rounds / 16).clamp(1, u32::MAX.into());
        self.asked_ns = now_ns;
        self.rounds
    }

    /// The time with its jitter; xorshift64 by G. Marsaglia.
    fn draw(&mut self, time_ns: u64) -> u64 {
        let range_ns = time_ns * u64::from(self.jitter_percent) / 50;
        if range_ns == 0 {
            return time_ns;
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        time_ns - range_ns / 2 + self.random % range_ns
    }
}

/// CPU time of this thread.
fn cpu_time_ns() -> u64 {
    now_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// What a clock of the system says.
pub fn now_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps until a time on the monotonic clock.
pub fn sleep_until(time_ns: u64) -> io::Result<()> {
    let time = libc::timespec {
        tv_sec: (time_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (time_ns % 1_000_000_000) as libc::c_long,
    };
    loop {
        // SAFETY: the pointer is to a timespec of ours; what is left is not asked for.
        let error = unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &raw const time,
                ptr::null_mut(),
            )
        };
        match error {
            0 => return Ok(()),
            libc::EINTR => {}
            _ => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}
