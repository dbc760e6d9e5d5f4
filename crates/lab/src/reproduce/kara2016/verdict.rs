//! Decides whether the letter's findings hold in the measurements.
//!
//! A table that shows a finding agrees. A table that does not show it differs. There is one exception: if
//! the finding concerns contention between processors, and the table was measured on fewer processors than
//! the letter's machine had, the table cannot refute the finding. A finding lists its tables in order. The
//! verdict on the finding is that of the first table that agrees or differs, which may be the simulated
//! table.

use serde::Serialize;

use super::findings::{Finding, Observed, Source};
use super::grid::Grid;
use crate::published::kara2016::PROCESSORS;

/// Whether a finding holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The finding holds.
    Agrees,
    /// The finding does not hold.
    Differs,
    /// The machine has too few processors to refute the finding, or nothing was measured.
    CannotBeShown,
    /// There are too few measurements for a verdict.
    NotJudged,
}

impl Verdict {
    /// Returns the name used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Differs => "differs",
            Self::CannotBeShown => "cannot be shown here",
            Self::NotJudged => "not judged",
        }
    }
}

/// A finding, with the results of all tables.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    #[serde(flatten)]
    pub finding: &'static Finding,
    /// The result for the published table.
    pub published: Option<Observed>,
    /// The result for each measured or simulated table.
    pub ours: Vec<Answer>,
    /// Whether the finding holds.
    pub verdict: Verdict,
    /// The table that determined the verdict.
    pub decided_by: Option<Source>,
}

/// The result for a measured or simulated table.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The table.
    pub source: Source,
    /// What the table shows; `None` if it was not measured or lacks the necessary cases.
    pub observed: Option<Observed>,
    /// The verdict from these figures.
    pub verdict: Verdict,
}

impl Judged {
    /// Returns the result for the decisive table.
    pub fn decisive(&self) -> Option<&Answer> {
        let mut ours = self.ours.iter();
        ours.find(|answer| Some(answer.source) == self.decided_by)
    }
}

/// Evaluates a finding on the published table and on all others. `processors` is the number of processors on
/// which tables were measured. `None` means that there were too few sets for verdicts, so that only the
/// simulated table is judged.
pub fn judge(
    finding: &'static Finding,
    published: &Grid,
    ours: &[(Source, Grid)],
    processors: Option<u32>,
) -> Judged {
    let answers = finding.sources.iter().map(|&source| {
        let grid = ours.iter().find(|(of, _)| *of == source);
        let observed = grid.and_then(|(_, grid)| (finding.observe)(grid));
        let processors = match source {
            Source::Simulated => Some(PROCESSORS),
            Source::Volume | Source::Engine | Source::Kernel => processors,
        };
        let verdict = match (&observed, processors) {
            (None, _) => Verdict::CannotBeShown,
            (Some(_), None) => Verdict::NotJudged,
            (Some(observed), _) if observed.holds => Verdict::Agrees,
            (Some(_), Some(few)) if finding.needs_processors && few < PROCESSORS => {
                Verdict::CannotBeShown
            }
            (Some(_), Some(_)) => Verdict::Differs,
        };
        Answer {
            source,
            observed,
            verdict,
        }
    });
    let answers: Vec<Answer> = answers.collect();
    let decisive = answers
        .iter()
        .find(|answer| matches!(answer.verdict, Verdict::Agrees | Verdict::Differs));
    let undecided = match processors {
        Some(_) => Verdict::CannotBeShown,
        None => Verdict::NotJudged,
    };
    Judged {
        finding,
        published: (finding.observe)(published),
        verdict: decisive.map_or(undecided, |answer| answer.verdict),
        decided_by: decisive.map(|answer| answer.source),
        ours: answers,
    }
}

#[cfg(test)]
mod tests {
    use super::super::findings::FINDINGS;
    use super::super::grid::{GridRow, ORDER};
    use super::*;
    use larder::MbCacheVariant;

