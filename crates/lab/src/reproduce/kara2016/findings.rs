//! The findings of the letter and their criteria.
//!
//! A finding is judged on a table of times ([`Grid`]). The published figures satisfy all findings of which there are
//! any, which a test verifies. A measured table may or may not satisfy a finding. Ratios over several cases are
//! geometric means.
//!
//! The tables in which a finding is judged are those that can decide it:
//!
//! - Comparisons of variants are not judged on the volume. It executes one set at a time, so that variants hardly
//!   contend for the cache there.
//! - `list-lru` is only judged on the simulation, which has as many lists as the letter's machine had nodes. Measured
//!   caches have a list for each processor.
//! - The reusable flag with 64 processes is only judged on the simulation. Chains of measured caches have a maximum
//!   length, which is shorter than the number of full blocks that a search of Linux examines without the flag.
//! - The simulation is fitted to the times with `off`, and has no file system without a journal. So it is not judged on
//!   the cost of additional blocks.

use larder::MbCacheVariant::{self, ListLru, Lru, Off, Old, Referenced};

use super::grid::{Grid, ratio_in};
use super::plan::{REPEATED, Source};
use crate::published::kara2016::{FLAG_GAINS, PROCESSORS};
use crate::reproduce::finding::{Bound, Effect, Finding, Observed, Previous, Verdict};
use crate::statistics::Interval;
use crate::xattr_bench::Case;

/// A finding of the letter.
#[derive(Debug)]
pub struct Rule {
    pub finding: Finding<Grid>,
    /// What a table needs so that it can show or refute the finding.
    pub needs: Need,
    /// The sources of the tables that are examined, in order: the first one that decides the finding counts.
    pub sources: &'static [Source],
}

/// What a table needs so that it can show or refute a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing.
    Nothing,
    /// As many processors as the letter's machine had: the finding concerns contention between processors.
    Processors,
    /// At least one commit of the journal in a run under `off`, on average, and at least twice as many as under
    /// `referenced`: the finding concerns the commits of additional blocks.
    Commits,
}

impl Need {
    /// Returns whether a table has what is needed, given the number of its processors.
    pub fn is_met(self, grid: &Grid, processors: u32) -> bool {
        match self {
            Self::Nothing => true,
            Self::Processors => processors >= PROCESSORS,
            Self::Commits => grid
                .commits
                .is_some_and(|[referenced, off]| off >= 2.0 * referenced && off >= 1.0),
        }
    }
}

/// The largest number of processes in the letter.
const MANY: u32 = 64;

/// The minimum ratio of two times for a finding that says "far" or "much".
const FAR: f64 = 2.0;

/// A variant counts as slower on average only if it takes longer by more than this share.
const MARGIN: f64 = 0.05;

/// A variant counts as slower in a case only if it takes more than this many times as long: about the noise of the
/// published table.
const SLOWER: f64 = 1.1;

/// A ratio that must be above 1 must be larger by this margin, for systematic differences between targets.
const SMALL: f64 = 0.02;

/// The number of processes at which disabling the cache gains most in the letter, with the most values.
const GAINING: u32 = 16;

/// The factor by which the journal must raise the cost of additional blocks: about the square root of [`FAR`].
const JOURNAL: f64 = 1.4;

/// The case that is shown beside [`REPEATED`]. Its 6,400 files have 17% more blocks than a transaction of the current
/// kernel may have (5,461), and 56% more than one of a volume (4,096).
const FEWER_FILES: Case = Case {
    files: 100,
    ..REPEATED
};

/// The tables of the cache's own code in which variants can contend.
const CACHE: &[Source] = &[Source::Engine, Source::Simulated];

/// The tables in which the reusable flag can be switched off, and whose chains have room for the full blocks of 8
/// processes.
const FLAG: &[Source] = &[Source::Volume, Source::Engine, Source::Simulated];

