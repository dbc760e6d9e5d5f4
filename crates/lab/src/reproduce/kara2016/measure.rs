//! Measures all cases (the matrix of V, F and P) on mbcache alone, on a volume, and on the kernel's ext4.

use larder::MbCacheVariant;

use super::findings::Source;
use super::grid::{Grid, ORDER, Timed};
use super::kernel::KernelMount;
use crate::run_report::as_f64;
use crate::xattr_bench::{
    BenchConfig, Case, Commits, EntrySize, Error, Measured, Target, Worker, XattrBench,
    measure as measure_case, measure_all,
};

/// The size of a reproduction, and the seed of its random numbers.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Size {
    /// The cases.
    pub cases: Vec<Case>,
    /// Number of sets by each process, and of runs.
    #[serde(flatten)]
    pub config: BenchConfig,
    /// Number of simulated sets of all processes together.
    pub simulated_sets: u32,
    /// Number of seeds with which each case is simulated.
    pub simulated_seeds: u32,
    /// Number of files of each process with and without the reusable flag.
    pub flagged_files: u32,
    /// Number of files of each process in the plots and the tables of handovers.
    pub pictured_files: u32,
}

impl Size {
    /// Returns all cases, with a number of sets that takes about ten minutes on two processors.
    #[must_use]
    pub fn full(seed: u64) -> Self {
        Self {
            cases: Case::matrix(&Case::PROCESSES, &Case::FILES, &Case::VALUES),
            config: BenchConfig {
                operations: 2000,
                runs: 3,
                seed,
            },
            simulated_sets: 24_000,
            simulated_seeds: 10,
            flagged_files: 20_000,
            pictured_files: 100,
        }
    }

    /// Returns few cases and sets, which show the report in seconds but are not a reproduction.
    #[must_use]
    pub fn quick(seed: u64) -> Self {
        Self {
            cases: Case::matrix(&[1, 64], &[10], &[10, 100_000]),
            config: BenchConfig {
                operations: 40,
                runs: 1,
                seed,
            },
            simulated_sets: 1280,
            simulated_seeds: 2,
            flagged_files: 2000,
            pictured_files: 10,
        }
    }

    /// Returns whether the cases are those of the letter, so that verdicts are meaningful.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.cases.len() == Self::full(0).cases.len()
    }

    /// Returns the number of measured runs.
    pub(super) fn runs(&self) -> usize {
        let kernel = KERNEL.len() * self.kernel_cases().count();
        let ours = 2 * MbCacheVariant::ALL.len() * self.cases.len();
        (ours + kernel) * self.config.runs as usize
    }

    /// Returns the cases that the findings about the kernel need: cases in which values hardly repeat, and
    /// cases with many processes or files in which they repeat most.
    fn kernel_cases(&self) -> impl Iterator<Item = Case> {
        let cases = self.cases.iter().copied();
        cases.filter(|case| {
            let is_unique = case.values == 100_000;
            let is_repeated = case.values <= 100 && case.files >= 100 && case.processes == 64;
            is_unique || is_repeated || (case.values == 10 && case.files == 1000)
        })
    }
}

/// The variants that the kernel supports, with their mount options.
const KERNEL: [(MbCacheVariant, Option<&str>); 2] = [
    (MbCacheVariant::Referenced, None),
    (MbCacheVariant::Off, Some("no_mbcache")),
];

/// A measured table, and other results of the same runs.
pub(super) struct Table {
    pub source: Source,
    /// The figures, or the reason why they are missing.
    pub grid: Result<Grid, String>,
    pub shares: Vec<Shares>,
    pub commits: Vec<Committed>,
}

/// The commits of a journal in a case.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Committed {
    /// The table.
    pub source: Source,
    pub case: Case,
    pub variant: MbCacheVariant,
    /// The commits in each run.
    pub runs: Vec<Commits>,
}

impl Committed {
    fn of(source: Source, measured: &Measured, variant: MbCacheVariant) -> Option<Self> {
        (!measured.commits.is_empty()).then(|| Self {
            source,
            case: measured.case,
            variant,
            runs: measured.commits.clone(),
        })
    }
}

/// How often a variant finds a block to share.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Shares {
    /// The table.
    pub source: Source,
    pub variant: MbCacheVariant,
    /// Number of files that began to share a block, for each set, in the last runs of all cases.
    pub per_set: f64,
}

