//! The parameters of a simulator, and its errors.

use super::cpu::CpuModel;
use larder_instruments::simulated::DeviceModel;
use larder_readahead::PolicyName;

/// Parameters of a simulator.
#[derive(Clone, Debug)]
pub struct SimulatorConfig {
    /// The readahead policy.
    pub policy: PolicyName,
    /// The device that stores the files.
    pub device: DeviceModel,
    /// Memory for pages.
    pub memory_bytes: u64,
    /// The largest readahead window.
    pub readahead_max_bytes: u64,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Processor time of each operation.
    pub cpu: CpuModel,
}

/// The reasons why a simulation cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel did not provide address space.
    #[error("cannot map a page cache of {memory_bytes} bytes: {source}")]
    Map {
        /// The requested memory.
        memory_bytes: u64,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file does not fit on the device.
    #[error(
        "a file of {size_bytes} bytes at offset {device_offset_bytes} does not fit on {device}, which \
         has {device_size_bytes} bytes"
    )]
    OutOfDevice {
        /// Size of the file.
        size_bytes: u64,
        /// The offset of the file on the device.
        device_offset_bytes: u64,
        /// The device model's name.
        device: &'static str,
        /// The device's size.
        device_size_bytes: u64,
    },
    /// There are more files than file numbers.
    #[error("too many files for one simulator")]
    TooManyFiles,
}
