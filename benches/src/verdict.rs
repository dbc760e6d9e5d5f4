//! The targets of a run, and whether the run meets them.

use std::fmt::Write;

/// A target, and the figures of all cases to which it applies.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What is compared.
    pub subject: String,
    /// The limit, such as `at most 1.3 × kernel`.
    pub limit: String,
    /// The figure of each case that was measured, and whether the figure meets the target.
    pub figures: Vec<(f64, bool)>,
}

impl Verdict {
    /// Judges `figures`, each of which must satisfy `is_met`.
    pub fn new(
        subject: &str,
        limit: &str,
        figures: impl IntoIterator<Item = f64>,
        is_met: impl Fn(f64) -> bool,
    ) -> Self {
        let figures = figures.into_iter();
        Self {
            subject: subject.to_owned(),
            limit: limit.to_owned(),
            figures: figures.map(|figure| (figure, is_met(figure))).collect(),
        }
    }

    /// Returns whether each figure meets the target; false if there are no figures.
    #[must_use]
    pub fn is_met(&self) -> bool {
        !self.figures.is_empty() && self.figures.iter().all(|(_, met)| *met)
    }

    /// Returns the result, such as `met`, `**missed**` or `met in 2 of 5 cases, **missed** in the others`.
    #[must_use]
    pub fn result(&self) -> String {
        let (met, all) = (
            self.figures.iter().filter(|(_, met)| *met).count(),
            self.figures.len(),
        );
        match (met, all) {
            (_, 0) => "not measured".to_owned(),
            (1, 1) => "met".to_owned(),
            (_, 1) => "**missed**".to_owned(),
            (met, all) if met == all => format!("met in all {all} cases"),
            (0, all) => format!("**missed** in all {all} cases"),
            (met, all) => format!("met in {met} of {all} cases, **missed** in the others"),
        }
    }

    /// Returns the smallest and the largest figure, the only figure, or a dash if there is none.
    #[must_use]
    pub fn range(&self) -> String {
        let figures = self.figures.iter().map(|(figure, _)| *figure);
        let (least, most) = (figures.clone().reduce(f64::min), figures.reduce(f64::max));
        match (least, most) {
            (Some(least), Some(most)) if self.figures.len() > 1 => {
                format!("{least:.2} to {most:.2}")
            }
            (Some(only), _) => format!("{only:.2}"),
            _ => "-".to_owned(),
        }
    }
}

/// Returns a Markdown table of `verdicts`.
#[must_use]
pub fn table(verdicts: &[Verdict]) -> String {
    let mut text = "| measure | target | figure | result |\n|---|---|---|---|\n".to_owned();
    for one in verdicts {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            one.subject,
            one.limit,
            one.range(),
            one.result()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(figures: &[f64]) -> String {
        Verdict::new("", "", figures.iter().copied(), |figure| figure >= 1.0).result()
    }

    #[test]
    fn result_counts_the_cases_that_meet_the_target() {
        assert_eq!(result(&[]), "not measured");
        assert_eq!(result(&[1.0]), "met");
        assert_eq!(result(&[0.9]), "**missed**");
        assert_eq!(result(&[1.0, 2.0]), "met in all 2 cases");
        assert_eq!(result(&[0.5, 0.9]), "**missed** in all 2 cases");
        assert_eq!(
            result(&[0.5, 1.0, 2.0]),
            "met in 2 of 3 cases, **missed** in the others"
        );
    }

    #[test]
    fn range_of_one_figure_is_that_figure() {
        let range =
            |figures: &[f64]| Verdict::new("", "", figures.iter().copied(), |_| true).range();
        assert_eq!(range(&[]), "-");
        assert_eq!(range(&[1.0]), "1.00");
        assert_eq!(range(&[2.0, 0.5, 1.0]), "0.50 to 2.00");
    }
}