/// The tables of file systems that can have a journal or none. The letter is about the kernel's.
const JOURNALS: &[Source] = &[Source::Kernel, Source::Volume];

/// All findings about times.
pub static RULES: [Rule; 12] = [
    Rule {
        finding: Finding {
            name: "never slower",
            claim: "the rewrite is not slower than the original",
            published: None,
            criterion: "at each P, the mean of old / referenced is above 0.95, and referenced takes more than 1.1 times \
                        as long as old in less than 5% of the cases; this is a non-inferiority claim, and holds if both \
                        are equal",
            is_non_inferiority: true,
            previous: Some(Previous {
                verdict: Verdict::DoesNotHold,
                reason: "The first rule allowed a loss of the noise of the table, up to 24%, and compared means \
                         without an interval. A case counted as slower by the noise of the whole table, which the cases \
                         with the largest noise exceed by chance; now it must take more than 1.1 times as long, and has \
                         its own interval. The volume decided, which executes one set at a time",
            }),
            observe: never_slower,
        },
        needs: Need::Nothing,
        sources: CACHE,
    },
    Rule {
        finding: Finding {
            name: "many processes",
            claim: "the rewrite is far faster with many processes",
            published: None,
            criterion: "at P=64, the mean of old / referenced is above 2",
            is_non_inferiority: false,
            previous: Some(Previous {
                verdict: Verdict::Holds,
                reason: "The first rule compared a mean without an interval, and accepted exactly 2. The simulation \
                         decided, which had neither a journal nor lines that all sets share",
            }),
            observe: |grid| {
                let mean = mean(grid, Old, Referenced, |case| case.processes == MANY)?;
                Some(
                    vec![Effect::ratio(
                        "P=64, old / referenced",
                        mean,
                        Bound::Above(FAR),
                    )]
                    .into(),
                )
            },
        },
        needs: Need::Processors,
        sources: CACHE,
    },
    Rule {
        finding: Finding {
            name: "collapse",
            claim: "the original collapses: \"the machine just dies\"",
            published: None,
            criterion: "with V=10, 64 processes take more than 64 times as long as one process under old \
                        (longer than one after the other), and less than 64 times as long under referenced",
            is_non_inferiority: false,
            previous: Some(Previous {
                verdict: Verdict::Holds,
                reason: "Tables of fewer processors could show a finding about contention, but could not refute it, so \
                         that the engine's table on two processors decided. The simulation of that time contradicted \
                         it, and its verdict would have been \"does not hold\": 64 processes took 31 times as long \
                         under old, and 3 times as long under referenced. It had neither a journal nor lines that all \
                         sets share, and waiting processes cost nothing",
            }),
            observe: collapse,
        },
        needs: Need::Processors,
        sources: CACHE,
    },
    Rule {
        finding: Finding {
            name: "referenced or lru",
            claim: "the referenced bit is at least as good as the LRU list in nearly all cases, and better on average",
            published: None,
            criterion: "referenced takes more than 1.1 times as long as lru in less than 10% of the cases, and the mean \
                        of lru / referenced over all cases is above 1.02",
            is_non_inferiority: false,
            previous: Some(Previous {
                verdict: Verdict::DoesNotHold,
                reason: "The first rule held if both were equal, and compared means without an interval. A case counted \
                         as slower by the noise of the whole table; now it must take more than 1.1 times as long, and \
                         has its own interval. The volume decided, which executes one set at a time. Variants took turns \
                         in a fixed order, so that a difference of less than 2% proves nothing",
            }),
            observe: |grid| {
                Some(
                    vec![
                        slower(grid, Referenced, Lru, 0.1)?,
                        Effect::ratio(
                            "lru / referenced",
                            mean(grid, Lru, Referenced, |_| true)?,
                            Bound::Above(1.0 + SMALL),
                        ),
                    ]
                    .into(),
                )
            },
        },
        needs: Need::Processors,
        sources: CACHE,
    },
    Rule {
        finding: Finding {
            name: "list-lru, contended",
            claim: "list_lru is faster in some heavily contended cases",
            published: None,
            criterion: "in more than 10% of the cases with 32 or 64 processes, referenced takes more than 1.25 times as \
                        long as list-lru",
            is_non_inferiority: false,
            previous: Some(Previous {
                verdict: Verdict::DoesNotHold,
                reason: "In the first rule, list-lru had to take at most 0.8 times as long as referenced, and less by \
                         twice the noise of the table, in at least 10% of the cases. Now referenced must take more than \
                         1.25 times as long. The condition on the noise of the table was removed, and each case has its \
                         own interval. The simulation decided, in which list-lru had a list for each processor; now it has \
                         one for each NUMA node. The simulation had neither a journal nor lines that all sets share",
            }),
            observe: list_lru_contended,
        },
        needs: Need::Processors,
        sources: &[Source::Simulated],
    },
    Rule {
        finding: Finding {
            name: "list-lru, mostly",
            claim: "list_lru is slower in most cases",
            published: None,
            criterion: "list-lru takes more than 1.1 times as long as referenced in more than 25% of the cases, and in \
                        more than twice as many cases as the opposite",
            is_non_inferiority: false,
            previous: Some(Previous {
                verdict: Verdict::DoesNotHold,
                reason: "A case counted as slower by the noise of the whole table; now it must take more than 1.1 times \
                         as long, and has its own interval. The volume decided, which executes one set at a time, and in \
                         which list-lru had a list for each processor instead of each node",
            }),
            observe: list_lru_mostly,
        },
        needs: Need::Processors,
        sources: &[Source::Simulated],
    },
    Rule {
        finding: Finding {
            name: "off, unique values",
            claim: "disabling the cache makes sets up to about twice as fast if few values repeat",
            published: None,
            criterion: "with V=100000 and P=16, where the letter's gain is largest, the mean of referenced / off is above \
                        1.3; the interval of the simulated ratio also contains the ratio to the published times with \
                        off, to which the simulation is fitted",
            is_non_inferiority: false,
            previous: Some(Previous {
                verdict: Verdict::Holds,
                reason: "Each table was judged at the P at which its own gain was largest (P=64 in the simulation, with \
                         1.38), and the simulated times with off counted as exact",
            }),
            observe: off_gains,
        },
        needs: Need::Processors,
        sources: &[Source::Kernel, Source::Volume, Source::Simulated],
    },
    Rule {
        finding: Finding {
            name: "off, repeated values",
            claim: "disabling the cache makes sets far slower if values repeat (not stated by the letter; read off its \
                    table at F=1000, V=10 and P=64)",
            published: None,
            criterion: "at P=64, F=1000 and V=10, after each file was set once, off / referenced is above 2; a table \
                        cannot show or refute this if its journal commits less than twice as often under off as under \
                        referenced, or less than once in a run under off, or if its commits are not known",
            is_non_inferiority: false,
            previous: Some(Previous {
                verdict: Verdict::CannotBeShown,
                reason: "The first rule required as many processors as the letter's machine had. The volume and the \
                         kernel had no journal, and the first set of each file was measured, which adds a block under \
                         off and an inode's block under both. The mean over F=100 and F=1000 and over V=10 and V=100 \
                         was judged; with F=100, the files have only 17% more blocks than a transaction of the kernel may \
                         have. Now the case of the claim is judged on this machine; the next finding examines the \
                         reason",
            }),
            observe: additional_blocks,
        },
        needs: Need::Commits,
        sources: JOURNALS,
    },
    Rule {
        finding: Finding {
            name: "off, journal",
            claim: "if values repeat, sets without the cache are slow because of the commits of the journal (an \
                    explanation of Larder, not of the letter)",
            published: Some("the letter gives no reason"),
            criterion: "in the case of the previous finding, off / referenced with a journal is more than 1.4 times the \
                        same ratio without one; a table cannot show or refute this if its journal commits less than \
                        twice as often under off as under referenced, or less than once in a run under off, or if its \
                        commits are not known",
            is_non_inferiority: false,
            previous: None,
            observe: |grid| {
                let label = "off / referenced, with / without a journal";
                repeated(grid, label, Bound::Above(JOURNAL), |grid, case| {
                    let with = ratio_in(&grid.with_journal, case, Off, Referenced)?;
                    let without = ratio_in(&grid.without_journal, case, Off, Referenced)?;
                    Some(with / without)
                })
            },
        },
        needs: Need::Commits,
        sources: JOURNALS,
    },
    Rule {
        finding: Finding {
            name: "referenced bit",
            claim: "the referenced bit is about 30% faster than the LRU list with 10 files and 10,000 values (stated \
                    by patch 6 of the series, \"mbcache2: Use referenced bit instead of LRU\")",
            published: None,
            criterion: "with F=10, V=10000 and at least 8 processes, the mean of lru / referenced is above 1.15",
            is_non_inferiority: false,
            previous: Some(Previous {
                verdict: Verdict::DoesNotHold,
                reason: "The first rule attributed the statement to the letter, and judged V=100000 and P=64 with all \
                         F, with a bound of 1.1 and without an interval; it is now judged in the case of the patch, with \
                         half of its 30%",
            }),
            observe: |grid| {
                let of_patch =
                    |case: Case| case.processes >= 8 && case.files == 10 && case.values == 10_000;
                let mean = mean(grid, Lru, Referenced, of_patch)?;
                Some(vec![Effect::ratio("lru / referenced", mean, Bound::Above(1.15))].into())
            },
        },
        needs: Need::Processors,
        sources: CACHE,
    },
    Rule {
        finding: Finding {
            name: "reusable flag, 8 processes",
            claim: "with 5 values and 20,000 files of each process, the reusable flag makes 8 processes almost 3 times as \
                    fast (stated by the last patch of the series, \"mbcache: add reusable flag to cache entries\")",
            published: None,
            criterion: "the time without the flag divided by the time with it is above 2: the gain is more than half of \
                        the published one",
            is_non_inferiority: false,
            previous: None,
            observe: |grid| flag_gain(grid, FLAG_GAINS[0]),
        },
        needs: Need::Nothing,
        sources: FLAG,
    },
    Rule {
        finding: Finding {
            name: "reusable flag, 64 processes",
            claim: "with 5 values and 20,000 files of each process, the reusable flag makes 64 processes 25 times as fast \
                    (stated by the same patch)",
            published: None,
            criterion: "the time without the flag divided by the time with it is above 13: the gain is more than half of \
                        the published one",
            is_non_inferiority: false,
            previous: None,
            observe: |grid| flag_gain(grid, FLAG_GAINS[1]),
        },
        needs: Need::Nothing,
        sources: &[Source::Simulated],
    },
];

