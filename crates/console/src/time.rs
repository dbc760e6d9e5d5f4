//! Formats the times of files, in the local time zone.

use jiff::tz::TimeZone;
use larder::Timestamp;

/// Formats a time with minutes, as in `ls -l`: `2024-05-01 12:34`.
#[must_use]
pub fn short(timestamp: Timestamp) -> String {
    formatted(timestamp, "%Y-%m-%d %H:%M")
}

/// Formats a time with nanoseconds and the time zone, as in stat(1).
#[must_use]
pub fn full(timestamp: Timestamp) -> String {
    formatted(timestamp, "%Y-%m-%d %H:%M:%S.%9f %z")
}

fn formatted(timestamp: Timestamp, format: &str) -> String {
    let nanoseconds = i32::try_from(timestamp.nanoseconds).unwrap_or(0);
    match jiff::Timestamp::new(timestamp.seconds, nanoseconds) {
        Ok(time) => time
            .to_zoned(TimeZone::system())
            .strftime(format)
            .to_string(),
        // A time outside the range of the calendar is shown as a number of seconds.
        Err(_) => format!("@{}", timestamp.seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_shown_to_the_nanosecond() {
        let text = full(Timestamp {
            seconds: 1_000_000_000,
            nanoseconds: 42,
        });
        assert!(text.contains(".000000042 "), "{text}");
    }

    #[test]
    fn time_out_of_range_is_shown_as_a_number() {
        let text = short(Timestamp {
            seconds: i64::MAX,
            nanoseconds: 0,
        });
        assert_eq!(text, format!("@{}", i64::MAX));
    }
}
