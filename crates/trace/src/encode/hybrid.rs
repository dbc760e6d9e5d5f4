//! Parquet's hybrid of run-length encoding and bit packing, for the indices of dictionary entries.
//!
//! # Layout
//! A sequence of runs. Each has a header, a variable-length integer:
//!
//! | header | content of the run |
//! |---|---|
//! | `count << 1` | one value in whole bytes, which is repeated `count` times |
//! | `groups << 1 \| 1` | 8 values for each group, in `width` bits each, the lowest bits first |
//!
//! # Cost
//! A run of equal values costs the same at any length. Values that differ from their neighbours take about 3 ns
//! each.

/// The number of values in a group of packed values, and the minimum length of a repeated run.
const GROUP: usize = 8;

/// An encoder of values that have at most `width` bits.
#[derive(Debug)]
pub(super) struct Hybrid {
    width: u32,
    bytes: Vec<u8>,
    /// The values of the current packed run. The last group may not be complete yet.
    packed: Vec<u32>,
}

impl Hybrid {
    /// Creates an encoder of values up to `max`.
    pub(super) fn new(max: u32) -> Self {
        // Some readers do not accept a width of 0.
        let width = (u32::BITS - max.leading_zeros()).max(1);
        Self {
            width,
            bytes: Vec::new(),
            packed: Vec::new(),
        }
    }

    /// Returns the number of bits of a value.
    pub(super) fn width(&self) -> u32 {
        self.width
    }

    /// Appends `count` times `value`.
    pub(super) fn push_run(&mut self, value: u32, count: usize) {
        let open = self.packed.len() % GROUP;
        let to_group_end = if open == 0 { 0 } else { GROUP - open };
        let first = count.min(to_group_end);
        let mut rest = count - first;
        self.packed.extend(std::iter::repeat_n(value, first));
        if rest >= GROUP {
            self.end_packed();
            self.put_number((rest as u64) << 1);
            let value_bytes = self.width.div_ceil(8) as usize;
            self.bytes.extend(&value.to_le_bytes()[..value_bytes]);
            rest = 0;
        }
        self.packed.extend(std::iter::repeat_n(value, rest));
    }

    /// Returns the encoded values.
    pub(super) fn finish(mut self) -> Vec<u8> {
        // Readers know the number of values, and ignore the values that fill the last group.
        let whole = self.packed.len().next_multiple_of(GROUP);
        self.packed.resize(whole, 0);
        self.end_packed();
        self.bytes
    }

    /// Writes the packed run, if there is one.
    fn end_packed(&mut self) {
        if self.packed.is_empty() {
            return;
        }
        let groups = (self.packed.len() / GROUP) as u64;
        self.put_number(groups << 1 | 1);
        let (mut word, mut bits) = (0_u64, 0);
        for value in self.packed.drain(..) {
            word |= u64::from(value) << bits;
            bits += self.width;
            if bits >= u32::BITS {
                let [low @ .., _, _, _, _] = word.to_le_bytes();
                self.bytes.extend(low);
                word >>= u32::BITS;
                bits -= u32::BITS;
            }
        }
        // 8 values of any width are whole bytes.
        self.bytes
            .extend(&word.to_le_bytes()[..(bits / u8::BITS) as usize]);
    }

    fn put_number(&mut self, mut number: u64) {
        while number >= 1 << 7 {
            let [low, ..] = number.to_le_bytes();
            self.bytes.push(low | 1 << 7);
            number >>= 7;
        }
        let [low, ..] = number.to_le_bytes();
        self.bytes.push(low);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(max: u32, runs: &[(u32, usize)]) -> Vec<u8> {
        let mut encoder = Hybrid::new(max);
        for &(value, count) in runs {
            encoder.push_run(value, count);
        }
        encoder.finish()
    }

    /// The example of the Parquet specification: the values 0 to 7 in 3 bits.
    #[test]
    fn packed_values_match_the_specification() {
        let runs: Vec<_> = (0..8).map(|value| (value, 1)).collect();
        assert_eq!(
            encoded(7, &runs),
            [0b11, 0b1000_1000, 0b1100_0110, 0b1111_1010]
        );
    }

    #[test]
    fn long_run_is_one_header_and_one_value() {
        assert_eq!(encoded(1, &[(1, 100)]), [200, 1, 1]);
        assert_eq!(encoded(0x1ff, &[(0x1ff, 8)]), [16, 0xff, 1]);
    }

    #[test]
    fn run_after_an_open_group_fills_the_group_first() {
        // 3 values and 5 of the run are a packed group; the remaining 20 are repeated.
        assert_eq!(encoded(1, &[(1, 3), (0, 25)]), [3, 0b111, 40, 0]);
        // Fewer than 8 remaining values are packed, and zeros fill the group.
        assert_eq!(encoded(1, &[(1, 9), (0, 2)]), [18, 1, 3, 0]);
    }
}
