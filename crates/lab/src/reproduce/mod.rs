//! The tables of Wu 2007, made again in the simulator and judged beside the published figures.
//!
//! Each table has a module that says how it was measured there and here, and does it. Everything
//! is deterministic from one seed; independent runs go in parallel.
//!
//! Cost: at the document's own size about a hundred million page accesses.

mod aio_stress;
mod cpu;
pub mod criterion;
mod document;
mod fileio;
mod iozone;
mod machine;
mod oltp;
mod plots;
pub mod results;
mod thrashing;
mod timed;

use std::sync::atomic::{AtomicUsize, Ordering};

use larder_readahead::PolicyName;
use rayon::prelude::*;

use crate::published::{self, Pair};
use crate::simulator::Error;
pub use cpu::measure as cpu_counts;
use criterion::{judge_direction, noise_pct};
pub use machine::Size;
use results::{CpuCounts, CpuResult, Ours, Row, TableResult, ThrashingCourse, Wu2007};
pub use thrashing::measure as thrashing_course;
pub use timed::timed_report;

/// Measures every table of Wu 2007. `progress` is told how many runs are done, and of how many.
///
/// # Errors
/// [`Error`] if a simulated machine cannot be made.
pub fn wu2007(size: Size, progress: impl Fn(usize, usize) + Sync) -> Result<Wu2007, Error> {
    let plans = plans();
    let done = AtomicUsize::new(0);
    let tasks = tasks(&plans);
    let total = tasks.len();
    let outcomes: Vec<Outcome> = tasks
        .into_par_iter()
        .map(|task| {
            let outcome = task.run(&plans, size)?;
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
            Ok(outcome)
        })
        .collect::<Result<_, Error>>()?;
    Ok(assemble(plans, size, outcomes))
}

/// A table that is to be measured.
struct Plan {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    setup: &'static str,
    rows: Vec<PlannedRow>,
    /// What is measured apart from the rest, and the first row of its figures.
    runs: Vec<(usize, Measure)>,
}

struct PlannedRow {
    label: String,
    published: Pair,
    noise_pct: f64,
}

/// Measures one row, or several that are one run, under a policy.
type Measure = Box<dyn Fn(PolicyName, Size) -> Result<Vec<f64>, Error> + Send + Sync>;

/// One piece of work that no other waits for.
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
    Cpu(Vec<CpuCounts>),
}

impl Task {
    fn run(self, plans: &[Plan], size: Size) -> Result<Outcome, Error> {
        let named = |policy: usize| Ours::POLICIES[policy];
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
            Self::Cpu { policy } => Outcome::Cpu(cpu::measure(named(policy), size)?),
        })
    }
}

/// Everything that is to be done, the longest first.
fn tasks(plans: &[Plan]) -> Vec<Task> {
    let policies = 0..Ours::POLICIES.len();
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

/// Puts figures into their rows. Outcomes come in the order of the tasks.
fn assemble(plans: Vec<Plan>, size: Size, outcomes: Vec<Outcome>) -> Wu2007 {
    let mut grids: Vec<Vec<[f64; 3]>> = plans
        .iter()
        .map(|plan| vec![[f64::NAN; 3]; plan.rows.len()])
        .collect();
    let mut courses = Vec::new();
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
                    row[policy] = figure;
                }
            }
            Outcome::Thrashing(course) => courses.push(course),
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
                .map(|(row, figures)| {
                    let ours = Ours::from_policies(figures);
                    Row::new(row.label, row.published, ours, row.noise_pct)
                })
                .collect(),
        })
        .collect();
    tables.push(thrashing_table(&courses));
    Wu2007 {
        seed: size.seed,
        divisor: size.divisor,
        tables,
        cpu: cpu_results(&counts),
        thrashing: courses,
    }
}

fn plans() -> Vec<Plan> {
    vec![iozone_plan(), aio_stress_plan(), fileio_plan(), oltp_plan()]
}

fn iozone_plan() -> Plan {
    let rows = published::iozone();
    Plan {
        name: "iozone",
        title: "iozone",
        unit: "KB/s",
        setup: iozone::SETUP,
        rows: rows
            .into_iter()
            .map(|row| PlannedRow {
                noise_pct: iozone_noise_pct(&row.test),
                label: format!("{}, run {}", row.test, row.run),
                published: Pair {
                    legacy: row.legacy_kb_s,
                    ondemand: row.ondemand_kb_s,
                },
            })
            .collect(),
        runs: vec![(0, Box::new(iozone::measure))],
    }
}

