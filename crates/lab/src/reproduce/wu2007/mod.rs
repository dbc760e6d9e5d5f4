//! Reproduces the tables of Wu 2007 in the simulator, and compares the results with the published
//! figures.
//!
//! Each table has a module that describes and implements its measurement. The results are deterministic for a
//! given seed. Independent runs are executed in parallel.
//!
//! Cost: at the published sizes, about a hundred million page accesses for each seed.

mod aio_stress;
mod cpu;
mod criterion;
mod document;
mod fileio;
mod findings;
mod gain;
mod iozone;
mod machine;
mod oltp;
mod plan;
mod plots;
mod results;
mod thrashing;
mod timed;

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use crate::published::{self, Pair};
use crate::simulator::Error;
use crate::statistics::median;
pub use cpu::measure as cpu_counts;
use criterion::judge_direction;
use gain::CellFigures;
pub use machine::{Scheduler, Size};
use plan::{Plan, plans, read_noise_pct};
pub use results::Wu2007;
use results::{
    ByPolicy, CfqResults, CpuCounts, CpuResult, Row, Simulated, TableResult, ThrashingCourse,
};
pub use timed::timed_report;

/// Number of seeds of a reproduction.
pub const SEEDS: u32 = 10;

/// Measures every table of Wu 2007 with both schedulers and with `seeds` consecutive seeds, beginning with the seed of
/// `size`. `progress` is called with the number of finished runs and the total.
///
/// # Errors
/// Returns an error if a simulated machine cannot be created.
pub fn reproduce(
    size: Size,
    seeds: u32,
    progress: impl Fn(usize, usize) + Sync,
) -> Result<Wu2007, Error> {
    let done = AtomicUsize::new(0);
    let schedulers = [Scheduler::Deadline, Scheduler::Cfq];
    let total = schedulers.map(|scheduler| tasks(&plans(), seeds, scheduler).len());
    let total = total.iter().sum();
    let progress = || progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
    let with = |scheduler| measure(Size { scheduler, ..size }, seeds, progress);
    let [mut results, cfq] = [with(schedulers[0])?, with(schedulers[1])?];
    results.cfq = Some(CfqResults {
        tables: cfq.tables,
        findings: cfq.findings,
    });
    Ok(results)
}

/// Measures every table with the scheduler of `size`.
fn measure(size: Size, seeds: u32, progress: impl Fn() + Sync) -> Result<Wu2007, Error> {
    let plans = plans();
    let outcomes: Vec<Outcome> = tasks(&plans, seeds, size.scheduler)
        .into_par_iter()
        .map(|(seed, task)| {
            let seed = size.seed.wrapping_add(seed.into());
            let outcome = task.run(&plans, Size { seed, ..size })?;
            progress();
            Ok(outcome)
        })
        .collect::<Result<_, Error>>()?;
    Ok(assemble(plans, size, seeds, outcomes))
}

/// An independent run.
#[derive(Clone, Copy)]
enum Task {
    Table {
        plan: usize,
        run: usize,
        policy: usize,
    },
    Thrashing {
        policy: usize,
    },
    /// Thrashing on a machine that differs in one parameter.
    Variant {
        variant: usize,
        policy: usize,
    },
    /// Thrashing with other values of the properties that the document leaves open.
    GridCell {
        memory_mib: u64,
        read_kib: u64,
    },
    Cpu {
        policy: usize,
    },
}

enum Outcome {
    Figures {
        plan: usize,
        first_row: usize,
        policy: usize,
        figures: Vec<f64>,
    },
    Thrashing(ThrashingCourse),
    Variant(ThrashingCourse),
    GridCell(CellFigures),
    Cpu(Vec<CpuCounts>),
}

