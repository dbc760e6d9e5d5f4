//! Formats numbers, counts and durations as text.

use std::time::Duration;

/// Formats the value with about four significant digits: `0.123`, `12.34`, `123.4`, `12345`.
pub fn significant(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let decimals = match value.abs() {
        0.0 => 0,
        a if a < 10.0 => 3,
        a if a < 100.0 => 2,
        a if a < 1000.0 => 1,
        _ => 0,
    };
    // Removes the sign of zero.
    format!("{:.decimals$}", value + 0.0)
}

/// Formats a change in percent as in the published tables: `+5.0%`.
pub fn change(pct: Option<f64>) -> String {
    pct.map_or_else(|| "-".to_owned(), |pct| format!("{:+.1}%", pct + 0.0))
}

/// Formats the value, or returns `none` if there is no value.
pub fn text_or(value: Option<impl ToString>, none: &str) -> String {
    value.map_or_else(|| none.to_owned(), |value| value.to_string())
}

/// Formats a count with its noun: `1 miss`, `2 misses`.
#[must_use]
pub fn counted(count: u64, singular: &str, plural: &str) -> String {
    let noun = if count == 1 { singular } else { plural };
    format!("{count} {noun}")
}

/// Formats a part of a whole with two decimals; `-` if the whole is zero.
pub fn ratio(part: f64, whole: f64) -> String {
    let ratio = part / whole;
    if ratio.is_finite() {
        format!("{ratio:.2}")
    } else {
        "-".to_owned()
    }
}

/// Formats a duration in a suitable unit: `850 ns`, `12.3 µs`, `4.56 ms`, `7.89 s`.
#[must_use]
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let (value, unit) = match duration.as_nanos() {
        nanos if nanos < 1_000 => return format!("{nanos} ns"),
        nanos if nanos < 1_000_000 => (seconds * 1e6, "µs"),
        nanos if nanos < 1_000_000_000 => (seconds * 1e3, "ms"),
        _ => (seconds, "s"),
    };
    let decimals = if value < 10.0 {
        2
    } else {
        usize::from(value < 100.0)
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn significant_figures_keep_four_digits() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (0.1234, "0.123"),
            (12.345, "12.35"),
            (123.45, "123.5"),
            (61437.27, "61437"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(significant(value), text, "{value}");
        }
    }

    #[test]
    fn changes_have_a_sign_and_one_decimal() {
        assert_eq!(change(Some(5.04)), "+5.0%");
        assert_eq!(change(Some(-0.1)), "-0.1%");
        assert_eq!(change(Some(0.0)), "+0.0%");
        assert_eq!(change(None), "-");
    }

    #[test]
    fn counted_nouns_agree_with_their_count() {
        assert_eq!(counted(0, "miss", "misses"), "0 misses");
        assert_eq!(counted(1, "miss", "misses"), "1 miss");
        assert_eq!(counted(2, "miss", "misses"), "2 misses");
    }

    #[test]
    fn ratio_to_zero_is_a_dash() {
        assert_eq!(ratio(1.0, 4.0), "0.25");
        assert_eq!(ratio(1.0, 0.0), "-");
    }

    #[test]
    fn durations_have_a_suitable_unit() {
        for (nanos, text) in [
            (0, "0 ns"),
            (850, "850 ns"),
            (12_340, "12.3 µs"),
            (4_560_000, "4.56 ms"),
            (123_000_000, "123 ms"),
            (7_890_000_000, "7.89 s"),
        ] {
            assert_eq!(duration(Duration::from_nanos(nanos)), text);
        }
    }
}
