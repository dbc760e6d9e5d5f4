//! Decides whether the letter's findings hold in the measurements.
//!
//! A finding lists its tables in order. The first table that decides the finding determines its verdict. If the
//! finding concerns contention between processors, a table decides nothing if it was measured on fewer processors
//! than the letter's machine had: it can neither show nor refute the finding. The simulated table has as many
//! processors as that machine.

use serde::Serialize;

use super::findings::{Rule, Source};
use super::grid::Grid;
use crate::published::kara2016::PROCESSORS;
use crate::reproduce::finding::{Finding, Observed, Verdict};

/// A finding, with the results of all tables.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    #[serde(flatten)]
    pub finding: &'static Finding<Grid>,
    /// The result for the published table.
    pub published: Option<Observed>,
    /// The verdict for the published table.
    pub published_verdict: Verdict,
    /// The result for each measured or simulated table.
    pub ours: Vec<Answer>,
    /// Whether the finding holds.
    pub verdict: Verdict,
    /// The table that determined the verdict.
    pub decided_by: Option<Source>,
    /// The verdict for the published table if all its times were equal.
    pub if_nothing_changed: Verdict,
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
    /// The verdict if all times of this table were equal.
    pub if_nothing_changed: Verdict,
}

impl Answer {
    /// Returns whether the table decides the opposite of `verdict`.
    pub fn is_contrary_to(&self, verdict: Verdict) -> bool {
        self.verdict.is_decided() && self.verdict != verdict
    }
}

impl Judged {
    /// Returns the result for the decisive table.
    pub fn decisive(&self) -> Option<&Answer> {
        let mut ours = self.ours.iter();
        ours.find(|answer| Some(answer.source) == self.decided_by)
    }
}

/// Evaluates a finding on the published table and on all others. `processors` is the number of processors on
/// which tables were measured, or `None` for a quick run. In a quick run, only the simulated table is judged,
/// because the others have too few sets for a verdict.
pub fn judge(
    rule: &'static Rule,
    published: &Grid,
    ours: &[(Source, Grid)],
    processors: Option<u32>,
) -> Judged {
    let finding = &rule.finding;
    let answers = rule.sources.iter().map(|&source| {
        let grid = ours.iter().find(|(of, _)| *of == source);
        let grid = grid.map(|(_, grid)| grid);
        let observed = grid.and_then(finding.observe);
        let processors = match source {
            Source::Simulated => Some(PROCESSORS),
            Source::Volume | Source::Engine | Source::Kernel => processors,
        };
        let verdict = match (&observed, processors) {
            (None, _) => Verdict::NotMeasured,
            (Some(_), None) => Verdict::QuickRun,
            (Some(_), Some(few)) if rule.needs_processors && few < PROCESSORS => {
                Verdict::CannotBeShown
            }
            (Some(observed), Some(_)) => observed.verdict(),
        };
        Answer {
            source,
            observed,
            verdict,
            if_nothing_changed: grid.map_or(Verdict::NotMeasured, |grid| {
                finding.if_nothing_changed(grid)
            }),
        }
    });
    let answers: Vec<Answer> = answers.collect();
    let decisive = answers.iter().find(|answer| answer.verdict.is_decided());
    let undecided = Verdict::all(answers.iter().map(|answer| answer.verdict));
    let observed = (finding.observe)(published);
    Judged {
        finding,
        published_verdict: Observed::verdict_of(observed.as_ref()),
        published: observed,
        verdict: decisive.map_or(undecided, |answer| answer.verdict),
        decided_by: decisive.map(|answer| answer.source),
        if_nothing_changed: finding.if_nothing_changed(published),
        ours: answers,
    }
}

#[cfg(test)]
mod tests {
    use super::super::findings::RULES;
    use super::super::grid::{GridRow, ORDER};
    use super::*;
    use crate::reproduce::finding::Verdict::{DoesNotHold, Holds, WithinNoise};
    use crate::reproduce::finding::expect;
    use larder::MbCacheVariant::{self, ListLru, Off, Old, Referenced};

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

