//! Decides whether the letter's findings hold in the measurements.
//!
//! A finding lists its tables in order. The first table that decides the finding determines its verdict. If the
//! finding concerns contention between processors, a table decides nothing if it was measured on fewer processors
//! than the letter's machine had: it can neither show nor refute the finding. The simulated table has as many
//! processors as that machine. If the finding concerns the commits of additional blocks, a table decides nothing if its
//! journal committed less than twice as often under `off` as under `referenced`, or less than once in a run under `off`,
//! or if its commits are not known.
//!
//! The simulation makes assumptions. Its table decides nothing if the estimates would lead to the opposite verdict with
//! another assumption.

use serde::Serialize;

use super::assumption::Assumption;
use super::findings::Rule;
use super::grid::Grid;
use super::plan::Source;
use crate::published::kara2016::PROCESSORS;
use crate::reproduce::finding::{Finding, Observed, Verdict};

/// A finding, with the results of all tables.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    #[serde(flatten)]
    pub finding: &'static Finding<Grid>,
    /// The result for the published table. Only averages are published, so the effects have no intervals.
    pub published: Option<Observed>,
    /// The verdict for the published table.
    pub published_verdict: Verdict,
    /// The result for each measured or simulated table.
    pub ours: Vec<Answer>,
    /// Whether the finding holds.
    pub verdict: Verdict,
    /// The table that determined the verdict.
    pub decided_by: Option<Source>,
    /// The verdict for the published table if all its times were equal. If nothing is published, that for our first table
    /// with figures.
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
    /// The assumptions with which the estimates would lead to the opposite verdict.
    pub depends_on: Vec<String>,
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

/// Evaluates a finding on the published table and on all others. `assumptions` are other assumptions of the simulation.
/// `processors` is the number of processors on which tables were measured, or `None` for a quick run. In a quick run,
/// only the simulated table is judged, because the others have too few sets for a verdict.
pub fn judge(
    rule: &'static Rule,
    published: &Grid,
    ours: &[(Source, Grid)],
    assumptions: &[Assumption],
    processors: Option<u32>,
) -> Judged {
    let finding = &rule.finding;
    let answers = rule.sources.iter().map(|&source| {
        let grid = ours.iter().find(|(of, _)| *of == source);
        let grid = grid.map(|(_, grid)| grid);
        let observed = grid.and_then(finding.observe);
        let depends_on = match (&observed, source) {
            (Some(observed), Source::Simulated) => contrary(finding, observed, assumptions),
            _ => Vec::new(),
        };
        let is_dependent = !depends_on.is_empty();
        let observed = observed.map(|observed| observed.depending_on_assumption(is_dependent));
        let processors = match source {
            Source::Simulated => Some(PROCESSORS),
            Source::Volume | Source::Engine | Source::Kernel => processors,
        };
        let verdict = match (grid.zip(observed.as_ref()), processors) {
            (None, _) => Verdict::NotMeasured,
            (Some(_), None) => Verdict::QuickRun,
            (Some((grid, observed)), Some(processors)) => {
                if rule.needs.is_met(grid, processors) {
                    observed.verdict()
                } else {
                    Verdict::CannotBeShown
                }
            }
        };
        Answer {
            source,
            observed,
            verdict,
            depends_on,
            if_nothing_changed: grid.map_or(Verdict::NotMeasured, |grid| {
                finding.if_nothing_changed(grid)
            }),
        }
    });
    let answers: Vec<Answer> = answers.collect();
    let decisive = answers.iter().find(|answer| answer.verdict.is_decided());
    let undecided = Verdict::of_tables(answers.iter().map(|answer| answer.verdict));
    let observed = (finding.observe)(published);
    let mut unchanged = answers.iter().filter(|answer| answer.observed.is_some());
    let unchanged = unchanged.next().map(|answer| answer.if_nothing_changed);
    Judged {
        finding,
        published_verdict: Observed::verdict_of(observed.as_ref()),
        verdict: decisive.map_or(undecided, |answer| answer.verdict),
        decided_by: decisive.map(|answer| answer.source),
        if_nothing_changed: match observed {
            Some(_) => finding.if_nothing_changed(published),
            None => unchanged.unwrap_or(Verdict::NotMeasured),
        },
        published: observed.map(Observed::without_intervals),
        ours: answers,
    }
}

