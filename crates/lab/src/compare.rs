//! Simulates one workload under several readahead policies, with all other parameters equal.

use larder_instruments::simulated::DeviceModel;
use larder_readahead::PolicyName;
use rayon::prelude::*;
use serde::Serialize;

use crate::run_report::RunReport;
use crate::simulator::{CpuModel, Error, Simulator, SimulatorConfig};
use crate::workload::Workload;

/// The parameters of a comparison, which are equal for all policies.
#[derive(Clone, Debug)]
pub struct CompareConfig {
    /// The workload, which generates the operations of the readers.
    pub workload: Workload,
    /// The device that stores the files.
    pub device: &'static DeviceModel,
    /// Memory for pages.
    pub memory_bytes: u64,
    /// The largest readahead window.
    pub readahead_max_bytes: u64,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Processor time of each operation.
    pub cpu: CpuModel,
}

/// The results of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The name of the workload and all its parameters.
    pub workload: String,
    /// The device model's name.
    pub device: &'static str,
    /// Memory for pages.
    pub memory_bytes: u64,
    /// The largest readahead window.
    pub readahead_max_bytes: u64,
    /// Seed of the random numbers.
    pub seed: u64,
    /// One report for each policy, in the requested order.
    pub reports: Vec<RunReport>,
}

/// Runs the workload on a cold cache under each of `policies`, in parallel.
///
/// # Errors
/// Returns an error if the cache cannot be created, or if the files do not fit on the device.
pub fn compare(config: &CompareConfig, policies: &[PolicyName]) -> Result<Comparison, Error> {
    let reports = policies
        .par_iter()
        .map(|policy| {
            let mut simulator = Simulator::new(SimulatorConfig {
                policy: *policy,
                device: *config.device,
                memory_bytes: config.memory_bytes,
                readahead_max_bytes: config.readahead_max_bytes,
                seed: config.seed,
                cpu: config.cpu,
            })?;
            let files = simulator.add_files(&config.workload.file_sizes())?;
            Ok(simulator.run(config.workload.jobs(&files, config.seed)))
        })
        .collect::<Result<_, Error>>()?;
    Ok(Comparison {
        workload: config.workload.to_string(),
        device: config.device.name,
        memory_bytes: config.memory_bytes,
        readahead_max_bytes: config.readahead_max_bytes,
        seed: config.seed,
        reports,
    })
}