    /// Returns the published table, with the times of the selected cases under `variant` multiplied by
    /// `factor`.
    fn changed(variant: MbCacheVariant, factor: impl Fn(&GridRow) -> f64) -> Grid {
        let mut grid = Grid::published();
        let at = ORDER.iter().position(|of| *of == variant);
        for row in &mut grid.rows {
            let factor = factor(row);
            let seconds = &mut row.seconds[at.unwrap()];
            *seconds = seconds.map(|seconds| seconds * factor);
        }
        grid
    }

    fn named(name: &str) -> &'static Finding {
        FINDINGS
            .iter()
            .find(|finding| finding.name == name)
            .unwrap()
    }

    #[test]
    fn published_table_shows_every_finding() {
        let published = Grid::published();
        for finding in &FINDINGS {
            let observed = (finding.observe)(&published).unwrap();
            assert!(observed.holds, "{}: {}", finding.name, observed.figures);
        }
    }

    #[test]
    fn finding_fails_on_a_table_that_lacks_it() {
        use MbCacheVariant::{ListLru, Off, Old, Referenced};
        let as_referenced = |variant| {
            changed(variant, move |row| {
                row.of(Referenced).unwrap() / row.of(variant).unwrap_or(1.0)
            })
        };
        for (name, grid) in [
            ("never slower", changed(Referenced, |_| 2.0)),
            ("many processes", as_referenced(Old)),
            ("collapse", as_referenced(Old)),
            ("referenced or lru", changed(Referenced, |_| 1.2)),
            ("list-lru, contended", as_referenced(ListLru)),
            ("list-lru, mostly", as_referenced(ListLru)),
            ("off, unique values", as_referenced(Off)),
            ("off, repeated values", as_referenced(Off)),
            ("referenced bit", changed(Referenced, |_| 1.3)),
        ] {
            let observed = (named(name).observe)(&grid).unwrap();
            assert!(!observed.holds, "{name}: {}", observed.figures);
        }
    }

    #[test]
    fn few_processors_let_the_simulation_decide() {
        let published = Grid::published();
        let without = changed(MbCacheVariant::Old, |row| {
            let referenced = row.of(MbCacheVariant::Referenced).unwrap();
            referenced / row.of(MbCacheVariant::Old).unwrap_or(1.0)
        });
        let both = |simulated: &Grid| {
            vec![
                (Source::Volume, without.clone()),
                (Source::Simulated, simulated.clone()),
            ]
        };
        let finding = named("collapse");
        let judged = judge(finding, &published, &both(&published), Some(2));
        assert_eq!(judged.ours[0].verdict, Verdict::CannotBeShown);
        assert_eq!(judged.verdict, Verdict::Agrees);
        assert_eq!(judged.decided_by, Some(Source::Simulated));
        let judged = judge(finding, &published, &both(&without), Some(2));
        assert_eq!(judged.verdict, Verdict::Differs);
        // With all processors, the measurement decides.
        let judged = judge(finding, &published, &both(&published), Some(PROCESSORS));
        assert_eq!(judged.verdict, Verdict::Differs);
        assert_eq!(judged.decided_by, Some(Source::Volume));
        let judged = judge(finding, &published, &[], Some(2));
        assert_eq!(judged.verdict, Verdict::CannotBeShown);
        assert_eq!(judged.decided_by, None);
    }

    #[test]
    fn few_sets_let_the_simulation_decide() {
        let published = Grid::published();
        let ours = [Source::Volume, Source::Simulated].map(|source| (source, published.clone()));
        let judged = judge(named("never slower"), &published, &ours, None);
        assert_eq!(judged.ours[0].verdict, Verdict::NotJudged);
        assert_eq!(judged.verdict, Verdict::Agrees);
        assert_eq!(judged.decisive().unwrap().source, Source::Simulated);
        let judged = judge(named("off, repeated values"), &published, &ours, None);
        assert_eq!(judged.verdict, Verdict::NotJudged);
        assert!(judged.decisive().is_none());
    }

    #[test]
    fn finding_without_contention_differs_on_few_processors() {
        let published = Grid::published();
        let slower = changed(MbCacheVariant::Referenced, |_| 2.0);
        let ours = [(Source::Volume, slower)];
        let judged = judge(named("never slower"), &published, &ours, Some(2));
        assert_eq!(judged.verdict, Verdict::Differs);
    }
}