fn never_slower(grid: &Grid) -> Option<Observed> {
    let mut effects = Vec::new();
    for processes in Case::PROCESSES {
        let Some(mean) = mean(grid, Old, Referenced, |case| case.processes == processes) else {
            continue;
        };
        let label = format!("P={processes}, old / referenced");
        effects.push(Effect::ratio(label, mean, Bound::Above(1.0 - MARGIN)));
    }
    effects.push(slower(grid, Referenced, Old, 0.05)?);
    Some(effects.into())
}

fn collapse(grid: &Grid) -> Option<Observed> {
    let limit = f64::from(MANY);
    let growth = |variant, bound| {
        let cases = Case::FILES.len();
        let growth = grid.estimate(cases, |grid| grid.growth(variant, MANY, Case::VALUES[0]))?;
        Some(Effect {
            no_effect: limit,
            ..Effect::ratio(format!("{variant}, P=64 / P=1"), growth, bound)
        })
    };
    Some(
        vec![
            growth(Old, Bound::Above(limit))?,
            growth(Referenced, Bound::Below(limit))?,
        ]
        .into(),
    )
}

fn list_lru_contended(grid: &Grid) -> Option<Observed> {
    let contended = |case: Case| case.processes >= 32;
    let share = share_slower(grid, Referenced, ListLru, 1.25, contended)?;
    let label = "share of cases with list-lru much faster";
    Some(vec![Effect::share(label, share, Bound::Above(0.1))].into())
}

