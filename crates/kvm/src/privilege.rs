// SPDX-License-Identifier: GPL-2.0-only
//! Capabilities of the thread that loads the scheduler. While the scheduler runs this thread only reads: of processes of
//! others and what is asked for domains; to run a program that is loaded takes none. It loads again when CPUs come or go,
//! so that what loading takes can be raised again, and all else is given up for good.

use caps::errors::CapsError;
use caps::{CapSet, Capability, CapsHashSet};

/// To look at the open files and control groups of processes of others, hidden ones too, and to read what only root may.
const READING: [Capability; 2] = [Capability::CAP_SYS_PTRACE, Capability::CAP_DAC_READ_SEARCH];
/// To load programs, with memory that is not counted on older kernels; the types of the module kvm take the third.
const LOADING: [Capability; 4] = [
    Capability::CAP_BPF,
    Capability::CAP_PERFMON,
    Capability::CAP_SYS_ADMIN,
    Capability::CAP_SYS_RESOURCE,
];

/// Before loading: all that is left.
pub fn raise() -> Result<(), CapsError> {
    let permitted = caps::read(None, CapSet::Permitted)?;
    caps::set(None, CapSet::Effective, &permitted)
}

/// After it.
pub fn lower() -> Result<(), CapsError> {
    let permitted = caps::read(None, CapSet::Permitted)?;
    let (effective, kept) = left(&permitted);
    caps::set(None, CapSet::Effective, &effective)?;
    caps::clear(None, CapSet::Inheritable)?;
    caps::set(None, CapSet::Permitted, &kept)
}

/// Of these: what is in effect while it runs, and what can be.
fn left(permitted: &CapsHashSet) -> (CapsHashSet, CapsHashSet) {
    let of = |all: &[Capability]| all.iter().filter(|it| permitted.contains(it)).copied().collect();
    (of(&READING), of(&[&READING[..], &LOADING].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_but_what_reads_and_what_may_load_again() {
        let (effective, kept) = left(&caps::all());
        assert_eq!(effective, READING.into());
        assert_eq!(kept.len(), READING.len() + LOADING.len());
        assert!(!kept.contains(&Capability::CAP_SYS_MODULE));
        // What was not there does not come.
        let few: CapsHashSet = [Capability::CAP_BPF, Capability::CAP_KILL].into();
        assert_eq!(left(&few), (CapsHashSet::new(), [Capability::CAP_BPF].into()));
    }

    #[test]
    fn a_thread_lowers_and_raises_its_own() {
        // Capabilities are a thread's: the other tests keep theirs.
        let done = std::thread::spawn(|| {
            let expected = left(&caps::read(None, CapSet::Permitted).unwrap());
            lower().unwrap();
            let read = |which| caps::read(None, which).unwrap();
            assert_eq!((read(CapSet::Effective), read(CapSet::Permitted)), expected);
            raise().unwrap();
            assert_eq!(read(CapSet::Effective), expected.1);
        });
        done.join().unwrap();
    }
}