    fn named(name: &str) -> &'static Rule {
        RULES.iter().find(|rule| rule.finding.name == name).unwrap()
    }

    fn findings() -> Vec<&'static Finding<Grid>> {
        RULES.iter().map(|rule| &rule.finding).collect()
    }

    /// The verdicts for the published table, all times equal, effects inverted, and effects halved.
    #[test]
    fn findings_are_judged_on_changed_tables() {
        expect::verdicts(
            &findings(),
            &Grid::published(),
            &[
                ("never slower", [Holds, Holds, DoesNotHold, Holds]),
                (
                    "many processes",
                    [Holds, DoesNotHold, DoesNotHold, DoesNotHold],
                ),
                ("collapse", [Holds, DoesNotHold, DoesNotHold, WithinNoise]),
                (
                    "referenced or lru",
                    [Holds, WithinNoise, DoesNotHold, Holds],
                ),
                (
                    "list-lru, contended",
                    [Holds, DoesNotHold, DoesNotHold, DoesNotHold],
                ),
                ("list-lru, mostly", [Holds, DoesNotHold, DoesNotHold, Holds]),
                (
                    "off, unique values",
                    [Holds, DoesNotHold, DoesNotHold, WithinNoise],
                ),
                (
                    "off, repeated values",
                    [Holds, DoesNotHold, DoesNotHold, Holds],
                ),
                (
                    "referenced bit",
                    [Holds, DoesNotHold, DoesNotHold, WithinNoise],
                ),
            ],
        );
    }

    #[test]
    fn no_finding_holds_with_noise_alone() {
        expect::noise(&findings(), &Grid::published());
        expect::noise(&findings(), &repeated());
    }

    /// Returns the published table, with ten repetitions that are equal to it.
    fn repeated() -> Grid {
        let published = Grid::published();
        Grid {
            repetitions: vec![published.clone(); 10],
            ..published
        }
    }

    /// With repetitions, intervals are narrower than those of the noise of the published table.
    #[test]
    fn findings_are_judged_on_changed_tables_with_repetitions() {
        let half_does_not_hold = [Holds, DoesNotHold, DoesNotHold, DoesNotHold];
        let half_holds = [Holds, DoesNotHold, DoesNotHold, Holds];
        expect::verdicts(
            &findings(),
            &repeated(),
            &[
                ("never slower", [Holds, Holds, DoesNotHold, Holds]),
                ("many processes", half_does_not_hold),
                ("collapse", half_holds),
                ("referenced or lru", half_holds),
                ("list-lru, contended", half_does_not_hold),
                ("list-lru, mostly", half_holds),
                ("off, unique values", half_does_not_hold),
                ("off, repeated values", half_holds),
                ("referenced bit", half_does_not_hold),
            ],
        );
    }

    #[test]
    fn finding_fails_on_a_table_that_lacks_it() {
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
            assert_eq!(named(name).finding.verdict(&grid), DoesNotHold, "{name}");
        }
    }

    #[test]
    fn few_processors_neither_show_nor_refute_contention() {
        let published = Grid::published();
        let without = changed(Old, |row| {
            row.of(Referenced).unwrap() / row.of(Old).unwrap_or(1.0)
        });
        let rule = named("collapse");
        for (engine, simulated, verdict) in [
            (&without, &published, Holds),
            (&published, &without, DoesNotHold),
        ] {
            let both = [
                (Source::Engine, engine.clone()),
                (Source::Simulated, simulated.clone()),
            ];
            let judged = judge(rule, &published, &both, Some(2));
            assert_eq!(judged.ours[1].verdict, Verdict::CannotBeShown);
            assert_eq!(judged.verdict, verdict);
            assert_eq!(judged.decided_by, Some(Source::Simulated));
            // With all processors, the measurement decides.
            let judged = judge(rule, &published, &both, Some(PROCESSORS));
            assert_eq!(judged.decided_by, Some(Source::Engine));
            assert_ne!(judged.verdict, verdict);
        }
        let judged = judge(rule, &published, &[], Some(2));
        assert_eq!(judged.verdict, Verdict::NotMeasured);
        assert_eq!(judged.decided_by, None);
    }

    #[test]
    fn few_sets_let_the_simulation_decide() {
        let published = Grid::published();
        let ours = [Source::Volume, Source::Simulated].map(|source| (source, published.clone()));
        let judged = judge(named("never slower"), &published, &ours, None);
        assert_eq!(judged.ours[0].verdict, Verdict::QuickRun);
        assert_eq!(judged.verdict, Holds);
        assert_eq!(judged.if_nothing_changed, Holds);
        assert_eq!(judged.decisive().unwrap().source, Source::Simulated);
        let judged = judge(named("never slower"), &published, &ours[..1], None);
        assert!(!judged.verdict.is_decided());
        assert!(judged.decisive().is_none());
    }

    #[test]
    fn finding_without_contention_is_refuted_on_few_processors() {
        let published = Grid::published();
        let slower = changed(Referenced, |_| 2.0);
        let ours = [(Source::Volume, slower)];
        let judged = judge(named("never slower"), &published, &ours, Some(2));
        assert_eq!(judged.verdict, DoesNotHold);
    }
}