fn aio_stress_plan() -> Plan {
    Plan {
        name: "aio-stress",
        title: "aio-stress",
        unit: "seconds, less is better",
        setup: aio_stress::SETUP,
        rows: published::aio_stress()
            .into_iter()
            .map(|row| PlannedRow {
                label: row.pattern,
                published: Pair {
                    legacy: row.legacy_s,
                    ondemand: row.ondemand_s,
                },
                noise_pct: read_noise_pct(),
            })
            .collect(),
        runs: vec![(0, Box::new(aio_stress::measure))],
    }
}

fn fileio_plan() -> Plan {
    let rows = published::fileio();
    let noise_pct = fileio_noise_pct();
    let runs = rows.iter().enumerate().map(|(at, row)| {
        let (run, threads) = (row.run, row.threads);
        let measure: Measure =
            Box::new(move |policy, size| Ok(vec![fileio::measure(policy, size, run, threads)?]));
        (at, measure)
    });
    Plan {
        name: "sysbench-fileio",
        title: "sysbench fileio",
        unit: "seconds, less is better",
        setup: fileio::SETUP,
        runs: runs.collect(),
        rows: rows
            .iter()
            .map(|row| PlannedRow {
                label: format!("{} threads, run {}", row.threads, row.run),
                published: Pair {
                    legacy: row.legacy_s,
                    ondemand: row.ondemand_s,
                },
                noise_pct,
            })
            .collect(),
    }
}

fn oltp_plan() -> Plan {
    let rows = published::oltp();
    let runs = rows.iter().enumerate().map(|(at, row)| {
        let (transactions, threads) = (row.transactions, row.threads);
        let measure: Measure = Box::new(move |policy, size| {
            Ok(vec![oltp::measure(policy, size, transactions, threads)?])
        });
        (at, measure)
    });
    Plan {
        name: "sysbench-oltp",
        title: "sysbench OLTP",
        unit: "transactions a second",
        setup: oltp::SETUP,
        runs: runs.collect(),
        rows: rows
            .iter()
            .map(|row| PlannedRow {
                label: format!("{} transactions, {} threads", row.transactions, row.threads),
                published: Pair {
                    legacy: row.legacy_tps,
                    ondemand: row.ondemand_tps,
                },
                noise_pct: read_noise_pct(),
            })
            .collect(),
    }
}

fn thrashing_table(courses: &[ThrashingCourse]) -> TableResult {
    let published = published::thrashing();
    let pair = |of: fn(&published::ThrashingRow) -> f64| Pair {
        legacy: of(&published[0]),
        ondemand: of(&published[1]),
    };
    let ours = |of: fn(&ThrashingCourse) -> f64| {
        Ours::from_policies(std::array::from_fn(|at| of(&courses[at])))
    };
    let row = |label: &str, published, ours| {
        Row::new(label.to_owned(), published, ours, read_noise_pct())
    };
    TableResult {
        name: "thrashing",
        title: "Thrashing",
        unit: "MB/s and KB",
        setup: thrashing::SETUP,
        rows: vec![
            row(
                "max throughput, MB/s",
                pair(|row| row.max_throughput_mb_s),
                ours(ThrashingCourse::max_throughput_mb_s),
            ),
            row(
                "min avg I/O size, KB",
                pair(|row| row.min_avg_io_kb),
                ours(ThrashingCourse::min_mean_read_kb),
            ),
        ],
    }
}

/// `counts` are those of each policy, case by case.
fn cpu_results(counts: &[Vec<CpuCounts>]) -> Vec<CpuResult> {
    let published = published::cpu();
    published
        .into_iter()
        .enumerate()
        .map(|(case, row)| {
            let [legacy, ondemand, modern] = std::array::from_fn(|policy| counts[policy][case]);
            CpuResult {
                judgement: judge_direction(row.change_pct, fewer_pct(legacy, ondemand), 0.0),
                case: row.case,
                published_pct: row.change_pct,
                legacy,
                ondemand,
                modern,
            }
        })
        .collect()
}

