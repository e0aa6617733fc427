// SPDX-License-Identifier: GPL-2.0-only
//! Sockets, cores and threads of a host, where the kernel numbers its CPUs in this order.

use std::path::Path;

use steelyard_simulator::units::CpuSet;

use crate::line;

/// Sockets, cores of each, threads of each core. Where CPUs that are together have no numbers side by side, or not
/// all of one size, one core of one thread for each, as every pCPU's number has to stay.
pub fn topology(sys: &Path, pcpus: &CpuSet) -> [u32; 3] {
    let count = pcpus.iter().count() as u32;
    let flat = [1, count.max(1), 1];
    let of = |pcpu: u32, file: &str| {
        line(sys.join(format!("devices/system/cpu/cpu{pcpu}/topology/{file}")))
    };
    let told = pcpus.iter().map(|pcpu| {
        let core = of(pcpu, "core_cpus_list").or_else(|| of(pcpu, "thread_siblings_list"))?;
        Some((of(pcpu, "physical_package_id")?, core))
    });
    let Some(told) = told.collect::<Option<Vec<_>>>() else { return flat };
    if !pcpus.iter().eq(0..count) {
        return flat;
    }
    let runs = |names: &mut dyn Iterator<Item = &str>| {
        let names: Vec<_> = names.collect();
        let runs: Vec<(&str, usize)> =
            names.chunk_by(|one, other| one == other).map(|run| (run[0], run.len())).collect();
        let size = runs.first().map_or(1, |&(_, size)| size);
        let mut seen: Vec<_> = runs.iter().map(|&(name, _)| name).collect();
        seen.sort_unstable();
        seen.dedup();
        let even = runs.iter().all(|&(_, length)| length == size) && seen.len() == runs.len();
        even.then_some(size as u32)
    };
    let socket = runs(&mut told.iter().map(|(socket, _)| socket.as_str()));
    let core = runs(&mut told.iter().map(|(_, core)| core.as_str()));
    match (socket, core) {
        (Some(socket), Some(core)) if socket.is_multiple_of(core) => {
            [count / socket, socket / core, core]
        }
        _ => flat,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use super::*;

    fn of(cpus: &[(u32, &str)]) -> [u32; 3] {
        let sys = tempfile::tempdir().unwrap();
        for (cpu, (socket, core)) in cpus.iter().enumerate() {
            let directory = sys.path().join(format!("devices/system/cpu/cpu{cpu}/topology"));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("physical_package_id"), format!("{socket}\n")).unwrap();
            fs::write(directory.join("core_cpus_list"), format!("{core}\n")).unwrap();
        }
        topology(sys.path(), &(0..cpus.len() as u32).collect())
    }

    #[test]
    fn what_is_numbered_in_order_is_told() {
        assert_eq!(of(&[(0, "0-1"), (0, "0-1"), (1, "2-3"), (1, "2-3")]), [2, 1, 2]);
        assert_eq!(of(&[(0, "0"), (0, "1"), (0, "2")]), [1, 3, 1]);
    }

    /// Threads of a core are half of the host apart; sockets by turns; sockets of two sizes; nothing told.
    #[test]
    fn all_else_is_flat() {
        assert_eq!(of(&[(0, "0,2"), (0, "1,3"), (0, "0,2"), (0, "1,3")]), [1, 4, 1]);
        assert_eq!(of(&[(0, "0"), (1, "1"), (0, "2"), (1, "3")]), [1, 4, 1]);
        assert_eq!(of(&[(0, "0"), (1, "1"), (1, "2")]), [1, 3, 1]);
        let nothing = tempfile::tempdir().unwrap();
        assert_eq!(topology(nothing.path(), &(0..2).collect()), [1, 2, 1]);
    }
}
