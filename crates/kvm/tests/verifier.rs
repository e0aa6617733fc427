// SPDX-License-Identifier: GPL-2.0-only
//! How much the verifier of this very machine's kernel reads of the scheduler under each policy, where its user may load
//! BPF programs. A kernel gives up after a million instructions, 512 bytes of stack along calls, and eight of them in each
//! other; which kernels accept the scheduler itself lab/linux/test says.
#![cfg(feature = "bpf")]

use std::error::Error;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{DataSec, Var};
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{ObjectBuilder, OpenObject, PrintLevel, set_print};
use steelyard_kvm::{KvmError, Observer};
use steelyard_policy::{Governor, Policy, disciplines, governors};

const OBJECT: &str = concat!(env!("OUT_DIR"), "/calls.bpf.o");
/// A tenth of what a kernel reads: others read more of the same programs than this one, up to three times so far.
const MOST: u32 = 100_000;
/// One vintage of each way to do things; with [`governed`].
const POLICIES: [&str; 8] = [
    "sedf",
    "credit@xen-3.3",
    "credit@xen-4.20",
    "credit2@xen-4.5",
    "credit2@xen-4.20",
    "fair@cfs",
    "fair@eevdf",
    "poise",
];

/// Every governor with every discipline that it suits.
fn governed() -> impl Iterator<Item = String> {
    disciplines().iter().map(|discipline| {
        let suits = |governor: &&Governor| governor.disciplines.contains(&discipline.name);
        let names = governors().iter().filter(suits).map(|governor| format!("+{}", governor.name));
        discipline.name.to_owned() + &names.collect::<String>()
    })
}

/// Sets a constant of the program.
fn set(object: &mut OpenObject, btf: &Btf<'_>, name: &str, bytes: &[u8]) -> Option<()> {
    let section: DataSec<'_> = btf.type_by_name(".rodata")?;
    let of_name = |ty| {
        btf.type_by_id::<Var<'_>>(ty).is_some_and(|it| it.name().is_some_and(|its| its == name))
    };
    let at = section.iter().find(|it| of_name(it.ty))?.offset as usize;
    let mut map = object.maps_mut().find(|it| it.name().to_string_lossy().ends_with(".rodata"))?;
    map.initial_value_mut()?.get_mut(at..at + bytes.len())?.copy_from_slice(bytes);
    Some(())
}

/// Of each call, the instructions that the kernel reads.
fn read(policy: &Policy) -> Result<Vec<(String, u32)>, Box<dyn Error>> {
    let btf = Btf::from_path(OBJECT)?;
    let mut open = ObjectBuilder::default().open_file(OBJECT)?;
    let parameters = std::ptr::from_ref(policy.parameters()).cast::<u8>();
    // SAFETY: it is all numbers, without padding.
    let bytes = unsafe { std::slice::from_raw_parts(parameters, size_of_val(policy.parameters())) };
    set(&mut open, &btf, "policy_constant", bytes).ok_or("no policy_constant")?;
    for mut program in open.progs_mut() {
        let is_call = program.name().to_string_lossy().starts_with("call_");
        program.set_autoload(is_call);
    }
    for mut map in open.maps_mut() {
        if map.name() == "steelyard_ops" {
            map.set_autocreate(false)?;
        }
    }
    let _object = open.load()?;
    Ok(ProgInfoIter::default()
        .map(|program| (program.name.to_string_lossy().into_owned(), program.verified_insns))
        .filter(|(name, _)| name.starts_with("call_"))
        .collect())
}

#[test]
fn little_is_read_of_any_policy() -> Result<(), Box<dyn Error>> {
    if let Err(error @ (KvmError::NoBtf | KvmError::NoPrivilege)) = Observer::attach() {
        eprintln!("skipped: {error}");
        return Ok(());
    }
    set_print(Some((PrintLevel::Warn, |_, text| eprint!("{text}"))));
    for name in POLICIES.map(str::to_owned).into_iter().chain(governed()) {
        let policy = Policy::named(&name)?;
        let calls = read(&policy).map_err(|error| format!("{name}: {error}"))?;
        let sum: u32 = calls.iter().map(|(_, instructions)| instructions).sum();
        println!("{name}: {sum}");
        for (call, instructions) in calls {
            println!("  {call}: {instructions}");
            assert!(instructions < MOST, "{name}: {call}: {instructions} instructions read");
        }
    }
    Ok(())
}
