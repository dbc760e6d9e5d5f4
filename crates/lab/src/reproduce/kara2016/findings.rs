//! The findings of the letter and their criteria.
//!
//! A finding is judged on a table of times ([`Grid`]). The published table satisfies all findings, which
//! a test verifies. A measured table may or may not satisfy a finding. Ratios over several cases are
//! geometric means.

use larder::MbCacheVariant::{self, ListLru, Lru, Off, Old, Referenced};

use super::grid::Grid;
use crate::reproduce::finding::{Bound, Effect, Finding, Observed, Previous, Verdict};
use crate::statistics::Interval;
use crate::xattr_bench::Case;

/// The source of a measured or simulated table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The file system in one process, on an in-memory device.
    Volume,
    /// Only the cache.
    Engine,
    /// The kernel's ext4 on an image in memory.
    Kernel,
    /// The cache with a model of the file system, on as many processors as the letter's machine had, in virtual
    /// time.
    Simulated,
}

impl Source {
    /// All sources.
    pub const ALL: [Self; 4] = [Self::Volume, Self::Engine, Self::Kernel, Self::Simulated];

    /// Returns the name used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Volume => "volume",
            Self::Engine => "engine",
            Self::Kernel => "kernel",
            Self::Simulated => "simulated",
        }
    }
}

/// A finding of the letter.
#[derive(Debug)]
pub struct Rule {
    pub finding: Finding<Grid>,
    /// Whether the finding concerns contention between processors. A measurement shows nothing about such a
    /// finding if the machine has fewer processors than the letter's machine had.
    pub needs_processors: bool,
    /// The sources of the tables that are examined.
    pub sources: &'static [Source],
}

/// The largest number of processes in the letter.
const MANY: u32 = 64;

/// The minimum ratio of two times for a finding that says "far" or "much".
const FAR: f64 = 2.0;

/// A variant counts as slower only if it takes longer on average by at least this share.
const MARGIN: f64 = 0.05;

/// What changed for findings whose rule is the same as before.
const NEW_TABLES: &str = "The volume and the kernel had no journal, the simulation had neither a journal nor lines that \
                          all sets share, and figures were medians of three runs";

/// The tables of the cache's own code.
const CACHE: &[Source] = &[Source::Volume, Source::Engine, Source::Simulated];

/// All findings about times.
pub static RULES: [Rule; 9] = [
    Rule {
        finding: Finding {
            name: "never slower",
            claim: "the rewrite is not slower than the original",
            published: None,
            criterion: "at each P, the mean of old / referenced is above 0.95, and referenced takes longer than old by \
                        more than the noise in less than 5% of the cases; this is a non-inferiority claim, and holds if \
                        both are equal",
            is_non_inferiority: true,
            previous: Some(Previous {
                verdict: Verdict::DoesNotHold,
                reason: "The first rule allowed a loss of the noise of the table, up to 24%, and compared means \
                         without an interval",
            }),
            observe: never_slower,
        },
        needs_processors: false,
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
                reason: NEW_TABLES,
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
        needs_processors: true,
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
                         that the engine's table on two processors decided",
            }),
            observe: collapse,
        },
        needs_processors: true,
        sources: CACHE,
    },
    Rule {
        finding: Finding {
            name: "referenced or lru",
            claim: "the referenced bit is at least as good as the LRU list in nearly all cases, and better on average",
            published: None,
            criterion: "referenced takes longer than lru by more than the noise in less than 10% of the cases, \
                        and the mean of lru / referenced over all cases is above 1",
            is_non_inferiority: false,
            previous: Some(Previous {
                verdict: Verdict::DoesNotHold,
                reason: "The first rule held if both were equal, and compared means without an interval",
            }),
            observe: |grid| {
                Some(
                    vec![
                        slower(grid, Referenced, Lru, 0.1)?,
                        Effect::ratio(
                            "lru / referenced",
                            mean(grid, Lru, Referenced, |_| true)?,
                            Bound::Above(1.0),
                        ),
                    ]
                    .into(),
                )
            },
        },
        needs_processors: false,
        sources: CACHE,
    },
    Rule {
        finding: Finding {
            name: "list-lru, contended",
            claim: "list_lru is faster in some heavily contended cases",
            published: None,
            criterion: "in more than 10% of the cases with 32 or 64 processes, list-lru takes at most 0.8 \
                        times as long as referenced, and is faster by at least twice the noise",
            is_non_inferiority: false,
            previous: Some(Previous {
                verdict: Verdict::DoesNotHold,
                reason: NEW_TABLES,
            }),
            observe: list_lru_contended,
        },
        needs_processors: true,
        sources: CACHE,
    },
    Rule {
        finding: Finding {
            name: "list-lru, mostly",
            claim: "list_lru is slower in most cases",
            published: None,
            criterion: "list-lru takes longer than referenced by more than the noise in more than 25% of the \
                        cases, and in more than twice as many cases as referenced takes longer than list-lru",
            is_non_inferiority: false,
            previous: Some(Previous {
                verdict: Verdict::DoesNotHold,
                reason: NEW_TABLES,
            }),
            observe: list_lru_mostly,
        },
        needs_processors: false,
        sources: CACHE,
    },
    Rule {
        finding: Finding {
            name: "off, unique values",
            claim: "disabling the cache makes sets up to about twice as fast if few values repeat",
            published: None,
            criterion: "with V=100000, the mean of referenced / off is above 1.3 at the P where it is largest",
            is_non_inferiority: false,
            previous: Some(Previous {
                verdict: Verdict::Holds,
                reason: NEW_TABLES,
            }),
            observe: off_gains,
        },
        needs_processors: true,
        sources: &[Source::Volume, Source::Kernel, Source::Simulated],
    },
    Rule {
        finding: Finding {
            name: "off, repeated values",
            claim: "disabling the cache makes sets far slower if values repeat (F=1000, V=10, P=64: 17.9 s \
                    against 3.9 s)",
            published: None,
            criterion: "at P=64, F of at least 100 and V of at most 100, the mean of off / referenced is above 2",
            is_non_inferiority: false,
            previous: Some(Previous {
                verdict: Verdict::CannotBeShown,
                reason: "The first rule required as many processors as the letter's machine had; the additional \
                         blocks cost commits of the journal, not contention between processors. The volume, the \
                         kernel and the simulation had no journal",
            }),
            observe: |grid| {
                let repeated =
                    |case: Case| case.processes == MANY && case.files >= 100 && case.values <= 100;
                let mean = mean(grid, Off, Referenced, repeated)?;
                Some(vec![Effect::ratio("off / referenced", mean, Bound::Above(FAR))].into())
            },
        },
        needs_processors: false,
        sources: &[Source::Volume, Source::Kernel, Source::Simulated],
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
                         F; it is now judged in the case of the patch",
            }),
            observe: |grid| {
                let of_patch =
                    |case: Case| case.processes >= 8 && case.files == 10 && case.values == 10_000;
                let mean = mean(grid, Lru, Referenced, of_patch)?;
                Some(vec![Effect::ratio("lru / referenced", mean, Bound::Above(1.15))].into())
            },
        },
        needs_processors: true,
        sources: CACHE,
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
    let share = share(grid, |grid| {
        let much = f64::min(0.8, 1.0 - 2.0 * grid.noise);
        let ratios = grid.ratios(ListLru, Referenced, contended);
        Count::of(&ratios, |ratio| ratio <= much)
    })?;
    let label = "share of cases with list-lru much faster";
    Some(vec![Effect::share(label, share, Bound::Above(0.1))].into())
}

