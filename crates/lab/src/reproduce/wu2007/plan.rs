//! The published tables as plans: their rows, the functions that measure the rows, and the noise of
//! the document's own figures.

use larder_readahead::PolicyName;

use super::criterion::noise_pct;
use super::machine::Size;
use super::{aio_stress, fileio, iozone, oltp};
use crate::published::{self, Pair};
use crate::simulator::Error;

/// A table to be measured.
pub(super) struct Plan {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) unit: &'static str,
    pub(super) setup: &'static str,
    pub(super) rows: Vec<PlannedRow>,
    /// Independent measurements, each with the index of the first row that its figures fill.
    pub(super) runs: Vec<(usize, Measure)>,
}

pub(super) struct PlannedRow {
    pub(super) label: String,
    pub(super) published: Pair,
    pub(super) noise_pct: f64,
}

/// Measures one row, or several rows of one run, under a policy.
pub(super) type Measure = Box<dyn Fn(PolicyName, Size) -> Result<Vec<f64>, Error> + Send + Sync>;

/// Returns the plans of all tables except thrashing and processor time, whose rows need more than one figure.
pub(super) fn plans() -> Vec<Plan> {
    vec![iozone_plan(), aio_stress_plan(), fileio_plan(), oltp_plan()]
}

fn iozone_plan() -> Plan {
    let rows = published::iozone().into_iter();
    let rows = rows.map(|row| PlannedRow {
        noise_pct: iozone_noise_pct(&row.test),
        label: format!("{}, run {}", row.test, row.run),
        published: row.figures,
    });
    Plan {
        name: "iozone",
        title: "iozone",
        unit: "KB/s",
        setup: iozone::SETUP,
        rows: rows.collect(),
        runs: vec![(0, Box::new(iozone::measure))],
    }
}

fn aio_stress_plan() -> Plan {
    let rows = published::aio_stress().into_iter();
    let rows = rows.map(|row| PlannedRow {
        label: row.pattern,
        published: row.figures,
        noise_pct: read_noise_pct(),
    });
    Plan {
        name: "aio-stress",
        title: "aio-stress",
        unit: "seconds (less is better)",
        setup: aio_stress::SETUP,
        rows: rows.collect(),
        runs: vec![(0, Box::new(aio_stress::measure))],
    }
}

fn fileio_plan() -> Plan {
    let noise_pct = fileio_noise_pct();
    let planned = published::fileio().into_iter().map(|row| {
        let (run, threads) = (row.run, row.threads);
        let measure: Measure =
            Box::new(move |policy, size| Ok(vec![fileio::measure(policy, size, run, threads)?]));
        let planned = PlannedRow {
            label: format!("{}, run {run}", counted_threads(threads)),
            published: row.figures,
            noise_pct,
        };
        (planned, measure)
    });
    let (rows, runs): (_, Vec<Measure>) = planned.unzip();
    Plan {
        name: "sysbench-fileio",
        title: "sysbench fileio",
        unit: "seconds (less is better)",
        setup: fileio::SETUP,
        rows,
        runs: (0..).zip(runs).collect(),
    }
}

fn oltp_plan() -> Plan {
    let noise_pct = read_noise_pct();
    let planned = published::oltp().into_iter().map(|row| {
        let (transactions, threads) = (row.transactions, row.threads);
        let measure: Measure = Box::new(move |policy, size| {
            Ok(vec![oltp::measure(policy, size, transactions, threads)?])
        });
        let planned = PlannedRow {
            label: format!("{transactions} transactions, {}", counted_threads(threads)),
            published: row.figures,
            noise_pct,
        };
        (planned, measure)
    });
    let (rows, runs): (_, Vec<Measure>) = planned.unzip();
    Plan {
        name: "sysbench-oltp",
        title: "sysbench OLTP",
        unit: "transactions per second",
        setup: oltp::SETUP,
        rows,
        runs: (0..).zip(runs).collect(),
    }
}

fn counted_threads(threads: u32) -> String {
    match threads {
        1 => "1 thread".to_owned(),
        _ => format!("{threads} threads"),
    }
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

/// Returns the noise of iozone's tests of the same kind as `test`. There are two kinds: tests that only
/// read, and tests that write, which the document calls unstable.
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
        pairs(first.figures, second.figures)
    }))
}

fn pairs(first: Pair, second: Pair) -> [(f64, f64); 2] {
    [
        (first.legacy, second.legacy),
        (first.ondemand, second.ondemand),
    ]
}

/// Returns the noise of reads from the document's disk, for tables without a second run.
pub(super) fn read_noise_pct() -> f64 {
    iozone_noise_pct("Read")
}

/// Returns the noise of sysbench fileio, from the numbers of threads that were run twice.
fn fileio_noise_pct() -> f64 {
    let rows = published::fileio();
    let repeats = rows.iter().filter(|row| row.run == 2);
    noise_pct(repeats.flat_map(|second| {
        let first = rows
            .iter()
            .find(|row| row.run == 1 && row.threads == second.threads)
            .expect("a second run has a first run");
        pairs(first.figures, second.figures)
    }))
}

/// Returns the noise of the sum of sysbench fileio's runs: the difference between the sums of the first and of the second
/// runs, of the numbers of threads that were run twice.
pub(super) fn fileio_sum_noise_pct() -> f64 {
    let rows = published::fileio();
    let is_repeated = |threads: u32| {
        let mut rows = rows.iter();
        rows.any(|row| row.run == 2 && row.threads == threads)
    };
    let sum = |run: u32| {
        let rows = rows.iter();
        let rows = rows.filter(|row| row.run == run && is_repeated(row.threads));
        let figures: Vec<Pair> = rows.map(|row| row.figures).collect();
        Pair {
            legacy: figures.iter().map(|pair| pair.legacy).sum(),
            ondemand: figures.iter().map(|pair| pair.ondemand).sum(),
        }
    };
    noise_pct(pairs(sum(1), sum(2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_the_difference_between_the_two_runs_of_the_document() {
        for (noise, expected) in [
            (iozone_noise_pct("Read"), 1.2),
            (iozone_noise_pct("Pread"), 1.2),
            (iozone_noise_pct("Rewrite"), 19.7),
            (fileio_noise_pct(), 5.3),
            (fileio_sum_noise_pct(), 1.0),
        ] {
            assert!((noise - expected).abs() < 1e-9, "{noise} {expected}");
        }
    }
}