fn list_lru_mostly(grid: &Grid) -> Option<Observed> {
    let slower = share_slower(grid, ListLru, Referenced, SLOWER, |_| true)?;
    let faster = share_slower(grid, Referenced, ListLru, SLOWER, |_| true)?;
    let ratio = |one: Option<f64>, other: Option<f64>| Some(one? / other?);
    let ratio = Interval {
        value: slower.value / faster.value,
        low: ratio(slower.low, faster.high),
        high: ratio(slower.high, faster.low),
    };
    let effects = vec![
        Effect::share(
            "share of cases with list-lru slower",
            slower,
            Bound::Above(0.25),
        ),
        Effect::ratio(
            "cases with list-lru slower / faster",
            ratio,
            Bound::Above(2.0),
        ),
    ];
    let figures = format!("list-lru faster in a share of {faster} of the cases");
    Some(Observed::from(effects).with_figures(&figures))
}

/// In a simulation, the interval contains two ratios: to the simulated times with `off`, and to the published ones, to
/// which the simulated ones are fitted.
fn off_gains(grid: &Grid) -> Option<Observed> {
    let unique = |case: Case| case.values == 100_000 && case.processes == GAINING;
    let gain = mean(grid, Referenced, Off, unique)?;
    let observed = |gain: Interval| {
        let label = format!("P={GAINING}, referenced / off");
        Observed::from(vec![Effect::ratio(label, gain, Bound::Above(1.3))])
    };
    let Some(residual) = grid.residual(GAINING) else {
        return Some(observed(gain));
    };
    let to_published = gain.map(|gain| gain * residual);
    let widest = Interval {
        low: gain
            .low
            .zip(to_published.low)
            .map(|(one, other)| one.min(other)),
        high: gain
            .high
            .zip(to_published.high)
            .map(|(one, other)| one.max(other)),
        ..gain
    };
    let figures = format!("referenced / published off {to_published}");
    Some(observed(widest).with_figures(&figures))
}

