// SPDX-License-Identifier: GPL-2.0-only
//! Values that are more often telling than any bits are: numbers at edges, names that mean something.

use arbitrary::{Arbitrary, Result, Unstructured};

/// A number: mostly small, so that several are the same, else at an edge, else any.
#[derive(Clone, Copy, Debug)]
pub struct Number(pub u64);

impl<'a> Arbitrary<'a> for Number {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Number> {
        const EDGES: [u64; 16] = [
            0,
            1,
            7,
            255,
            1 << 12,
            65_535,
            65_536,
            999_999_999,
            i32::MAX as u64,
            1 << 31,
            u32::MAX as u64,
            1 << 32,
            1 << 53,
            i64::MAX as u64,
            1 << 63,
            u64::MAX,
        ];
        let kind: u8 = bytes.arbitrary()?;
        Ok(Number(match kind {
            0..128 => u64::from(kind % 8),
            128..192 => EDGES[usize::from(kind % 16)],
            192..240 => bytes.arbitrary::<u16>()?.into(),
            _ => bytes.arbitrary()?,
        }))
    }
}

/// A name: one that readers know, one that terminals would obey, or any.
#[derive(Clone, Debug)]
pub struct Word(pub String);

impl<'a> Arbitrary<'a> for Word {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Word> {
        const KNOWN: [&str; 24] = [
            "CPU 0/KVM",
            "CPU 1/KVM",
            "CPU 2/TCG",
            "swapper/0",
            "swapper",
            "qemu-system-x86",
            "vhost-7",
            "kvm-nx-lpage-re",
            "IO iothread1",
            "web",
            "web (7)",
            "name",
            "running",
            "waiting",
            "weight",
            "a | b | c",
            "",
            " ",
            "\"quoted\"\\n\n",
            "\u{1b}[2J\u{1b}]0;title\u{7}",
            "\u{9b}31m",
            "\u{202e}txt",
            "==> a:1 [120]",
            "0-3,^2",
        ];
        let kind: u8 = bytes.arbitrary()?;
        Ok(Word(match KNOWN.get(usize::from(kind % 32)) {
            Some(known) => (*known).to_owned(),
            None => bytes.arbitrary()?,
        }))
    }
}

/// True in so many of so many cases; false once there are no more bytes, so that a loop ends.
pub fn chance(bytes: &mut Unstructured<'_>, so_many: u8, of: u8) -> Result<bool> {
    Ok(bytes.int_in_range(1..=of)? > of - so_many)
}
