//! Progress bars, with an estimate of the time left.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal};

/// What a bar shows before the number of runs is known.
const PREPARING: &str = "preparing, {elapsed}";

/// What a bar shows during the runs.
const RUNNING: &str = "{bar:30} {pos} of {len} runs, {elapsed}, about {eta} left";

/// Returns a progress bar of `total` runs (0 if the number is unknown) on standard error. The bar
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
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    bar
}

/// Sets the number of runs, once it is known.
pub(super) fn set_total(bar: &ProgressBar, total: u64) {
    if bar.length() == Some(total) {
        return;
    }
    bar.set_length(total);
    bar.set_style(style(RUNNING));
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the built-in templates are valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_templates_are_valid() {
        for template in [PREPARING, RUNNING] {
            style(template);
        }
    }
}
