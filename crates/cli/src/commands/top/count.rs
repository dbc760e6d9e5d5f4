//! Counts as short texts.

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