fn list_lru_mostly(grid: &Grid) -> Option<Observed> {
    let slower = |grid: &Grid| beyond_noise(grid, ListLru, Referenced);
    let faster = |grid: &Grid| beyond_noise(grid, Referenced, ListLru);
    let ratio = grid.estimate_exact(|grid| Some(slower(grid)?.share() / faster(grid)?.share()))?;
    let effects = vec![
        Effect::share(
            "share of cases with list-lru slower",
            share(grid, slower)?,
            Bound::Above(0.25),
        ),
        Effect::ratio(
            "cases with list-lru slower / faster",
            ratio,
            Bound::Above(2.0),
        ),
    ];
    let figures = format!(
        "list-lru slower in {}, faster in {}",
        slower(grid)?,
        faster(grid)?
    );
    Some(Observed::from(effects).with_figures(&figures))
}

fn off_gains(grid: &Grid) -> Option<Observed> {
    let means = Case::PROCESSES.into_iter().filter_map(|processes| {
        let unique = |case: Case| case.values == 100_000 && case.processes == processes;
        Some((processes, mean(grid, Referenced, Off, unique)?))
    });
    let (processes, mean) = means.max_by(|(_, a), (_, b)| a.value.total_cmp(&b.value))?;
    let label = format!("P={processes}, referenced / off");
    Some(vec![Effect::ratio(label, mean, Bound::Above(1.3))].into())
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

/// Returns the share of the cases in which `slow` takes longer than `fast` by more than the noise. The share must be
/// below `bound`.
fn slower(grid: &Grid, slow: MbCacheVariant, fast: MbCacheVariant, bound: f64) -> Option<Effect> {
    let share = share(grid, |grid| beyond_noise(grid, slow, fast))?;
    let label = format!("share of cases with {slow} slower than {fast}");
    Some(Effect::share(label, share, Bound::Below(bound)))
}

/// Returns a share of cases. In a table without repetitions, the share counts as exact, since the cases are counted
/// with a margin for noise.
fn share(grid: &Grid, count: impl Fn(&Grid) -> Option<Count>) -> Option<Interval> {
    grid.estimate_exact(|grid| count(grid).map(Count::share))
}

/// Counts the cases in which `slow` takes longer than `fast` by more than the noise.
pub(super) fn beyond_noise(
    grid: &Grid,
    slow: MbCacheVariant,
    fast: MbCacheVariant,
) -> Option<Count> {
    let ratios = grid.ratios(slow, fast, |_| true);
    Count::of(&ratios, |ratio| ratio > 1.0 + grid.noise)
}

/// A number of cases, and the number of all cases.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    part: u32,
    whole: u32,
}

impl Count {
    /// Counts the ratios that satisfy `is_counted`; `None` if there are no cases.
    fn of(ratios: &[f64], is_counted: impl Fn(f64) -> bool) -> Option<Self> {
        let counted = ratios.iter().filter(|ratio| is_counted(**ratio)).count();
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