impl Task {
    fn run(self, plans: &[Plan], size: Size) -> Result<Outcome, Error> {
        let named = |policy: usize| Simulated::POLICIES[policy];
        Ok(match self {
            Self::Table { plan, run, policy } => {
                let (first_row, measure) = &plans[plan].runs[run];
                Outcome::Figures {
                    plan,
                    first_row: *first_row,
                    policy,
                    figures: measure(named(policy), size)?,
                }
            }
            Self::Thrashing { policy } => {
                Outcome::Thrashing(thrashing::measure(named(policy), size)?)
            }
            Self::Variant { variant, policy } => {
                let variant = &gain::VARIANTS[variant];
                Outcome::Variant(gain::measure(variant, gain::POLICIES[policy], size)?)
            }
            Self::GridCell {
                memory_mib,
                read_kib,
            } => Outcome::GridCell(gain::measure_cell(memory_mib, read_kib, size)?),
            Self::Cpu { policy } => Outcome::Cpu(cpu::measure(named(policy), size)?),
        })
    }
}

/// Returns all tasks of all seeds, each with the number of its seed. The tasks of a seed are consecutive. Variants are run
/// only with the deadline scheduler and its first seed.
fn tasks(plans: &[Plan], seeds: u32, scheduler: Scheduler) -> Vec<(u32, Task)> {
    (0..seeds)
        .flat_map(|seed| {
            let mut tasks = tasks_of_seed(plans);
            tasks.extend(cells(scheduler));
            if scheduler == Scheduler::Deadline && seed == 0 {
                tasks.extend(variants());
            }
            tasks.into_iter().map(move |task| (seed, task))
        })
        .collect()
}

fn tasks_of_seed(plans: &[Plan]) -> Vec<Task> {
    let policies = 0..Simulated::POLICIES.len();
    let tables = plans.iter().enumerate().flat_map(|(plan, of)| {
        let policies = policies.clone();
        (0..of.runs.len()).flat_map(move |run| {
            let policies = policies.clone();
            policies.map(move |policy| Task::Table { plan, run, policy })
        })
    });
    let thrashing = policies.clone().map(|policy| Task::Thrashing { policy });
    let cpu = policies.clone().map(|policy| Task::Cpu { policy });
    tables.chain(thrashing).chain(cpu).collect()
}

fn cells(scheduler: Scheduler) -> impl Iterator<Item = Task> {
    gain::grid_cells(scheduler).map(|(memory_mib, read_kib)| Task::GridCell {
        memory_mib,
        read_kib,
    })
}

fn variants() -> impl Iterator<Item = Task> {
    (0..gain::VARIANTS.len()).flat_map(|variant| {
        let policies = 0..gain::POLICIES.len();
        policies.map(move |policy| Task::Variant { variant, policy })
    })
}

/// The figures of a row under each policy, in the order of the seeds.
type Cell = [Vec<f64>; Simulated::POLICIES.len()];

/// Assigns the outcomes to the rows of the tables. `outcomes` must be in the order of the tasks.
fn assemble(plans: Vec<Plan>, size: Size, seeds: u32, outcomes: Vec<Outcome>) -> Wu2007 {
    let mut grids: Vec<Vec<Cell>> = plans
        .iter()
        .map(|plan| vec![Cell::default(); plan.rows.len()])
        .collect();
    let mut courses = Vec::new();
    let mut variants = Vec::new();
    let mut cells = Vec::new();
    let mut counts = Vec::new();
    for outcome in outcomes {
        match outcome {
            Outcome::Figures {
                plan,
                first_row,
                policy,
                figures,
            } => {
                for (row, figure) in grids[plan][first_row..].iter_mut().zip(figures) {
                    row[policy].push(figure);
                }
            }
            Outcome::Thrashing(course) => courses.push(course),
            Outcome::Variant(course) => variants.push(course),
            Outcome::GridCell(cell) => cells.push(cell),
            Outcome::Cpu(cases) => counts.push(cases),
        }
    }
    let mut tables: Vec<TableResult> = plans
        .into_iter()
        .zip(grids)
        .map(|(plan, grid)| TableResult {
            name: plan.name,
            title: plan.title,
            unit: plan.unit,
            setup: plan.setup,
            rows: plan
                .rows
                .into_iter()
                .zip(grid)
                .map(|(row, cell)| {
                    let seeds = 0..cell[0].len();
                    let seeds = seeds.map(|seed| {
                        Simulated::from(std::array::from_fn(|policy| cell[policy][seed]))
                    });
                    Row::new(row.label, row.published, seeds.collect(), row.noise_pct)
                })
                .collect(),
        })
        .collect();
    tables.extend(thrashing_tables(&courses));
    let compared = courses.chunks_exact(Simulated::POLICIES.len());
    let compared: Vec<[&ThrashingCourse; 2]> =
        compared.map(|of_seed| [&of_seed[0], &of_seed[1]]).collect();
    let thrashing_means = gain::above_streams(&compared);
    let thrashing_gain = gain::at_equal_streams(&compared);
    courses.truncate(Simulated::POLICIES.len());
    let modelled = [&courses[0], &courses[1]];
    let mut results = Wu2007 {
        thrashing_variants: gain::variants(modelled, &variants),
        thrashing_grid: gain::grid(&cells, size.scheduler),
        thrashing_means,
        thrashing_gain,
        seed: size.seed,
        seeds,
        divisor: size.divisor,
        tables,
        cpu: cpu_results(&counts),
        thrashing: courses,
        findings: Vec::new(),
        cfq: None,
    };
    results.findings = findings::judge(&results);
    results
}

