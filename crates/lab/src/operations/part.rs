//! Equal parts of a sequence.

use std::ops::Range;

/// One of several parts into which a sequence is divided. The lengths of the parts differ by at most 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Number of the part, from 0.
    pub number: u32,
    /// Number of parts, at least 1.
    pub count: u32,
}

impl Part {
    /// The whole sequence.
    pub const WHOLE: Self = Self {
        number: 0,
        count: 1,
    };

    /// Returns all parts of a sequence that is divided into `count` parts.
    pub fn all(count: u32) -> impl Iterator<Item = Self> {
        (0..count).map(move |number| Self { number, count })
    }

    /// Returns the positions of this part in a sequence of `len` items.
    #[must_use]
    pub fn of(self, len: usize) -> Range<usize> {
        let end_of = |parts: usize| len * parts / (self.count as usize).max(1);
        let number = self.number as usize;
        end_of(number)..end_of(number + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_and_cover_the_sequence() {
        for (len, count) in [(10, 3), (3, 10), (0, 2), (7, 1)] {
            let parts: Vec<_> = Part::all(count).map(|part| part.of(len)).collect();
            let positions: Vec<_> = parts.iter().cloned().flatten().collect();
            assert_eq!(positions, (0..len).collect::<Vec<_>>());
            let lengths = parts.iter().map(Range::len);
            assert!(lengths.clone().max() <= lengths.min().map(|least| least + 1));
        }
        assert_eq!(Part::WHOLE.of(9), 0..9);
    }
}
