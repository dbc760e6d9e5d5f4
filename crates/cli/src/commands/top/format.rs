//! Figures as short texts.

use larder_console::size;

/// The text of a figure that is not known, because there is no earlier reply or a divisor is 0.
pub(super) const UNKNOWN: &str = "-";

/// Returns a count as at most seven characters, such as `0.3`, `123` or `45.6k`.
pub(super) fn short(count: f64) -> String {
    if count < 9.95 && count.fract() != 0.0 {
        return format!("{count:.1}");
    }
    let mut value = count;
    for unit in ["", "k", "M", "G"] {
        if value < 999.5 {
            let decimals = usize::from(!unit.is_empty());
            return format!("{value:.decimals$}{unit}");
        }
        value /= 1000.0;
    }
    format!("{value:.1}T")
}

/// Returns a share as a percentage, rounded down, so that only a share of 1 is shown as 100%.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1}%", (share * 1000.0).floor() / 10.0)
}

pub(super) fn two_decimals(value: f64) -> String {
    format!("{value:.2}")
}

/// Returns a number of bytes, such as `1.5 MiB`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "shown with one decimal, and never less than 0"
)]
pub(super) fn bytes(count: f64) -> String {
    size::human(count.round() as u64)
}

/// Returns a time with three digits and its unit, such as `950 ns`, `1.20 ms` or `12.3 s`.
pub(super) fn duration(nanos: f64) -> String {
    let mut value = nanos;
    for unit in ["ns", "us", "ms"] {
        if value < 999.5 {
            return format!("{} {unit}", three_digits(value, unit != "ns"));
        }
        value /= 1000.0;
    }
    format!("{} s", three_digits(value, true))
}

fn three_digits(value: f64, has_decimals: bool) -> String {
    let decimals = match value {
        _ if !has_decimals => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// Returns a time in seconds as `45 s`, `10 min` or `2.5 h`, and 0 as [`UNKNOWN`].
pub(super) fn span(seconds: f64) -> String {
    match seconds {
        0.0 => UNKNOWN.to_owned(),
        seconds if seconds < 9.95 => format!("{seconds:.1} s"),
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.1} h", seconds / 3600.0),
    }
}

/// Returns a count with its noun.
pub(super) fn counted(count: f64, noun: &str) -> String {
    let count = short(count);
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Returns the text of a figure, or [`UNKNOWN`].
pub(super) fn or_unknown(value: Option<f64>, shown: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_at_most_seven_characters() {
        for (count, text) in [
            (0.0, "0"),
            (0.26, "0.3"),
            (10.4, "10"),
            (999.4, "999"),
            (999.6, "1.0k"),
            (45_600.0, "45.6k"),
            (2.5e15, "2500.0T"),
        ] {
            assert_eq!(short(count), text);
        }
    }

    #[test]
    fn durations_have_three_digits_and_a_unit() {
        for (nanos, text) in [
            (0.0, "0 ns"),
            (950.0, "950 ns"),
            (1200.0, "1.20 us"),
            (12_345_678.0, "12.3 ms"),
            (999_600_000.0, "1.00 s"),
            (123e9, "123 s"),
        ] {
            assert_eq!(duration(nanos), text);
        }
    }

    #[test]
    fn spans_change_unit() {
        for (seconds, text) in [
            (0.0, UNKNOWN),
            (2.04, "2.0 s"),
            (60.0, "60 s"),
            (600.0, "10 min"),
            (9000.0, "2.5 h"),
        ] {
            assert_eq!(span(seconds), text);
        }
    }
}
