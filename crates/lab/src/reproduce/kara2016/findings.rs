//! The findings of the letter and their criteria, which were fixed before any measurement.
//!
//! A finding is a predicate on a table of times ([`Grid`]). The published table satisfies it, which
//! a test verifies. A measured table may or may not satisfy it. Ratios over several cases are
//! geometric means. A difference counts if it exceeds the noise of its table.

use std::fmt::Write as _;

use larder::MbCacheVariant::{self, ListLru, Lru, Off, Old, Referenced};

use super::grid::Grid;
use crate::xattr_bench::Case;

/// The source of a measured or simulated table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The file system in one process, on an in-memory device.
    Volume,
    /// Only the cache.
    Engine,
    /// The kernel's ext4 on an image in memory.
    Kernel,
    /// Only the cache, on as many processors as the letter's machine had, in virtual time.
    Simulated,
}

impl Source {
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

/// The result of a finding for one table.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Observed {
    /// The decisive figures.
    pub figures: String,
    pub holds: bool,
}

/// A finding of the letter.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Finding {
    /// Its short name.
    pub name: &'static str,
    /// The letter's statement.
    pub claim: &'static str,
    /// The criterion for a table.
    pub criterion: &'static str,
    /// Whether it concerns contention between processors, which fewer processors need not show.
    #[serde(skip)]
    pub needs_processors: bool,
    /// The sources of the tables that are examined.
    #[serde(skip)]
    pub sources: &'static [Source],
    /// Evaluates a table; `None` if it lacks the cases.
    #[serde(skip)]
    pub observe: fn(&Grid) -> Option<Observed>,
}

/// The largest number of processes in the letter.
const MANY: u32 = 64;

/// The minimum ratio of two times for a finding that says "far" or "much".
const FAR: f64 = 2.0;

/// All findings about times.
pub static FINDINGS: [Finding; 9] = [
    Finding {
        name: "never slower",
        claim: "the rewrite is not slower than the original",
        criterion: "at each P, the mean of old / referenced is at least 1 minus the noise, and \
                    referenced takes longer than old by more than the noise in at most 5% of the cases",
        needs_processors: false,
        sources: &[Source::Volume, Source::Engine, Source::Simulated],
        observe: never_slower,
    },
    Finding {
        name: "many processes",
        claim: "the rewrite is far faster with many processes",
        criterion: "at P=64, the mean of old / referenced is at least 2",
        needs_processors: true,
        sources: &[Source::Volume, Source::Engine, Source::Simulated],
        observe: many_processes,
    },
    Finding {
        name: "collapse",
        claim: "the original collapses: \"the machine just dies\"",
        criterion: "with V=10, 64 processes take more than 64 times as long as one process under old \
                    (longer than one after the other), and less than 64 times as long under referenced",
        needs_processors: true,
        sources: &[Source::Volume, Source::Engine, Source::Simulated],
        observe: collapse,
    },
    Finding {
        name: "referenced or lru",
        claim: "the referenced bit is at least as good as the LRU list in nearly all cases",
        criterion: "referenced takes longer than lru by more than the noise in at most 10% of the cases, \
                    and the mean of lru / referenced over all cases is at least 1",
        needs_processors: false,
        sources: &[Source::Volume, Source::Engine, Source::Simulated],
        observe: referenced_or_lru,
    },
    Finding {
        name: "list-lru, contended",
        claim: "list_lru is faster in some heavily contended cases",
        criterion: "in at least 10% of the cases with 32 or 64 processes, list-lru takes at most 0.8 \
                    times as long as referenced, and is faster by at least twice the noise",
        needs_processors: true,
        sources: &[Source::Volume, Source::Engine, Source::Simulated],
        observe: list_lru_contended,
    },
    Finding {
        name: "list-lru, mostly",
        claim: "list_lru is slower in most cases",
        criterion: "list-lru takes longer than referenced by more than the noise in at least 25% of the \
                    cases, and in at least twice as many cases as referenced takes longer than list-lru",
        needs_processors: false,
        sources: &[Source::Volume, Source::Engine, Source::Simulated],
        observe: list_lru_mostly,
    },
    Finding {
        name: "off, unique values",
        claim: "disabling the cache makes sets up to about twice as fast if few values repeat",
        criterion: "with V=100000, the mean of referenced / off is at least 1.3 at the P where it is largest",
        needs_processors: true,
        sources: &[Source::Volume, Source::Kernel, Source::Simulated],
        observe: off_gains,
    },
    Finding {
        name: "off, repeated values",
        claim: "disabling the cache makes sets far slower if values repeat (F=1000, V=10, P=64: 17.9 s \
                against 3.9 s)",
        criterion: "at P=64, F of at least 100 and V of at most 100, the mean of off / referenced is at least 2",
        needs_processors: true,
        sources: &[Source::Volume, Source::Kernel],
        observe: off_loses,
    },
    Finding {
        name: "referenced bit",
        claim: "the referenced bit is about 30% faster than the LRU list on mostly unique blocks",
        criterion: "at P=64 and V=100000, the mean of lru / referenced is at least 1.1",
        needs_processors: true,
        sources: &[Source::Volume, Source::Engine, Source::Simulated],
        observe: referenced_bit,
    },
];

