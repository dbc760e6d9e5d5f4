//! Parses counts on the command line, such as `200`, `50k` or `2m`.

use std::ops::RangeInclusive;

/// Parses a whole number with an optional suffix, in upper or lower case: k for thousands, m for
/// millions.
fn parse(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "" => Some(1),
        "k" | "K" => Some(1_000),
        "m" | "M" => Some(1_000_000),
        _ => None,
    };
    let count = digits.parse().ok().zip(unit);
    count
        .and_then(|(count, unit): (u64, u64)| count.checked_mul(unit))
        .ok_or_else(|| {
            format!("'{text}' is not a count: write a whole number, such as 200, 50k or 2m")
        })
}

/// Returns a parser that accepts the counts in `range`.
pub fn within<T: TryFrom<u64> + Into<u64> + Copy + Send + Sync + 'static>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync {
    let (least, most) = ((*range.start()).into(), (*range.end()).into());
    move |text| {
        let count = parse(text)?;
        T::try_from(count)
            .ok()
            .filter(|_| (least..=most).contains(&count))
            .ok_or_else(|| {
                if most == u64::MAX {
                    format!("'{text}' is too small: the minimum is {least}")
                } else {
                    format!("'{text}' is out of range: write {least} to {most}")
                }
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_with_suffixes_are_read() {
        for (text, count) in [
            ("0", 0),
            ("200", 200),
            ("50k", 50_000),
            ("50K", 50_000),
            ("2m", 2_000_000),
            ("2M", 2_000_000),
        ] {
            assert_eq!(parse(text), Ok(count), "{text:?}");
        }
    }

    #[test]
    fn invalid_counts_are_rejected_with_example() {
        for text in [
            "",
            "k",
            "-1",
            "1.5k",
            "5G",
            "50 k",
            "0x10",
            "99999999999999m",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("50k"), "{text:?}: {error}");
        }
    }

    #[test]
    fn counts_out_of_range_are_rejected_with_range() {
        let users = within(1_u32..=1024);
        assert_eq!(users("1k"), Ok(1000));
        for text in ["0", "2k", "5000m"] {
            let error = users(text).unwrap_err();
            assert!(error.contains("1 to 1024"), "{text:?}: {error}");
        }
        assert!(
            within(1..=u64::MAX)("0")
                .unwrap_err()
                .contains("minimum is 1")
        );
    }
}
