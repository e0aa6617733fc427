// SPDX-License-Identifier: GPL-2.0-only
//! How QEMU calls its virtual machines and their threads.

/// The number of the vCPU whose thread has this name: `CPU 0/KVM`, or `CPU 0/TCG` where QEMU emulates.
pub fn vcpu_number(thread_name: &str) -> Option<u32> {
    let (number, kind) = thread_name.strip_prefix("CPU ")?.split_once('/')?;
    matches!(kind, "KVM" | "TCG").then(|| number.parse().ok())?
}

/// The VM's name out of a command line, words ending in NUL: `-name NAME` or `-name guest=NAME`, where
/// options may follow after a comma.
pub fn guest_name(command_line: &[u8]) -> Option<String> {
    let mut words = command_line.split(|&byte| byte == 0).skip_while(|&word| word != b"-name");
    let options = String::from_utf8_lossy(words.nth(1)?).into_owned();
    let first = options.split(',').next().filter(|name| !name.is_empty())?;
    Some(first.strip_prefix("guest=").unwrap_or(first).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vcpus_are_known_by_their_threads() {
        assert_eq!(vcpu_number("CPU 0/KVM"), Some(0));
        assert_eq!(vcpu_number("CPU 12/TCG"), Some(12));
        for other in ["CPU 0", "CPU x/KVM", "CPU 1/XEN", "worker", "IO mon_iothread", ""] {
            assert_eq!(vcpu_number(other), None, "{other}");
        }
    }

    #[test]
    fn a_vm_has_the_name_that_qemu_was_given() {
        let name = |command: &str| guest_name(command.replace(' ', "\0").as_bytes());
        assert_eq!(name("qemu -name guest=web,debug-threads=on -m 1").as_deref(), Some("web"));
        assert_eq!(name("qemu -name web -m 1").as_deref(), Some("web"));
        for command in ["qemu -m 1", "qemu -name", "qemu -name ,process=x", ""] {
            assert_eq!(name(command), None, "{command}");
        }
    }
}