/// Measures every table. The sizes of entries are measured with the cache alone.
pub(super) fn measure(
    size: &Size,
    worker: &Worker,
    run_done: &mut dyn FnMut(),
) -> Result<(Vec<Table>, Vec<EntrySize>), Error> {
    let volume = drive("volume", Target::Volume, size, run_done)?;
    let engine = drive("engine", Target::Engine, size, run_done)?;
    let tables = vec![
        Table {
            source: Source::Volume,
            grid: Ok(grid(&volume)),
            shares: shares(Source::Volume, &volume),
            commits: commits(Source::Volume, &volume),
        },
        Table {
            source: Source::Engine,
            grid: Ok(grid(&engine)),
            shares: shares(Source::Engine, &engine),
            commits: Vec::new(),
        },
        kernel(size, worker, run_done),
    ];
    let size_of = |variant| {
        let mut measured = engine.measured.iter().rev();
        measured.find_map(|one| one.entry_size().filter(|size| size.variant == variant))
    };
    let sizes = ORDER.into_iter().filter_map(size_of);
    Ok((tables, sizes.collect()))
}

fn drive(
    name: &str,
    target: fn(MbCacheVariant) -> Target,
    size: &Size,
    run_done: &mut dyn FnMut(),
) -> Result<XattrBench, Error> {
    let targets = MbCacheVariant::ALL.map(target);
    measure_all(name, &targets, &size.cases, &size.config, run_done)
}

fn grid(bench: &XattrBench) -> Grid {
    let timed = bench.measured.iter().filter_map(|measured| {
        let variant = measured.variant?;
        Some(Timed::of(measured, variant))
    });
    Grid::measured(&timed.collect::<Vec<_>>(), bench.config.operations)
}

fn commits(source: Source, bench: &XattrBench) -> Vec<Committed> {
    let measured = bench.measured.iter();
    let commits = measured.filter_map(|one| Committed::of(source, one, one.variant?));
    commits.collect()
}

fn shares(source: Source, bench: &XattrBench) -> Vec<Shares> {
    let of = |variant| {
        let measured = bench.measured.iter();
        let measured = measured.filter(|one| one.variant == Some(variant));
        let counts = measured.filter_map(|one| {
            let sets = u64::from(one.case.processes) * u64::from(one.operations);
            Some((one.stats?.shares, sets))
        });
        let sum = |(shares, sets), (more, by)| (shares + more, sets + by);
        let (shares, sets) = counts.reduce(sum)?;
        Some(Shares {
            source,
            variant,
            per_set: as_f64(shares) / as_f64(sets),
        })
    };
    ORDER.into_iter().filter_map(of).collect()
}

impl Timed {
    fn of(measured: &Measured, variant: MbCacheVariant) -> Self {
        Self {
            case: measured.case,
            variant,
            seconds: measured.seconds.clone(),
        }
    }
}

/// Returns the kernel's table. Each case has its own mounts.
fn kernel(size: &Size, worker: &Worker, run_done: &mut dyn FnMut()) -> Table {
    let mut timed = Vec::new();
    let mut commits = Vec::new();
    let mut each = |case| {
        for (measured, variant) in kernel_case(size, case, worker, run_done)? {
            timed.push(Timed::of(&measured, variant));
            commits.extend(Committed::of(Source::Kernel, &measured, variant));
        }
        Ok::<(), String>(())
    };
    let done = size.kernel_cases().try_for_each(&mut each);
    Table {
        source: Source::Kernel,
        grid: done.map(|()| Grid::measured(&timed, size.config.operations)),
        shares: Vec::new(),
        commits,
    }
}

/// Measures a case on the kernel's ext4 under each of its variants.
fn kernel_case(
    size: &Size,
    case: Case,
    worker: &Worker,
    run_done: &mut dyn FnMut(),
) -> Result<Vec<(Measured, MbCacheVariant)>, String> {
    let mut mounts = Vec::new();
    for (_, option) in KERNEL {
        mounts.push(KernelMount::new(case, option)?);
    }
    let targets = mounts.iter().map(|mount| Target::Directory {
        path: mount.path(),
        worker: worker.clone(),
    });
    let measured = measure_case(&targets.collect::<Vec<_>>(), case, &size.config, run_done)
        .map_err(|error| error.to_string())?;
    Ok(measured
        .into_iter()
        .zip(KERNEL.map(|(variant, _)| variant))
        .collect())
}
