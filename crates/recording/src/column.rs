// SPDX-License-Identifier: GPL-2.0-only
//! Many numbers as a string of a line of JSON (described in `docs/monitor.md`): Base64 VLQ, as in source
//! maps, but without signs. It takes less room than decimals, before and after compression.

use serde::{Deserialize, Serialize};

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Bits of a number in a digit; the next one says that more digits follow.
const BITS: u32 = 5;
const MORE: u64 = 1 << BITS;

/// Numbers in a row.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Column(String);

impl Column {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a number: its lowest digits come first.
    pub fn push(&mut self, mut number: u64) {
        while number >= MORE {
            self.0.push(DIGITS[(number % MORE + MORE) as usize].into());
            number /= MORE;
        }
        self.0.push(DIGITS[number as usize].into());
    }

    /// The numbers from the first on.
    pub fn numbers(&self) -> Numbers<'_> {
        Numbers(self.0.as_bytes())
    }
}

/// What is left of a column. An item is none, and the last, where there is no number.
pub(crate) struct Numbers<'a>(&'a [u8]);

impl Iterator for Numbers<'_> {
    type Item = Option<u64>;

    fn next(&mut self) -> Option<Option<u64>> {
        if self.0.is_empty() {
            return None;
        }
        let number = self.number();
        if number.is_none() {
            self.0 = &[];
        }
        Some(number)
    }
}

impl Numbers<'_> {
    fn number(&mut self) -> Option<u64> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            let digit = u64::from(match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            });
            let bits = digit % MORE;
            let shifted = bits.checked_shl(shift).filter(|shifted| shifted >> shift == bits)?;
            number |= shifted;
            if digit < MORE {
                return Some(number);
            }
            shift += BITS;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Option<Vec<u64>> {
        Column(text.to_owned()).numbers().collect()
    }

    #[test]
    fn small_numbers_are_a_letter_each() {
        let mut column = Column::default();
        [0, 1, 25, 31, 32, 1 << 10].into_iter().for_each(|number| column.push(number));
        assert_eq!(column.0, "ABZfgBggB");
    }

    #[test]
    fn what_is_no_number_is_none() {
        for text in ["g", "A-", "\"", "////////////////A", "gggggggggggggggggB"] {
            assert_eq!(read(text), None, "{text}");
        }
        let mut most = Column::default();
        most.push(u64::MAX);
        assert_eq!(read(&most.0), Some(vec![u64::MAX]));
        let more = most.0.replace('P', "Q");
        assert_ne!(more, most.0);
        assert_eq!(read(&more), None);
    }

    proptest! {
        #[test]
        fn any_numbers_are_read_as_they_were_written(
            numbers in vec(prop_oneof![0..100_u64, any::<u64>()], 0..20)
        ) {
            let mut column = Column::default();
            numbers.iter().for_each(|&number| column.push(number));
            prop_assert_eq!(read(&column.0), Some(numbers));
            for end in 0..column.0.len() {
                // Cut off, it is fewer numbers, or none.
                let _ = read(&column.0[..end]);
            }
        }
    }
}
