//! Progress bars.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal};

/// Returns a progress bar of `total` runs (0 if the number is unknown) on standard error. The bar
/// is hidden if standard error is not a terminal.
pub(super) fn progress(total: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("preparing, {elapsed}") {
        bar.set_style(style);
    }
    if total > 0 {
        set_total(&bar, total);
    }
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    bar
}

/// Sets the number of runs, once it is known.
pub(super) fn set_total(bar: &ProgressBar, total: u64) {
    if bar.length() == Some(total) {
        return;
    }
    bar.set_length(total);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos} of {len} runs, {elapsed}") {
        bar.set_style(style);
    }
}
