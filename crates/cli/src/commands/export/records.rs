//! The pax records of a member: what does not fit in its header.

use larder::Timestamp;

/// The length of a name or a link target in a header, in bytes.
const NAME_BYTES: usize = 100;
/// The largest size and the largest time that fit in a header: 11 octal digits.
pub(super) const MAX_NUMBER: u64 = (1 << 33) - 1;

/// The pax records of a member.
#[derive(Debug, Default)]
pub(super) struct Records(Vec<u8>);

impl Records {
    /// Adds a record, which has the form `LENGTH KEY=VALUE` and ends in a newline.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) {
        // The blank, the equals sign and the newline.
        let rest = key.len() + value.len() + 3;
        // The length includes its own digits.
        let mut len = rest;
        loop {
            let with_digits = rest + len.to_string().len();
            if with_digits == len {
                break;
            }
            len = with_digits;
        }
        self.0.extend_from_slice(format!("{len} ").as_bytes());
        self.0.extend_from_slice(key);
        self.0.push(b'=');
        self.0.extend_from_slice(value);
        self.0.push(b'\n');
    }

    /// Returns `value` for the header if it is at most `max`. Otherwise, adds it as the record `key`, and returns 0.
    pub(super) fn number(&mut self, key: &str, value: u64, max: u64) -> u64 {
        if value <= max {
            return value;
        }
        self.add(key.as_bytes(), value.to_string().as_bytes());
        0
    }

    /// Returns the time for the header, in seconds. If the header cannot represent the time, also adds it as a record.
    pub(super) fn modified(&mut self, time: Timestamp) -> u64 {
        let seconds = u64::try_from(time.seconds).ok();
        let fitting = seconds.filter(|&seconds| seconds <= MAX_NUMBER);
        if fitting.is_none() || time.nanoseconds > 0 {
            self.add(b"mtime", decimal(time).as_bytes());
        }
        fitting.unwrap_or(0)
    }

    /// Adds a name or a link target as the record `key`, if the header cannot represent it.
    pub(super) fn text(&mut self, key: &str, text: &[u8]) {
        if text.len() > NAME_BYTES || !text.is_ascii() {
            self.add(key.as_bytes(), text);
        }
    }

    /// Returns the records as they are stored.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Returns a time as a decimal number of seconds.
fn decimal(time: Timestamp) -> String {
    const NANOSECONDS: u32 = 1_000_000_000;
    let Timestamp {
        seconds,
        nanoseconds,
    } = time;
    if nanoseconds == 0 {
        return seconds.to_string();
    }
    let (sign, whole, fraction) = if seconds < 0 {
        ("-", (seconds + 1).unsigned_abs(), NANOSECONDS - nanoseconds)
    } else {
        ("", seconds.unsigned_abs(), nanoseconds)
    };
    format!("{sign}{whole}.{fraction:09}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_of_a_record_includes_its_own_digits() {
        for (value_bytes, len) in [
            (1, "6"),
            (4, "9"),
            (5, "11"),
            (92, "98"),
            (93, "99"),
            (94, "101"),
        ] {
            let mut records = Records::default();
            records.add(b"k", &vec![b'v'; value_bytes]);
            let text = String::from_utf8(records.0).unwrap();
            assert_eq!(text.split(' ').next(), Some(len));
            assert_eq!(text.len().to_string(), len);
        }
    }

    #[test]
    fn times_are_decimal_numbers() {
        for (seconds, nanoseconds, expected) in [
            (5, 0, "5"),
            (5, 1, "5.000000001"),
            (-5, 0, "-5"),
            (-1, 999_999_999, "-0.000000001"),
            (-5, 250_000_000, "-4.750000000"),
        ] {
            let time = Timestamp {
                seconds,
                nanoseconds,
            };
            assert_eq!(decimal(time), expected);
        }
    }
}