/// Returns the assumptions with which the estimates lead to the opposite of the verdict from `observed`. There are none
/// if that verdict is not a decision.
fn contrary(
    finding: &Finding<Grid>,
    observed: &Observed,
    assumptions: &[Assumption],
) -> Vec<String> {
    let verdict = observed.verdict();
    if !verdict.is_decided() {
        return Vec::new();
    }
    let contrary = assumptions.iter().filter(|assumption| {
        let observed = (finding.observe)(&assumption.grid);
        observed.is_some_and(|observed| observed.is_met() != (verdict == Verdict::Holds))
    });
    contrary
        .map(|assumption| assumption.change.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::findings::RULES;
    use super::super::grid::GridRow;
    use super::super::plan::ORDER;
    use super::super::residual::Residual;
    use super::*;
    use crate::reproduce::finding::Verdict::{
        DependsOnAssumption, DoesNotHold, Holds, NotMeasured, WithinNoise,
    };
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

    /// The verdicts for the published table, all times equal, effects inverted, and effects halved. Times without a
    /// journal are not published.
    #[test]
    fn findings_are_judged_on_changed_tables() {
        let half = [Holds, DoesNotHold, DoesNotHold, DoesNotHold];
        expect::verdicts(
            &findings(),
            &Grid::published(),
            &[
                ("never slower", [Holds, Holds, DoesNotHold, Holds]),
                ("many processes", half),
                ("collapse", [Holds, DoesNotHold, DoesNotHold, WithinNoise]),
                (
                    "referenced or lru",
                    [Holds, DoesNotHold, DoesNotHold, Holds],
                ),
                ("list-lru, contended", half),
                ("list-lru, mostly", half),
                (
                    "off, unique values",
                    [Holds, DoesNotHold, DoesNotHold, WithinNoise],
                ),
                (
                    "off, repeated values",
                    [Holds, DoesNotHold, DoesNotHold, WithinNoise],
                ),
                ("off, journal", [NotMeasured; 4]),
                (
                    "referenced bit",
                    [Holds, DoesNotHold, DoesNotHold, WithinNoise],
                ),
                ("reusable flag, 8 processes", half),
                ("reusable flag, 64 processes", half),
            ],
        );
    }

    #[test]
    fn noise_alone_neither_shows_nor_refutes_a_finding() {
        expect::noise(&findings(), &Grid::published());
        expect::noise(&findings(), &repeated());
    }

    /// Returns the published table, with ten repetitions that are equal to it. Without a journal, `off` takes 1.2 times
    /// as long as `referenced`.
    fn repeated() -> Grid {
        let mut published = Grid::published();
        let is_repeated = |row: &&GridRow| {
            let case = row.case;
            case.processes == 64 && case.files >= 100 && case.values == 10
        };
        let repeated = published.rows.iter().filter(is_repeated);
        published.with_journal = repeated.copied().collect();
        published.without_journal = published.with_journal.clone();
        let off = ORDER.iter().position(|of| *of == Off).unwrap();
        for row in &mut published.without_journal {
            row.seconds[off] = row.of(Referenced).map(|seconds| 1.2 * seconds);
        }
        Grid {
            repetitions: vec![published.clone(); 10],
            ..published
        }
    }

    /// The intervals over repetitions are narrower than those that follow from the noise of the published table.
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
                ("list-lru, mostly", half_does_not_hold),
                ("off, unique values", half_does_not_hold),
                ("off, repeated values", half_holds),
                ("off, journal", half_holds),
                ("referenced bit", half_does_not_hold),
                ("reusable flag, 8 processes", half_does_not_hold),
                ("reusable flag, 64 processes", half_does_not_hold),
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
            let judged = judge(rule, &published, &both, &[], Some(2));
            assert_eq!(judged.ours[0].verdict, Verdict::CannotBeShown);
            assert_eq!(judged.verdict, verdict);
            assert_eq!(judged.decided_by, Some(Source::Simulated));
            // With all processors, the measurement decides.
            let judged = judge(rule, &published, &both, &[], Some(PROCESSORS));
            assert_eq!(judged.decided_by, Some(Source::Engine));
            assert_ne!(judged.verdict, verdict);
        }
        let judged = judge(rule, &published, &[], &[], Some(2));
        assert_eq!(judged.verdict, NotMeasured);
        assert_eq!(judged.decided_by, None);
    }

    #[test]
    fn simulation_within_its_noise_outranks_few_processors() {
        let published = Grid::published();
        // So noisy that the range of the mean extends below 2.
        let noisy = Grid {
            noise: 2.0,
            ..published.clone()
        };
        let ours = [
            (Source::Engine, published.clone()),
            (Source::Simulated, noisy),
        ];
        let judged = judge(named("many processes"), &published, &ours, &[], Some(2));
        assert_eq!(judged.ours[0].verdict, Verdict::CannotBeShown);
        assert_eq!(judged.verdict, WithinNoise);
    }

    #[test]
    fn volume_decides_nothing_about_variants() {
        let published = Grid::published();
        let ours = [(Source::Volume, with_commits(published.clone()))];
        let decided = RULES.iter().filter(|rule| {
            let judged = judge(rule, &published, &ours, &[], Some(PROCESSORS));
            judged.decided_by.is_some()
        });
        let decided: Vec<_> = decided.map(|rule| rule.finding.name).collect();
        let expected = [
            "off, unique values",
            "off, repeated values",
            "reusable flag, 8 processes",
        ];
        assert_eq!(decided, expected);
    }

    /// Returns a table whose journal commits far more often under `off` than under `referenced`.
    fn with_commits(grid: Grid) -> Grid {
        Grid {
            commits: Some([1.0, 16.0]),
            ..grid
        }
    }

    /// Returns the table with the times under `off` multiplied by `factor` in the runs with a journal and with a number
    /// of files.
    fn slower_off(grid: &Grid, files: u32, factor: f64) -> Grid {
        let off = ORDER.iter().position(|of| *of == Off).unwrap();
        let changed = |grid: &Grid| {
            let mut changed = grid.clone();
            let rows = changed.with_journal.iter_mut();
            for row in rows.filter(|row| row.case.files == files) {
                row.seconds[off] = row.seconds[off].map(|seconds| factor * seconds);
            }
            changed
        };
        Grid {
            repetitions: grid.repetitions.iter().map(changed).collect(),
            ..changed(grid)
        }
    }

    #[test]
    fn few_more_commits_neither_show_nor_refute_the_cost_of_blocks() {
        let published = Grid::published();
        let without = slower_off(&repeated(), 1000, 0.1);
        for name in ["off, repeated values", "off, journal"] {
            let judged = |grid: &Grid, commits| {
                let grid = Grid {
                    commits,
                    ..grid.clone()
                };
                let ours = [(Source::Kernel, grid)];
                judge(named(name), &published, &ours, &[], Some(2)).verdict
            };
            for commits in [
                None,
                Some([2.0, 2.0]),
                Some([2.0, 1.0]),
                Some([1.0, 1.1]),
                Some([0.0, 0.9]),
            ] {
                for grid in [&repeated(), &without] {
                    let verdict = judged(grid, commits);
                    assert_eq!(verdict, Verdict::CannotBeShown, "{name}: {commits:?}");
                }
            }
            let more = Some([2.0, 4.0]);
            assert_eq!(judged(&repeated(), more), Holds, "{name}");
            assert_eq!(judged(&without, more), DoesNotHold, "{name}");
        }
    }

    #[test]
    fn cost_of_blocks_is_judged_with_the_most_files() {
        let published = Grid::published();
        for name in ["off, repeated values", "off, journal"] {
            for (files, verdict) in [(100, Holds), (1000, DoesNotHold)] {
                let changed = with_commits(slower_off(&repeated(), files, 0.1));
                let ours = [(Source::Volume, changed)];
                let judged = judge(named(name), &published, &ours, &[], Some(2));
                assert_eq!(judged.verdict, verdict, "{name}, {files}");
                let answer = judged.decisive().unwrap();
                let figures = &answer.observed.as_ref().unwrap().figures;
                assert!(figures.contains("; F=100: "), "{figures}");
            }
        }
    }

    #[test]
    fn kernel_outranks_the_volume_on_the_journal() {
        let published = Grid::published();
        let volume = (Source::Volume, with_commits(repeated()));
        let without = slower_off(&repeated(), 1000, 0.1);
        for name in ["off, repeated values", "off, journal"] {
            let judged = |kernel: Grid| {
                let ours = [volume.clone(), (Source::Kernel, kernel)];
                let judged = judge(named(name), &published, &ours, &[], Some(2));
                (judged.verdict, judged.decided_by)
            };
            let by_kernel = (DoesNotHold, Some(Source::Kernel));
            assert_eq!(judged(with_commits(without.clone())), by_kernel, "{name}");
            // Without more commits, the kernel decides nothing.
            assert_eq!(
                judged(without.clone()),
                (Holds, Some(Source::Volume)),
                "{name}"
            );
        }
    }

    #[test]
    fn reusable_flag_with_64_processes_is_judged_on_the_simulation_alone() {
        let published = Grid::published();
        let judged = |source| {
            let ours = [(source, published.clone())];
            let rule = named("reusable flag, 64 processes");
            judge(rule, &published, &ours, &[], Some(PROCESSORS)).verdict
        };
        assert_eq!(judged(Source::Simulated), Holds);
        for source in [Source::Volume, Source::Engine] {
            assert_eq!(judged(source), NotMeasured);
        }
    }

    #[test]
    fn simulated_verdict_that_an_assumption_reverses_is_undecided() {
        let published = Grid::published();
        let as_referenced = changed(Old, |row| {
            row.of(Referenced).unwrap() / row.of(Old).unwrap_or(1.0)
        });
        let ours = [(Source::Simulated, published.clone())];
        let assumption = |change: &str, grid: &Grid| Assumption {
            change: change.to_owned(),
            grid: grid.clone(),
        };
        let same = assumption("a transfer costs half as much", &published);
        let other = assumption("waking costs twice as much", &as_referenced);
        let rule = named("many processes");
        let judged = |assumptions: &[Assumption]| {
            let judged = judge(rule, &published, &ours, assumptions, Some(2));
            (judged.verdict, judged.ours[1].depends_on.clone())
        };
        assert_eq!(judged(std::slice::from_ref(&same)), (Holds, Vec::new()));
        let reversed = vec!["waking costs twice as much".to_owned()];
        assert_eq!(judged(&[same, other]), (DependsOnAssumption, reversed));
        // An undecided verdict depends on nothing.
        let undecided = Grid {
            noise: 2.0,
            ..published.clone()
        };
        let other = [assumption("waking costs twice as much", &as_referenced)];
        let ours = [(Source::Simulated, undecided)];
        let judged = judge(rule, &published, &ours, &other, Some(2));
        assert_eq!(judged.verdict, WithinNoise);
        assert!(judged.ours[1].depends_on.is_empty());
    }

    #[test]
    fn gain_without_the_cache_is_undecided_if_the_fit_explains_it() {
        let residual = |simulated_s| Residual {
            processes: 16,
            files: 10,
            published_s: 1.0,
            simulated_s,
        };
        for (simulated_s, verdict) in [(1.0, Holds), (0.9, Holds), (0.7, WithinNoise)] {
            let simulated = Grid {
                residuals: vec![residual(simulated_s)],
                ..Grid::published()
            };
            let published = Grid::published();
            let ours = [(Source::Simulated, simulated)];
            let rule = named("off, unique values");
            let judged = judge(rule, &published, &ours, &[], Some(2));
            assert_eq!(judged.verdict, verdict, "{simulated_s}");
            let labels = judged.published.iter().chain(&judged.ours[2].observed);
            let labels: Vec<_> = labels.map(|of| of.effects[0].label.clone()).collect();
            assert_eq!(labels, ["P=16, referenced / off"; 2]);
        }
    }

    #[test]
    fn published_effects_have_no_intervals() {
        let published = Grid::published();
        let judged = judge(named("many processes"), &published, &[], &[], None);
        let observed = judged.published.unwrap();
        assert_eq!(observed.effects[0].estimate.low, None);
        assert_eq!(observed.figures, "P=64, old / referenced 2.980");
        assert_eq!(judged.published_verdict, Holds);
    }

    #[test]
    fn few_sets_let_the_simulation_decide() {
        let published = Grid::published();
        let ours = [Source::Engine, Source::Simulated].map(|source| (source, published.clone()));
        let judged = judge(named("never slower"), &published, &ours, &[], None);
        assert_eq!(judged.ours[0].verdict, Verdict::QuickRun);
        assert_eq!(judged.verdict, Holds);
        assert_eq!(judged.if_nothing_changed, Holds);
        assert_eq!(judged.decisive().unwrap().source, Source::Simulated);
        let judged = judge(named("never slower"), &published, &ours[..1], &[], None);
        assert!(!judged.verdict.is_decided());
        assert!(judged.decisive().is_none());
    }

    #[test]
    fn finding_without_contention_is_refuted_on_few_processors() {
        let published = Grid::published();
        let slower = changed(Referenced, |_| 2.0);
        let ours = [(Source::Engine, slower)];
        let judged = judge(named("never slower"), &published, &ours, &[], Some(2));
        assert_eq!(judged.verdict, DoesNotHold);
    }
}