fn never_slower(grid: &Grid) -> Option<Observed> {
    let mut figures = String::from("old / referenced by P:");
    let mut is_never_below = true;
    for processes in Case::PROCESSES {
        let at = |case: Case| case.processes == processes;
        let Some(mean) = grid.mean_ratio(Old, Referenced, at) else {
            continue;
        };
        is_never_below &= mean >= 1.0 - grid.noise;
        let _ = write!(figures, " {mean:.2},");
    }
    let slower = beyond_noise(grid, Referenced, Old)?;
    let _ = write!(figures, " referenced slower in {slower}");
    Some(Observed {
        holds: is_never_below && slower.share() <= 0.05,
        figures,
    })
}

fn many_processes(grid: &Grid) -> Option<Observed> {
    let mean = grid.mean_ratio(Old, Referenced, |case| case.processes == MANY)?;
    Some(Observed {
        figures: format!("old / referenced {mean:.2}"),
        holds: mean >= FAR,
    })
}

fn collapse(grid: &Grid) -> Option<Observed> {
    let growth = |variant| grid.growth(variant, MANY, Case::VALUES[0]);
    let (old, referenced) = (growth(Old)?, growth(Referenced)?);
    let limit = f64::from(MANY);
    Some(Observed {
        figures: format!("old {old:.0} times as long, referenced {referenced:.0} times"),
        holds: old > limit && referenced < limit,
    })
}

fn referenced_or_lru(grid: &Grid) -> Option<Observed> {
    let worse = beyond_noise(grid, Referenced, Lru)?;
    let mean = grid.mean_ratio(Lru, Referenced, |_| true)?;
    Some(Observed {
        figures: format!("lru / referenced {mean:.2}, referenced slower in {worse}"),
        holds: worse.share() <= 0.1 && mean >= 1.0,
    })
}

fn list_lru_contended(grid: &Grid) -> Option<Observed> {
    let contended = |case: Case| case.processes >= 32;
    let ratios = grid.ratios(ListLru, Referenced, contended);
    let much = f64::min(0.8, 1.0 - 2.0 * grid.noise);
    let faster = Count::of(&ratios, |ratio| ratio <= much)?;
    Some(Observed {
        figures: format!("list-lru much faster in {faster}"),
        holds: faster.share() >= 0.1,
    })
}

fn list_lru_mostly(grid: &Grid) -> Option<Observed> {
    let slower = beyond_noise(grid, ListLru, Referenced)?;
    let faster = beyond_noise(grid, Referenced, ListLru)?;
    Some(Observed {
        figures: format!("list-lru slower in {slower}, faster in {faster}"),
        holds: slower.share() >= 0.25 && slower.share() >= 2.0 * faster.share(),
    })
}

fn off_gains(grid: &Grid) -> Option<Observed> {
    let means = Case::PROCESSES.into_iter().filter_map(|processes| {
        let unique = |case: Case| case.values == 100_000 && case.processes == processes;
        Some((processes, grid.mean_ratio(Referenced, Off, unique)?))
    });
    let (processes, mean) = means.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    Some(Observed {
        figures: format!("referenced / off {mean:.2} at P={processes}"),
        holds: mean >= 1.3,
    })
}

fn off_loses(grid: &Grid) -> Option<Observed> {
    let repeated = |case: Case| case.processes == MANY && case.files >= 100 && case.values <= 100;
    let mean = grid.mean_ratio(Off, Referenced, repeated)?;
    Some(Observed {
        figures: format!("off / referenced {mean:.2}"),
        holds: mean >= FAR,
    })
}

fn referenced_bit(grid: &Grid) -> Option<Observed> {
    let unique = |case: Case| case.processes == MANY && case.values == 100_000;
    let mean = grid.mean_ratio(Lru, Referenced, unique)?;
    Some(Observed {
        figures: format!("lru / referenced {mean:.2}"),
        holds: mean >= 1.1,
    })
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

/// A number of cases, out of all.
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
