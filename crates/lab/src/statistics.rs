//! Figures of several runs as one.

use crate::run_report::as_f64;

/// The mean. None of none: not a number.
#[must_use]
pub fn mean(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / as_f64(figures.len() as u64)
}

/// The standard deviation of runs like these (the sample's); 0 of fewer than two.
#[must_use]
pub fn deviation(figures: &[f64]) -> f64 {
    let others = figures.len().saturating_sub(1);
    if others == 0 {
        return 0.0;
    }
    let mean = mean(figures);
    let squares = figures.iter().map(|figure| (figure - mean).powi(2));
    (squares.sum::<f64>() / as_f64(others as u64)).sqrt()
}

/// The one in the middle, or the mean of the two there: one slow run does not move it. None of
/// none: not a number.
#[must_use]
pub fn median(figures: &[f64]) -> f64 {
    let mut figures = figures.to_vec();
    figures.sort_by(f64::total_cmp);
    let last = figures.len().saturating_sub(1);
    let middle = |at: usize| figures.get(at).copied().unwrap_or(f64::NAN);
    middle(last / 2).midpoint(middle(last.div_ceil(2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_figure_in_the_middle_or_between_the_two_there() {
        assert!((median(&[9.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((median(&[9.0, 1.0, 2.0, 4.0]) - 3.0).abs() < 1e-12);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn figures_of_runs_are_their_mean_and_how_they_scatter() {
        let runs = [1.0, 2.0, 3.0];
        assert_eq!((mean(&runs), deviation(&runs)), (2.0, 1.0));
        assert_eq!((mean(&[5.0]), deviation(&[5.0])), (5.0, 0.0));
    }
}
