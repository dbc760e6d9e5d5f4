//! Measures of how evenly multiplication by a constant distributes numbers, computed from the constant
//! alone.

use crate::run_report::as_f64;
use std::collections::BTreeMap;

/// Returns the length of the shortest vector between points (x, x * `multiplier` mod 2^`bits`), divided by
/// the largest possible length: the spectral test in two dimensions (Knuth, volume 2, section 3.3.4). The
/// best result is 1.
pub(super) fn spectral(multiplier: u64, bits: u32) -> f64 {
    let modulus = 1_i128 << bits;
    // Euclid's algorithm maintains two vectors that span the lattice. It ends when the shorter one is at
    // most the square root of the modulus, so that no product below overflows.
    let root = 1_i128 << bits.div_ceil(2);
    let mut long = (modulus, 0);
    let mut short = (i128::from(multiplier) % modulus, 1);
    while short.0 > root {
        let times = long.0 / short.0;
        (long, short) = (short, (long.0 - times * short.0, long.1 - times * short.1));
    }
    // Gauss' reduction then finds the shortest vector.
    loop {
        let inner = long.0 * short.0 + long.1 * short.1;
        let square = short.0 * short.0 + short.1 * short.1;
        let times = (2 * inner + square).div_euclid(2 * square);
        let rest = (long.0 - times * short.0, long.1 - times * short.1);
        if length(rest) >= length(short) {
            break;
        }
        (long, short) = (short, rest);
    }
    length(short) / (word_size(bits) * 2.0 / 3_f64.sqrt()).sqrt()
}

#[expect(clippy::cast_precision_loss, reason = "displayed with a few digits")]
fn length((a, b): (i128, i128)) -> f64 {
    (a as f64).hypot(b as f64)
}

/// Returns 2^`bits`.
fn word_size(bits: u32) -> f64 {
    2_f64.powi(bits.cast_signed())
}

/// One more than the maximum number of points whose gaps are examined.
const NUMBERS: u64 = 1 << 16;

/// Returns the largest gap between points on a circle, divided by the mean gap: the worst result for any number
/// of points. The points are the products of `multiplier` and 1, 2, 3, ..., on a circle of length 2^`bits`. At
/// most 65535 points are added. At any time, the gaps have at most three different lengths (the three-gap
/// theorem). If the multiplier is the golden ratio, each new point falls into one of the largest gaps.
pub(super) fn worst_gap(multiplier: u64, bits: u32) -> f64 {
    let circle = 1_u128 << bits;
    let mask = u64::MAX >> (64 - bits);
    // `points` maps each point to the next one; `gaps` maps each length to the number of gaps of this length.
    let mut points = BTreeMap::from([(0, circle)]);
    let mut gaps = BTreeMap::from([(circle, 1_u64)]);
    let mut worst = 0.0_f64;
    for number in 1..NUMBERS.min(mask) {
        let point = u128::from(number.wrapping_mul(multiplier) & mask);
        let Some((&before, &after)) = points.range(..=point).next_back() else {
            break;
        };
        points.insert(before, point);
        points.insert(point, after);
        let of_length = gaps.entry(after - before).or_default();
        *of_length -= 1;
        if *of_length == 0 {
            gaps.remove(&(after - before));
        }
        for gap in [point - before, after - point] {
            *gaps.entry(gap).or_default() += 1;
        }
        let largest = gaps.last_key_value().map_or(0, |(gap, _)| *gap);
        let largest = u64::try_from(largest).map_or(f64::INFINITY, as_f64);
        worst = worst.max(largest * as_f64(number + 1) / word_size(bits));
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the shortest vector by exhaustive search.
    fn shortest(multiplier: u64, bits: u32) -> f64 {
        let modulus = 1_u64 << bits;
        let lengths = (1..modulus).map(|x| {
            let product = x * multiplier % modulus;
            let y = product.min(modulus - product);
            let x = x.min(modulus - x);
            as_f64(x * x + y * y)
        });
        let shortest = lengths.fold(as_f64(modulus * modulus), f64::min);
        (shortest / (as_f64(modulus) * 2.0 / 3_f64.sqrt())).sqrt()
    }

    #[test]
    fn spectral_figure_equals_that_of_an_exhaustive_search() {
        for bits in [8, 11, 12] {
            for multiplier in (1..1 << bits).step_by(2) {
                let (found, all) = (spectral(multiplier, bits), shortest(multiplier, bits));
                assert!(
                    (found - all).abs() < 1e-9,
                    "{multiplier} of {bits} bits: {found} {all}"
                );
            }
        }
    }

    #[test]
    fn spectral_figure_of_large_words_stays_within_0_and_1() {
        for multiplier in [1, 3, 1 << 40 | 1, 0x9e37_79b9_7f4a_7c15, u64::MAX] {
            let figure = spectral(multiplier, 64);
            assert!(figure > 0.0 && figure <= 1.0, "{multiplier:#x}: {figure}");
        }
    }

    #[test]
    fn worst_gap_is_small_for_the_golden_ratio_and_large_for_small_multipliers() {
        // The largest gap of the golden ratio, from its convergents: below 1 + 2 / sqrt(5).
        let golden = worst_gap(0x9e37_79b9_7f4a_7c15, 64);
        assert!(golden > 1.5 && golden < 1.8945, "{golden}");
        // The points 1, 2, 3, ... of 2^64 are all near its start.
        assert!(worst_gap(1, 64) > 65_000.0);
    }
}
