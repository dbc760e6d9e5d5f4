//! The progress bar of a command. It is shown on standard error, and only if that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use larder_console::print_note;
use std::io::{self, IsTerminal};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The template of a bar.
const BAR: &str = "{bar:30} {bytes} of {total_bytes}, {binary_bytes_per_sec}, {eta} left";
/// The template for content of unknown length.
const SPINNER: &str = "{spinner} {bytes}, {binary_bytes_per_sec}";

/// The bar of the check of an image at a URL.
static CHECK: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Returns a progress bar, which is hidden unless standard error is a terminal. `total_bytes` can be slow, so it
/// is called only if the bar is visible.
pub(crate) fn bar(total_bytes: impl FnOnce() -> u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    styled(ProgressBar::new(total_bytes()), BAR)
}

/// Returns the progress of a copy whose length is not known, which is hidden unless standard error is a terminal.
pub(crate) fn spinner() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    styled(ProgressBar::new_spinner(), SPINNER)
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Shows how much of the content of an image at a URL was checked, until [`end_check`] is called.
pub fn show_check(done_bytes: u64, total_bytes: u64) {
    check()
        .get_or_insert_with(|| {
            print_note("checking the SHA-256 of the image");
            bar(|| total_bytes)
        })
        .set_position(done_bytes);
}

/// Removes the bar of [`show_check`], if there is one.
pub fn end_check() {
    if let Some(bar) = check().take() {
        bar.finish_and_clear();
    }
}

fn check() -> MutexGuard<'static, Option<ProgressBar>> {
    CHECK.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_valid() {
        for template in [BAR, SPINNER] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
