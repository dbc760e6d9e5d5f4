//! The progress bar of a command. It is shown on standard error, and only if that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal};

/// Returns a progress bar, which is hidden unless standard error is a terminal. `total_bytes` can be slow, so it
/// is called only if the bar is visible.
pub(crate) fn bar(total_bytes: impl FnOnce() -> u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(total_bytes());
    let style = "{bar:30} {bytes} of {total_bytes}, {binary_bytes_per_sec}, {eta} left";
    match ProgressStyle::with_template(style) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