/// The published table has neither runs after a first set of each file nor runs without a journal. Its processes set
/// each file at least 50 times, so the first set hardly counts.
fn additional_blocks(grid: &Grid) -> Option<Observed> {
    let is_published = grid.is_averages() && grid.with_journal.is_empty();
    repeated(grid, "off / referenced", Bound::Above(FAR), |grid, case| {
        let rows = if is_published {
            &grid.rows
        } else {
            &grid.with_journal
        };
        ratio_in(rows, case, Off, Referenced)
    })
}

/// Judges a statistic of [`REPEATED`], and shows it beside the same statistic of [`FEWER_FILES`].
fn repeated(
    grid: &Grid,
    label: &str,
    bound: Bound,
    statistic: impl Fn(&Grid, Case) -> Option<f64>,
) -> Option<Observed> {
    let estimate = |case: Case| grid.estimate(1, |grid| statistic(grid, case));
    let label = format!("P={}, F={}, {label}", REPEATED.processes, REPEATED.files);
    let observed = Observed::from(vec![Effect::ratio(label, estimate(REPEATED)?, bound)]);
    let Some(fewer) = estimate(FEWER_FILES) else {
        return Some(observed);
    };
    let fewer = if grid.is_averages() {
        Interval::unknown(fewer.value)
    } else {
        fewer
    };
    Some(observed.with_figures(&format!("F={}: {fewer}", FEWER_FILES.files)))
}

