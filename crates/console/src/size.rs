//! Parses and formats sizes such as `256M`.

/// Parses a number of bytes with an optional suffix: K, M, G or T, which stand for powers of 1024. The suffix
/// may be in upper or lower case, and may be followed by `iB` or `B`.
pub fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let number: u64 = digits.parse().map_err(|_| {
        format!("'{text}' is not a size: write a number of bytes, such as 4096 or 256M")
    })?;
    let suffix = text[digits.len()..].trim().to_ascii_lowercase();
    let unit = suffix.strip_suffix("ib").or(suffix.strip_suffix('b'));
    let shift = match unit.unwrap_or(&suffix) {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => {
            return Err(format!(
                "'{text}' is not a size: the suffix must be K, M, G or T"
            ));
        }
    };
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("'{text}' is too large"))
}

/// The minimum memory for all caches together, in bytes.
const MIN_CACHE_BYTES: u64 = 1 << 20;

/// Parses the memory for all caches together.
pub fn parse_cache(text: &str) -> Result<u64, String> {
    match parse(text)? {
        bytes if bytes < MIN_CACHE_BYTES => {
            Err(format!("'{text}' is too small: the minimum is 1M (1 MiB)"))
        }
        bytes => Ok(bytes),
    }
}

/// Formats a number of bytes for the user, as in `1.5 GiB`.
#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
#[must_use]
pub fn human(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = "KiB";
    for larger in ["MiB", "GiB", "TiB"] {
        // A value that would be rounded to 1024.0 is shown as 1.0 of the next unit.
        if value < 1023.95 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    format!("{value:.1} {unit}")
}

/// Formats a number of bytes as `ls -h`, `du -h` and `df -h` do: as in `1.5G`, with at most three digits and rounded up.
#[must_use]
pub fn short(bytes: u64) -> String {
    let bytes = u128::from(bytes);
    let mut unit = 1;
    let mut suffixes = "KMGTPE".chars();
    let mut suffix = None;
    // A value that is rounded up to 1024 is shown as 1.0 of the next unit.
    while bytes.div_ceil(unit) >= 1024 {
        suffix = suffixes.next();
        unit *= 1024;
    }
    let Some(suffix) = suffix else {
        return bytes.to_string();
    };
    let tenths = (10 * bytes).div_ceil(unit);
    if tenths < 100 {
        format!("{}.{}{suffix}", tenths / 10, tenths % 10)
    } else {
        format!("{}{suffix}", bytes.div_ceil(unit))
    }
}

/// Formats a number of bytes as `du` and `df` do: in KiB, rounded up. If `is_human_readable`, formats it as [`short`]
/// does.
#[must_use]
pub fn shown(bytes: u64, is_human_readable: bool) -> String {
    if is_human_readable {
        short(bytes)
    } else {
        bytes.div_ceil(1024).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_suffixes_are_read() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("4k", 4096),
            ("4K", 4096),
            ("4KiB", 4096),
            ("4kB", 4096),
            ("256M", 256 << 20),
            ("3g", 3 << 30),
            ("1T", 1 << 40),
            (" 7 M ", 7 << 20),
            ("100B", 100),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text:?}");
        }
    }

    #[test]
    fn invalid_sizes_are_rejected() {
        for text in ["", "M", "-1", "1.5G", "1X", "1Mi", "99999999999G", "0x10"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn sizes_are_formatted_with_units() {
        assert_eq!(human(0), "0 B");
        assert_eq!(human(1023), "1023 B");
        assert_eq!(human(1024), "1.0 KiB");
        assert_eq!(human((1 << 20) - 1), "1.0 MiB");
        assert_eq!(human(256 << 20), "256.0 MiB");
        assert_eq!(human(3 << 29), "1.5 GiB");
        assert_eq!(human(5 << 40), "5.0 TiB");
    }
    /// The texts are those of GNU coreutils 9.1: of `ls -lh`, and of `numfmt --to=iec --round=up` for sizes that no file has.
    #[test]
    fn short_sizes_are_rounded_up_as_ls_does() {
        for (bytes, text) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1.0K"),
            (1025, "1.1K"),
            (10137, "9.9K"),
            (10138, "10K"),
            (10240, "10K"),
            (10241, "11K"),
            (1023 << 10, "1023K"),
            ((1023 << 10) + 1, "1.0M"),
            ((1 << 20) - 1, "1.0M"),
            ((1 << 20) + 1, "1.1M"),
            (3 << 29, "1.5G"),
            (u64::MAX >> 1, "8.0E"),
        ] {
            assert_eq!(short(bytes), text, "{bytes}");
        }
        assert_eq!(short(u64::MAX), "16E");
    }
}
