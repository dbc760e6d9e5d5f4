//! Random orders, ranks and sizes.

use rand::Rng;
use rand_distr::{Distribution, LogNormal, Zipf};
use rand_pcg::Pcg64;

pub(super) fn shuffle<T>(values: &mut [T], random: &mut Pcg64) {
    for last in (1..values.len()).rev() {
        values.swap(last, random.random_range(0..=last));
    }
}

/// Returns the distribution of the ranks that are drawn for `count` keys. The ranks start at 1, which is the
/// most frequent.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
pub(super) fn zipf(count: usize) -> Zipf<f64> {
    Zipf::new(count as f64, 0.9).expect("the count and the exponent are positive")
}

/// Draws the rank of a key. Here the ranks start at 0.
pub(super) fn rank(popular: Zipf<f64>, random: &mut Pcg64) -> usize {
    usize::try_from(whole(popular.sample(random)) - 1).unwrap_or_default()
}

pub(super) fn log_normal(median: f64, sigma: f64) -> LogNormal<f64> {
    LogNormal::new(median.ln(), sigma).expect("the deviation is positive")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative; a value that is too large saturates"
)]
pub(super) fn whole(number: f64) -> u64 {
    number.ceil() as u64
}
