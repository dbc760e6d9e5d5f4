//! The criteria of `larder find`, as find(1) defines them.

use larder::{FileKind, Timestamp};
use std::cmp::Ordering;

const SECONDS_PER_DAY: i64 = 24 * 60 * 60;

/// `+N` (more than N), `-N` (less than N) or `N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Comparison {
    ordering: Ordering,
    number: u64,
}

impl Comparison {
    /// Parses the sign, and the number with `parse_number`.
    fn parse(
        text: &str,
        parse_number: impl FnOnce(&str) -> Option<u64>,
        expected: &str,
    ) -> Result<Self, String> {
        let (ordering, digits) = if let Some(rest) = text.strip_prefix('+') {
            (Ordering::Greater, rest)
        } else if let Some(rest) = text.strip_prefix('-') {
            (Ordering::Less, rest)
        } else {
            (Ordering::Equal, text)
        };
        // `parse_number` would accept another sign.
        let digits = digits
            .starts_with(|c: char| c.is_ascii_digit())
            .then_some(digits);
        let number = digits.and_then(parse_number);
        let number = number.ok_or_else(|| format!("write {expected}"))?;
        Ok(Self { ordering, number })
    }

    fn matches(self, value: i128) -> bool {
        value.cmp(&i128::from(self.number)) == self.ordering
    }
}

/// The value of `--size`: a number of units, to which a size is rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SizeCriterion {
    comparison: Comparison,
    unit_bytes: u64,
}

impl SizeCriterion {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit_bytes = match &text[number.len()..] {
            "" | "b" => 512,
            "c" => 1,
            "k" => 1 << 10,
            "M" => 1 << 20,
            "G" => 1 << 30,
            _ => return Err("the unit must be c (bytes), b (512 bytes), k, M or G".to_owned()),
        };
        let expected = "a number of units, such as +10M, -1G or 512c";
        let comparison = Comparison::parse(number, |digits| digits.parse().ok(), expected)?;
        Ok(Self {
            comparison,
            unit_bytes,
        })
    }

    pub(crate) fn matches(self, size_bytes: u64) -> bool {
        self.comparison
            .matches(size_bytes.div_ceil(self.unit_bytes).into())
    }
}

/// The value of `--mtime`: a number of whole days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AgeCriterion(Comparison);

impl AgeCriterion {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let expected = "a number of days, such as -7 or +30";
        Comparison::parse(text, |digits| digits.parse().ok(), expected).map(Self)
    }

    /// Returns whether the time since `modified` matches. Fractions of a day are ignored.
    pub(crate) fn matches(self, modified: Timestamp, now: Timestamp) -> bool {
        let seconds = i128::from(now.seconds) - i128::from(modified.seconds);
        let borrowed = i128::from(now.nanoseconds < modified.nanoseconds);
        let days = (seconds - borrowed).div_euclid(SECONDS_PER_DAY.into());
        self.0.matches(days)
    }
}

/// The value of `--type`: one or more types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KindCriterion(Vec<FileKind>);

impl KindCriterion {
    /// Parses letters, which can be separated by commas.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let kind = |letter| match letter {
            'f' => Some(FileKind::Regular),
            'd' => Some(FileKind::Directory),
            'l' => Some(FileKind::Symlink),
            'b' => Some(FileKind::BlockDevice),
            'c' => Some(FileKind::CharDevice),
            'p' => Some(FileKind::Fifo),
            's' => Some(FileKind::Socket),
            _ => None,
        };
        let letters = text.chars().filter(|&letter| letter != ',');
        let kinds: Option<Vec<_>> = letters.map(kind).collect();
        kinds.filter(|kinds| !kinds.is_empty()).map(Self).ok_or_else(|| {
            "write one or more of f (file), d (directory), l (symbolic link), b (block device), c (character device), p \
             (FIFO) and s (socket)"
                .to_owned()
        })
    }

    pub(crate) fn matches(&self, kind: FileKind) -> bool {
        self.0.contains(&kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up_to_units() {
        for (text, matching, others) in [
            ("1k", [1, 1024], [0, 1025]),
            ("+1k", [1025, 4096], [0, 1024]),
            ("-1k", [0, 0], [1, 1024]),
            ("1", [1, 512], [0, 513]),
            ("2b", [513, 1024], [512, 1025]),
            ("-100c", [0, 99], [100, 101]),
            ("+1M", [(1 << 20) + 1, u64::MAX], [0, 1 << 20]),
            ("1G", [1, 1 << 30], [0, (1 << 30) + 1]),
        ] {
            let criterion = SizeCriterion::parse(text).unwrap();
            for size in matching {
                assert!(criterion.matches(size), "{text} {size}");
            }
            for size in others {
                assert!(!criterion.matches(size), "{text} {size}");
            }
        }
    }

    #[test]
    fn ages_are_whole_days() {
        let now = Timestamp {
            seconds: 100 * SECONDS_PER_DAY,
            nanoseconds: 5,
        };
        let before = |seconds: i64, nanoseconds| Timestamp {
            seconds: now.seconds - seconds,
            nanoseconds,
        };
        let day = SECONDS_PER_DAY;
        for (text, modified, is_match) in [
            ("0", before(0, 5), true),
            ("0", before(0, 6), false),
            ("-1", before(-1000, 0), true),
            ("-1", before(day - 1, 0), true),
            ("-1", before(day, 5), false),
            ("-1", before(day, 6), true),
            ("1", before(day, 5), true),
            ("1", before(2 * day, 5), false),
            ("+1", before(2 * day, 6), false),
            ("+1", before(2 * day, 5), true),
        ] {
            let criterion = AgeCriterion::parse(text).unwrap();
            assert_eq!(
                criterion.matches(modified, now),
                is_match,
                "{text} {modified:?}"
            );
        }
        let extreme = Timestamp {
            seconds: i64::MIN,
            nanoseconds: 0,
        };
        assert!(AgeCriterion::parse("+1").unwrap().matches(extreme, now));
    }

    #[test]
    fn types_are_letters_with_or_without_commas() {
        let of = |text| KindCriterion::parse(text).unwrap();
        assert_eq!(of("f,d"), of("fd"));
        assert!(of("ls").matches(FileKind::Socket));
        assert!(!of("ls").matches(FileKind::Regular));
    }

    #[test]
    fn invalid_criteria_are_refused() {
        for text in [
            "",
            "+",
            "k",
            "+-1",
            "1K",
            "1kk",
            "x",
            "1.5M",
            "99999999999999999999",
        ] {
            assert!(SizeCriterion::parse(text).is_err(), "{text:?}");
        }
        for text in ["", "-", "--1", "+x", "1d"] {
            assert!(AgeCriterion::parse(text).is_err(), "{text:?}");
        }
        for text in ["", ",", "x", "fx"] {
            assert!(KindCriterion::parse(text).is_err(), "{text:?}");
        }
    }
}
