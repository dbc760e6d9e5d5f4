//! Equal parts of a sequence.

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

    /// Returns the items of `sequence` that are in this part.
    pub fn of<I: ExactSizeIterator>(self, sequence: I) -> impl Iterator<Item = I::Item> {
        let len = sequence.len();
        let end_of = |parts: usize| len * parts / (self.count as usize).max(1);
        let number = self.number as usize;
        sequence.take(end_of(number + 1)).skip(end_of(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_and_cover_the_sequence() {
        for (len, count) in [(10, 3), (3, 10), (0, 2), (7, 1)] {
            let parts = Part::all(count).map(|part| part.of(0..len).collect::<Vec<_>>());
            let parts: Vec<_> = parts.collect();
            assert_eq!(parts.concat(), (0..len).collect::<Vec<_>>());
            let lengths = parts.iter().map(Vec::len);
            assert!(lengths.clone().max() <= lengths.min().map(|least| least + 1));
        }
        assert!(Part::WHOLE.of(0..9).eq(0..9));
    }
}