/// Returns a table of thrashing for each unit. `courses` are ordered by seed, then by policy.
fn thrashing_tables(courses: &[ThrashingCourse]) -> [TableResult; 2] {
    let published = published::thrashing();
    let table = |names: [&'static str; 3],
                 label: &str,
                 published_of: fn(&published::ThrashingRow) -> f64,
                 of: fn(&ThrashingCourse) -> f64| {
        let published = Pair {
            legacy: published_of(&published[0]),
            ondemand: published_of(&published[1]),
        };
        let seeds = courses.chunks_exact(Simulated::POLICIES.len());
        let seeds =
            seeds.map(|of_seed| Simulated::from(std::array::from_fn(|at| of(&of_seed[at]))));
        let [name, title, unit] = names;
        TableResult {
            name,
            title,
            unit,
            setup: thrashing::SETUP,
            rows: vec![Row::new(
                label.to_owned(),
                published,
                seeds.collect(),
                read_noise_pct(),
            )],
        }
    };
    let throughput = table(
        ["thrashing", "Thrashing: throughput", "MB/s"],
        "max throughput",
        |row| row.max_throughput_mb_s,
        ThrashingCourse::max_throughput_mb_s,
    );
    let read_size = table(
        ["thrashing-reads", "Thrashing: read size", "KB"],
        "min avg I/O size",
        |row| row.min_avg_io_kb,
        ThrashingCourse::min_mean_read_kb,
    );
    [
        throughput,
        TableResult {
            setup: "The same run as above.",
            ..read_size
        },
    ]
}

/// Combines `counts`, which are ordered by seed, then by policy, then by case.
fn cpu_results(counts: &[Vec<CpuCounts>]) -> Vec<CpuResult> {
    let published = published::cpu();
    published
        .into_iter()
        .enumerate()
        .map(|(case, row)| {
            let seeds = counts.chunks_exact(Simulated::POLICIES.len());
            let seeds = seeds
                .map(|of_seed| ByPolicy::from(std::array::from_fn(|policy| of_seed[policy][case])));
            let seeds: Vec<ByPolicy<CpuCounts>> = seeds.collect();
            let fewer_pct: Vec<f64> = seeds
                .iter()
                .map(|counts| fewer_pct(counts.legacy, counts.ondemand))
                .collect();
            CpuResult {
                judgement: judge_direction(row.change_pct, median(&fewer_pct), 0.0),
                case: row.case,
                published_pct: row.change_pct,
                counts: seeds.first().copied().unwrap_or_default(),
                seeds,
            }
        })
        .collect()
}

/// Returns the decrease in calls and lookups, in percent; negative if they increase.
fn fewer_pct(legacy: CpuCounts, ondemand: CpuCounts) -> f64 {
    use crate::run_report::as_f64;
    -Pair {
        legacy: as_f64(legacy.total()),
        ondemand: as_f64(ondemand.total()),
    }
    .change_pct()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Report as _;
    use crate::output::picture::expect_texts_inside;
    use crate::reproduce::front_page;

    #[test]
    fn figures_of_every_run_are_in_their_rows() {
        let plans = plans();
        for plan in &plans {
            let last = plan.runs.last().expect("a table has a run").0;
            assert!(last < plan.rows.len(), "{}", plan.name);
        }
        let outcomes = tasks(&plans, 2, Scheduler::Deadline)
            .into_iter()
            .map(|(_, task)| generated_outcome(task, &plans))
            .collect();
        let size = Size {
            divisor: 1,
            seed: 1,
            scheduler: Scheduler::Deadline,
        };
        let results = assemble(plans, size, 2, outcomes);
        assert_eq!(results.tables.len(), 6);
        assert_eq!(results.cpu.len(), 5);
        assert_eq!(
            results.thrashing_grid.len(),
            gain::grid_cells(Scheduler::Deadline).count()
        );
        for row in results.tables.iter().flat_map(|table| &table.rows) {
            assert!(row.ours.modern.is_finite(), "{}", row.label);
            assert_eq!(row.seeds.len(), 2, "{}", row.label);
            assert_eq!(row.judgement.ours_pct, Some(100.0), "{}", row.label);
        }
        let files = results.report().unwrap();
        let names: Vec<&str> = files.iter().map(|file| &*file.name).collect();
        assert_eq!(
            names,
            [
                "wu2007.md",
                "wu2007.html",
                "wu2007.csv",
                "wu2007.json",
                "wu2007-findings.svg",
                "wu2007-iozone.svg",
                "wu2007-aio-stress.svg",
                "wu2007-sysbench-fileio.svg",
                "wu2007-sysbench-oltp.svg",
                "wu2007-thrashing.svg",
                "wu2007-thrashing-reads.svg",
                "wu2007-thrashing-throughput.svg",
                "wu2007-thrashing-read-size.svg",
            ]
        );
        let markdown = &files[0].content;
        for name in &names[4..] {
            assert!(markdown.contains(name), "{name}");
        }
        assert!(!files[1].content.contains(".svg"), "the plots are embedded");
        assert!(!markdown.contains("This is a quick run"));
        let sections = [
            "## Findings",
            "## iozone",
            "## Method",
            "## Limits",
            "## Changes since",
        ];
        let at = sections.map(|section| markdown.find(section).unwrap());
        assert!(at.is_sorted(), "{at:?}");
        assert_eq!(results.report().unwrap(), files);
        front_page::expect::rows(&results.front_page(), results.findings.len());
        for file in &files[4..] {
            expect_texts_inside(&file.content);
        }
    }

    /// Returns a figure that doubles from each policy to the next.
    fn figure(policy: usize) -> f64 {
        [10.0, 20.0, 40.0][policy]
    }

    fn generated_outcome(task: Task, plans: &[Plan]) -> Outcome {
        match task {
            Task::Table { plan, run, policy } => {
                let first_row = plans[plan].runs[run].0;
                let rows = match plans[plan].runs.len() {
                    1 => plans[plan].rows.len(),
                    _ => 1,
                };
                Outcome::Figures {
                    plan,
                    first_row,
                    policy,
                    figures: vec![figure(policy); rows],
                }
            }
            Task::Thrashing { policy } => Outcome::Thrashing(generated_course(policy)),
            Task::Variant { policy, .. } => Outcome::Variant(generated_course(policy)),
            Task::GridCell { .. } => {
                let pair = Pair {
                    legacy: 1.0,
                    ondemand: 2.0,
                };
                Outcome::GridCell(CellFigures {
                    throughput: pair,
                    min_mean_read: pair,
                })
            }
            Task::Cpu { policy } => Outcome::Cpu(vec![
                CpuCounts {
                    readahead_calls: 1,
                    page_lookups: policy as u64,
                    insert_lookups: 0,
                };
                5
            ]),
        }
    }

    fn generated_course(policy: usize) -> ThrashingCourse {
        let second = |at_s: u32| results::ThrashingSecond {
            at_s,
            streams: at_s,
            throughput_mb_s: figure(policy),
            mean_read_kb: Some(figure(policy)),
        };
        ThrashingCourse {
            policy: Simulated::POLICIES[policy].as_str(),
            seconds: (1..=20).map(second).collect(),
            pages_wasted: 1,
            pages_ahead: 2,
        }
    }
}