/// How many calls and lookups fewer there are, in percent; negative if there are more.
fn fewer_pct(legacy: CpuCounts, ondemand: CpuCounts) -> f64 {
    use crate::run_report::as_f64;
    -Pair {
        legacy: as_f64(legacy.total()),
        ondemand: as_f64(ondemand.total()),
    }
    .change_pct()
}

/// The tests of iozone that only read.
const READING: [&str; 7] = [
    "Read",
    "Re-read",
    "Reverse Read",
    "Stride read",
    "Random read",
    "Mixed workload",
    "Pread",
];

/// The noise of iozone's tests of the kind of `test`: those that only read, and those that write,
/// which the document calls unstable.
fn iozone_noise_pct(test: &str) -> f64 {
    let reads = READING.contains(&test);
    let rows = published::iozone();
    let of_kind = rows
        .iter()
        .filter(|row| READING.contains(&&*row.test) == reads);
    noise_pct(of_kind.filter(|row| row.run == 1).flat_map(|first| {
        let second = rows
            .iter()
            .find(|row| row.run == 2 && row.test == first.test)
            .expect("each test was run twice");
        [
            (first.legacy_kb_s, second.legacy_kb_s),
            (first.ondemand_kb_s, second.ondemand_kb_s),
        ]
    }))
}

/// The noise of reads from the document's disk, for tables of which it prints no second run.
fn read_noise_pct() -> f64 {
    iozone_noise_pct("Read")
}

/// The noise of sysbench fileio, from the numbers of threads that were run twice.
fn fileio_noise_pct() -> f64 {
    let rows = published::fileio();
    let repeats = rows.iter().filter(|row| row.run == 2);
    noise_pct(repeats.flat_map(|second| {
        let first = rows
            .iter()
            .find(|row| row.run == 1 && row.threads == second.threads)
            .expect("what was run again was run before");
        [
            (first.legacy_s, second.legacy_s),
            (first.ondemand_s, second.ondemand_s),
        ]
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_what_the_document_shows_between_its_two_runs() {
        for (noise, expected) in [
            (iozone_noise_pct("Read"), 1.2),
            (iozone_noise_pct("Pread"), 1.2),
            (iozone_noise_pct("Rewrite"), 19.7),
            (fileio_noise_pct(), 5.3),
        ] {
            assert!((noise - expected).abs() < 1e-9, "{noise} {expected}");
        }
    }

    #[test]
    fn figures_of_every_run_find_their_rows() {
        let plans = plans();
        for plan in &plans {
            let last = plan.runs.last().expect("a table has a run").0;
            assert!(last < plan.rows.len(), "{}", plan.name);
        }
        let outcomes = tasks(&plans)
            .into_iter()
            .map(|task| made_up(task, &plans))
            .collect();
        let size = Size {
            divisor: 1,
            seed: 1,
        };
        let results = assemble(plans, size, outcomes);
        assert_eq!(results.tables.len(), 5);
        assert_eq!(results.cpu.len(), 5);
        for row in results.tables.iter().flat_map(|table| &table.rows) {
            assert!(row.ours.modern.is_finite(), "{}", row.label);
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
                "wu2007-iozone.svg",
                "wu2007-aio-stress.svg",
                "wu2007-sysbench-fileio.svg",
                "wu2007-sysbench-oltp.svg",
                "wu2007-thrashing.svg",
                "wu2007-thrashing-throughput.svg",
                "wu2007-thrashing-read-size.svg",
            ]
        );
        let markdown = &files[0].content;
        for name in &names[4..] {
            assert!(markdown.contains(name), "{name}");
        }
        assert!(!files[1].content.contains(".svg"), "pictures are inside");
        assert_eq!(results.report().unwrap(), files);
    }

    /// Twice as much under each next policy.
    fn made_up(task: Task, plans: &[Plan]) -> Outcome {
        let figure = |policy: usize| [10.0, 20.0, 40.0][policy];
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
            Task::Thrashing { policy } => {
                let second = |at_s: u32| results::ThrashingSecond {
                    at_s,
                    streams: at_s,
                    throughput_mb_s: figure(policy),
                    mean_read_kb: Some(figure(policy)),
                };
                Outcome::Thrashing(ThrashingCourse {
                    policy: Ours::POLICIES[policy].as_str(),
                    seconds: (1..=20).map(second).collect(),
                    pages_wasted: 1,
                    pages_ahead: 2,
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
}
