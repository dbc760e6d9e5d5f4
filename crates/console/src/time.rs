//! Formats the times of files, in the local time zone.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use larder::Timestamp;
use std::time::SystemTime;

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

/// Parses a date, or a date and a time, such as `2024-05-01 12:34` or `2024-05-01T12:34:56Z`. Without an offset, the time is
/// in the local time zone.
pub fn parse(text: &str) -> Result<Timestamp, String> {
    let time = text.parse().or_else(|_| parse_local(text));
    let time = time.map_err(|_| {
        format!("'{text}' is not a time: write a date, such as 2024-05-01, or 2024-05-01T12:34:56Z")
    })?;
    Ok(SystemTime::from(time).into())
}

fn parse_local(text: &str) -> Result<jiff::Timestamp, jiff::Error> {
    let time: DateTime = text.parse()?;
    Ok(time.to_zoned(TimeZone::system())?.timestamp())
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
    fn parsed_times_are_those_that_are_shown() {
        let time = Timestamp {
            seconds: 1_000_000_000,
            nanoseconds: 42,
        };
        let shown = full(time);
        let (local, _) = shown.rsplit_once(' ').unwrap();
        assert_eq!(parse(local), Ok(time));
        assert_eq!(parse("2001-09-09T01:46:40.000000042Z"), Ok(time));
        let before = parse("1969-12-31T23:59:59.5Z").unwrap();
        assert_eq!((before.seconds, before.nanoseconds), (-1, 500_000_000));
        assert_eq!(
            parse("2024-05-01").map(short).as_deref(),
            Ok("2024-05-01 00:00")
        );
        for text in ["", "yesterday", "12:34", "2024-13-01"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
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
