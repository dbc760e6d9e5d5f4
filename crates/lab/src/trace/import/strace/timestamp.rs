//! The time of a call, from any of strace's timestamps.

const DAY_NS: u64 = 24 * 60 * 60 * 1_000_000_000;
/// A timestamp of at least this number of seconds is the time since 1970. As a relative timestamp, it would
/// be a pause of three years.
const EPOCH_S: u64 = 100_000_000;

/// A timestamp as printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timestamp {
    /// Time of day (`-t`, `-tt`), in nanoseconds.
    OfDay(u64),
    /// Time since 1970 (`-ttt`), or since the previous line (`-r`), in nanoseconds.
    Seconds(u64),
}

impl Timestamp {
    /// Parses `12:34:56.789` or `1234.567`.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let text = str::from_utf8(text).ok()?;
        let Some((hours, rest)) = text.split_once(':') else {
            return text
                .contains('.')
                .then(|| nanoseconds(text))?
                .map(Self::Seconds);
        };
        let (minutes, seconds) = rest.split_once(':')?;
        let minutes: u64 = hours.parse::<u64>().ok()?.checked_mul(60)? + number(minutes, 60)?;
        let of_day = minutes
            .checked_mul(60_000_000_000)?
            .checked_add(nanoseconds(seconds)?)?;
        (of_day < DAY_NS).then_some(Self::OfDay(of_day))
    }
}

/// Time since the first line.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    first_ns: Option<u64>,
    last_ns: u64,
    days: u64,
}

impl Clock {
    /// Returns the time of the line with `timestamp`. A line without timestamp has the time of the
    /// previous one.
    pub(super) fn at(&mut self, timestamp: Option<Timestamp>) -> u64 {
        let since_first = match timestamp {
            None => self.last_ns,
            Some(Timestamp::Seconds(ns)) if ns < EPOCH_S * 1_000_000_000 => {
                self.last_ns.saturating_add(ns)
            }
            Some(Timestamp::Seconds(ns)) => ns.saturating_sub(*self.first_ns.get_or_insert(ns)),
            Some(Timestamp::OfDay(ns)) => {
                let first = *self.first_ns.get_or_insert(ns);
                let midnight_passed = |days| ns + days * DAY_NS + DAY_NS / 2 < first + self.last_ns;
                self.days += u64::from(midnight_passed(self.days));
                (ns + self.days * DAY_NS).saturating_sub(first)
            }
        };
        self.last_ns = self.last_ns.max(since_first);
        self.last_ns
    }
}

fn number(text: &str, end: u64) -> Option<u64> {
    text.parse().ok().filter(|&number| number < end)
}

/// Parses `12.345` and returns nanoseconds.
pub(in super::super) fn nanoseconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction: u64 = format!("{fraction:0<9}").parse().ok()?;
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(1_000_000_000)?
        .checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(texts: &[&str]) -> Vec<u64> {
        let mut clock = Clock::default();
        let at = |text: &&str| clock.at(Timestamp::parse(text.as_bytes()));
        texts.iter().map(at).collect()
    }

    #[test]
    fn dates_count_from_the_first() {
        assert_eq!(
            times(&["1700000000.000001", "1700000000.000004"]),
            [0, 3000]
        );
    }

    #[test]
    fn relative_times_add_up() {
        assert_eq!(
            times(&["0.000000", "0.000002", "1.000000"]),
            [0, 2000, 1_000_002_000]
        );
    }

    #[test]
    fn times_of_day_continue_after_midnight() {
        assert_eq!(
            times(&["23:59:59.5", "00:00:00.5", "00:00:01"]),
            [0, 1_000_000_000, 1_500_000_000]
        );
    }

    #[test]
    fn invalid_timestamps_are_rejected() {
        for text in [
            "12",
            "12:3",
            "24:00:00",
            "1.2x",
            "1:60:00",
            "-1.5",
            "openat(1.5",
        ] {
            assert_eq!(Timestamp::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn time_never_decreases() {
        assert_eq!(
            times(&["1700000000.5", "1700000000.4", "99999999999.0"])[1],
            0
        );
    }
}
