//! Progress bars, with an estimate of the time left.

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use larder_console::print_note;
use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a bar shows before the number of steps is known. A step is a run or a part of it.
const PREPARING: &str = "preparing, {elapsed}";

/// What a bar shows during the steps.
const RUNNING: &str = "{bar:30} {pos} of {len} steps, {elapsed}, about {eta} left";

/// What a bar shows during steps of different durations. The message is the estimated time left.
const ESTIMATED: &str = "{bar:30} {pos} of {len} steps, {elapsed}, about {msg} left";

/// The minimum time between two lines of [`LongProgress`].
const LINES_APART: Duration = Duration::from_mins(5);

/// The progress of a command that takes hours: a bar on a terminal, and a line every few minutes elsewhere.
pub(super) struct LongProgress {
    bar: ProgressBar,
    /// When the last line was printed; `None` on a terminal.
    last_line: Option<Mutex<Instant>>,
}

impl LongProgress {
    pub(super) fn new() -> Self {
        let is_terminal = io::stderr().is_terminal();
        Self {
            bar: progress(0),
            last_line: (!is_terminal).then(|| Mutex::new(Instant::now())),
        }
    }

    /// Sets the numbers of finished steps and of all steps, and the estimated time left.
    pub(super) fn set(&self, finished: usize, total: usize, left: Duration) {
        set_estimated(&self.bar, finished as u64, total as u64, left);
        let Some(last_line) = &self.last_line else {
            return;
        };
        let mut last_line = last_line.lock().unwrap_or_else(PoisonError::into_inner);
        if last_line.elapsed() >= LINES_APART {
            *last_line = Instant::now();
            print_note(&line(finished, total, left));
        }
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Returns the progress in a line.
fn line(finished: usize, total: usize, left: Duration) -> String {
    let minutes = left.as_secs().div_ceil(60);
    format!("{finished} of {total} steps, about {minutes} minutes left")
}

/// Returns a progress bar of `total` steps (0 if the number is unknown) on standard error. The bar
/// is hidden if standard error is not a terminal.
pub(super) fn progress(total: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0);
    bar.set_style(style(PREPARING));
    if total > 0 {
        set_total(&bar, total);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Sets the number of steps, once it is known.
pub(super) fn set_total(bar: &ProgressBar, total: u64) {
    set_length(bar, total, RUNNING);
}

/// Sets the numbers of finished steps and of all steps, and the estimated time left.
fn set_estimated(bar: &ProgressBar, finished: u64, total: u64, left: Duration) {
    set_length(bar, total, ESTIMATED);
    bar.set_position(finished);
    bar.set_message(HumanDuration(left).to_string());
}

/// Sets the number of steps and the template, unless the number is set already.
fn set_length(bar: &ProgressBar, total: u64, template: &str) {
    if bar.length() == Some(total) {
        return;
    }
    bar.set_length(total);
    bar.set_style(style(template));
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the built-in templates are valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_templates_are_valid() {
        for template in [PREPARING, RUNNING, ESTIMATED] {
            style(template);
        }
    }

    #[test]
    fn bar_shows_the_estimated_time_left() {
        let bar = ProgressBar::hidden();
        set_estimated(&bar, 3, 10, Duration::from_mins(5));
        assert_eq!((bar.position(), bar.length()), (3, Some(10)));
        assert_eq!(bar.message(), "5 minutes");
    }

    #[test]
    fn line_has_the_time_left_in_minutes() {
        let left = Duration::from_secs(95 * 60 - 1);
        assert_eq!(
            line(312, 1917, left),
            "312 of 1917 steps, about 95 minutes left"
        );
    }
}
