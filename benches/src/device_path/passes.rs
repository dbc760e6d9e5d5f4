//! Passes: reads that are repeated, of which the median counts.

use anyhow::Result;

use crate::work::Reading;

/// How often each side reads.
pub(super) const PASSES: usize = 5;

/// Calls `read` [`PASSES`] times. Returns the reading whose time is the median, with the wrong pages of all.
pub(super) fn median_pass(read: impl FnMut() -> Result<Reading>) -> Result<Reading> {
    let readings: Result<Vec<_>> = std::iter::repeat_with(read).take(PASSES).collect();
    let mut readings = readings?;
    readings.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    let wrong_pages = readings.iter().map(|reading| reading.wrong_pages).sum();
    Ok(Reading {
        wrong_pages,
        ..readings.swap_remove(PASSES / 2)
    })
}
