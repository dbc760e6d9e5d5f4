//! The table of cells: every workload on every kind of device under every policy, with several seeds.
//!
//! A cell is a workload on a device. For each seed, the throughput of `adaptive` is divided by that of the fastest
//! policy of Linux in the same cell. The figure of a cell is the median of these ratios, with a 95% interval. Most
//! workloads use no random numbers, and the devices without moving parts use none either, so many intervals have no
//! width.
//!
//! The waste of a cell is the number of pages that were read ahead and evicted before their use, divided by the number
//! of pages that were read from the device.

mod report;
mod rows;

use crate::compare::{CompareConfig, compare};
use crate::run_report::{RunReport, quotient, ratio};
use crate::simulator::{CpuModel, Error, PAGE_BYTES};
use crate::statistics::Interval;
use crate::workload::Workload;
use larder_instruments::simulated::DeviceModel;
use larder_readahead::PolicyName;
use rayon::prelude::*;
use rows::{DEVICES, ROWS, Row};
use serde::Serialize;

/// The policies in the order of the columns. The last one is compared with the others.
const POLICIES: [PolicyName; 4] = [
    PolicyName::Legacy,
    PolicyName::OnDemand,
    PolicyName::Modern,
    PolicyName::Adaptive,
];

/// The figures of one policy in a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicyFigures {
    /// The policy.
    #[serde(serialize_with = "as_text")]
    pub policy: PolicyName,
    /// Bytes read and written per second of virtual time.
    pub throughput_bytes_s: Interval,
    /// Pages that were read ahead and evicted before their use, as a share of the pages read from the device. The
    /// largest value of all seeds.
    pub waste: f64,
    /// Pages that were read ahead and never used, as a share of the pages read from the device. The
    /// largest value of all seeds.
    pub unused: f64,
}

/// A workload on a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The name of the workload and all its parameters.
    pub workload: String,
    /// The device model's name.
    pub device: &'static str,
    /// Memory for pages.
    pub memory_bytes: u64,
    /// The largest window of the policies of Linux.
    pub readahead_max_bytes: u64,
    /// The throughput of `adaptive`, divided by the largest throughput of a policy of Linux.
    pub ratio: Interval,
    /// The figures of each policy.
    pub policies: Vec<PolicyFigures>,
    /// Whether the workload is one of the 16 for which the targets were set.
    pub is_required: bool,
    /// The short name of the row.
    #[serde(skip)]
    pub(crate) row: &'static str,
}

/// All cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cells {
    /// The number of seeds of each cell.
    pub seeds: u64,
    /// The largest window of the policies of Linux.
    pub readahead_max_bytes: u64,
    /// The cells, row by row.
    pub cells: Vec<Cell>,
}

/// Returns the number of cells that [`cells`] simulates.
#[must_use]
pub fn cell_count() -> u64 {
    (ROWS.len() * DEVICES.len()) as u64
}

/// Simulates all cells with the seeds 1 to `seeds`. Calls `done` after each cell. The policies of Linux have windows of up
/// to `readahead_max_bytes`, except in rows that were published with another limit.
///
/// # Errors
/// Returns an error if a cache cannot be created.
pub fn cells(seeds: u64, readahead_max_bytes: u64, done: impl Fn() + Sync) -> Result<Cells, Error> {
    let places: Vec<(&Row, &str)> = ROWS
        .iter()
        .flat_map(|row| DEVICES.iter().map(move |device| (row, *device)))
        .collect();
    let cells = places.into_par_iter().map(|(row, device)| {
        let limit_bytes = row.readahead_max_bytes.unwrap_or(readahead_max_bytes);
        let cell = cell(row, device, seeds, limit_bytes);
        done();
        cell
    });
    let cells = cells.collect::<Result<_, Error>>()?;
    Ok(Cells {
        seeds,
        readahead_max_bytes,
        cells,
    })
}

fn cell(row: &Row, device: &str, seeds: u64, readahead_max_bytes: u64) -> Result<Cell, Error> {
    let workload = Workload::named(row.workload).expect("the table has valid workloads");
    let device = DeviceModel::named(device).expect("the table has valid devices");
    let runs = (1..=seeds).map(|seed| {
        let config = CompareConfig {
            workload: workload.clone(),
            device,
            memory_bytes: row.memory_bytes,
            readahead_max_bytes,
            seed,
            cpu: CpuModel::default(),
        };
        Ok(compare(&config, &POLICIES)?.reports)
    });
    let runs: Vec<Vec<RunReport>> = runs.collect::<Result<_, Error>>()?;
    let ratios: Vec<f64> = runs.iter().map(|reports| against_best(reports)).collect();
    let policies = (0..).zip(POLICIES).map(|(at, policy): (usize, _)| {
        let of_policy = || runs.iter().map(|reports| &reports[at]);
        let throughputs: Vec<f64> = of_policy().map(RunReport::throughput_bytes_s).collect();
        PolicyFigures {
            policy,
            throughput_bytes_s: Interval::of_median(&throughputs),
            waste: of_policy().map(waste).fold(0.0, f64::max),
            unused: of_policy().map(unused).fold(0.0, f64::max),
        }
    });
    Ok(Cell {
        workload: workload.to_string(),
        device: device.name,
        memory_bytes: row.memory_bytes,
        readahead_max_bytes,
        ratio: Interval::of_median(&ratios),
        policies: policies.collect(),
        is_required: row.is_required,
        row: row.name,
    })
}

/// Returns the throughput of the last report, divided by the largest throughput of the others.
fn against_best(reports: &[RunReport]) -> f64 {
    let Some((adaptive, others)) = reports.split_last() else {
        return f64::NAN;
    };
    let best = others.iter().map(RunReport::throughput_bytes_s);
    ratio(adaptive.throughput_bytes_s(), best.fold(0.0, f64::max))
}

fn waste(report: &RunReport) -> f64 {
    share(report.pages.pages_wasted, report)
}

fn unused(report: &RunReport) -> f64 {
    let used = report.pages.pages_used;
    share(report.pages.pages_ahead.saturating_sub(used), report)
}

/// Returns `pages` as a share of the pages that the device read.
fn share(pages: u64, report: &RunReport) -> f64 {
    let read = report.device_read_bytes / PAGE_BYTES;
    quotient(pages, read)
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn as_text<S: serde::Serializer>(policy: &PolicyName, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(policy)
}