/// The gain must be more than half of the published one.
fn flag_gain(grid: &Grid, (processes, published): (u32, f64)) -> Option<Observed> {
    let label = format!("P={processes}, without / with the flag");
    let bound = Bound::Above(1.0 + (published - 1.0) / 2.0);
    Some(vec![Effect::ratio(label, grid.gain(processes)?, bound)].into())
}

/// Returns the mean ratio of the times in the selected cases.
fn mean(
    grid: &Grid,
    slow: MbCacheVariant,
    fast: MbCacheVariant,
    wanted: impl Fn(Case) -> bool + Copy,
) -> Option<Interval> {
    let cases = grid.ratios(slow, fast, wanted).len();
    grid.estimate(cases, |grid| grid.mean_ratio(slow, fast, wanted))
}

/// Returns the share of the cases in which `slow` is slower than `fast`. The share must be below `bound`.
fn slower(grid: &Grid, slow: MbCacheVariant, fast: MbCacheVariant, bound: f64) -> Option<Effect> {
    let share = share_slower(grid, slow, fast, SLOWER, |_| true)?;
    let label = format!("share of cases with {slow} slower than {fast}");
    Some(Effect::share(label, share, Bound::Below(bound)))
}

/// Returns the share of the selected cases in which `slow` takes more than `factor` times as long as `fast`.
///
/// Each case has its own noise. The interval begins with the share of the cases whose whole interval is above `factor`,
/// and ends with the share of the cases whose interval extends above it. If only averages are known, the share counts as
/// exact, but a case must exceed the noise of the table as well.
fn share_slower(
    grid: &Grid,
    slow: MbCacheVariant,
    fast: MbCacheVariant,
    factor: f64,
    wanted: impl Fn(Case) -> bool,
) -> Option<Interval> {
    let ratios = grid.case_ratios(slow, fast, wanted);
    let share =
        |is_counted: &dyn Fn(&Interval) -> bool| Count::of(&ratios, is_counted).map(Count::share);
    if grid.is_averages() {
        let share = share(&|ratio| ratio.value > factor && is_above(ratio.low, 1.0))?;
        return Some(Interval::exact(share));
    }
    let value = share(&|ratio| ratio.value > factor)?;
    if ratios.iter().any(|ratio| ratio.low.is_none()) {
        return Some(Interval::unknown(value));
    }
    let low = share(&|ratio| is_above(ratio.low, factor))?;
    let high = share(&|ratio| is_above(ratio.high, factor))?;
    Some(Interval::new(value, [low, high]))
}

/// Counts the cases in which `slow` is slower than `fast` with its whole interval; `None` if there are too few runs.
pub(super) fn slower_cases(
    grid: &Grid,
    slow: MbCacheVariant,
    fast: MbCacheVariant,
) -> Option<Count> {
    let ratios = grid.case_ratios(slow, fast, |_| true);
    let has_intervals = ratios.iter().all(|ratio| ratio.low.is_some());
    let count = || Count::of(&ratios, |ratio| is_above(ratio.low, SLOWER));
    has_intervals.then(count)?
}

fn is_above(end: Option<f64>, bound: f64) -> bool {
    end.is_some_and(|end| end > bound)
}

/// A number of cases, and the number of all cases.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    part: u32,
    whole: u32,
}

impl Count {
    /// Counts the ratios that satisfy `is_counted`; `None` if there are no cases.
    fn of(ratios: &[Interval], is_counted: impl Fn(&Interval) -> bool) -> Option<Self> {
        let counted = ratios.iter().filter(|ratio| is_counted(ratio)).count();
        Some(Self {
            part: u32::try_from(counted).ok()?,
            whole: u32::try_from(ratios.len()).ok().filter(|all| *all > 0)?,
        })
    }

    /// Returns the share, from 0 to 1.
    pub(super) fn share(self) -> f64 {
        f64::from(self.part) / f64::from(self.whole)
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} cases", self.part, self.whole)
    }
}
