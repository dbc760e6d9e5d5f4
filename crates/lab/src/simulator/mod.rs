//! The simulator: the page cache and the policies as they are, over a device in virtual time.

mod cpu;

pub use cpu::CpuModel;

use larder_block::simulated::DeviceModel;
use larder_readahead::PolicyName;

use crate::run_report::RunReport;
use crate::workload::Jobs;

/// How a simulator is made.
#[derive(Clone, Debug)]
pub struct SimulatorConfig {
    /// The readahead policy.
    pub policy: PolicyName,
    /// The device that the files lie on.
    pub device: &'static DeviceModel,
    /// Memory for pages.
    pub memory_bytes: u64,
    /// The largest readahead window.
    pub readahead_max_bytes: u64,
    /// What chance is drawn from.
    pub seed: u64,
    /// What the processor takes.
    pub cpu: CpuModel,
}

/// A file: where its bytes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSpec {
    /// How many bytes.
    pub size_bytes: u64,
    /// Where the first of them lies on the device; the others follow.
    pub device_offset_bytes: u64,
}

/// A file of a [`Simulator`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub(crate) u32);

/// The simulation cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel gave no address space.
    #[error("cannot map a page cache of {memory_bytes} bytes: {source}")]
    Map {
        /// The memory asked for.
        memory_bytes: u64,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file does not lie on the device.
    #[error(
        "a file of {size_bytes} bytes at {device_offset_bytes} does not fit on {device} of \
         {device_size_bytes} bytes"
    )]
    OutOfDevice {
        /// Size of the file.
        size_bytes: u64,
        /// Where it was to lie.
        device_offset_bytes: u64,
        /// The device model's name.
        device: &'static str,
        /// The device's size.
        device_size_bytes: u64,
    },
}

/// A simulated machine. It stays warm from run to run: the clock goes on, and cached pages stay.
#[derive(Debug)]
pub struct Simulator {
    config: SimulatorConfig,
}

impl Simulator {
    /// A machine with an empty cache and no files.
    ///
    /// # Errors
    /// [`Error::Map`] if there is no address space for the cache.
    pub fn new(config: SimulatorConfig) -> Result<Self, Error> {
        Ok(Self { config })
    }

    /// What it was made of.
    #[must_use]
    pub fn config(&self) -> &SimulatorConfig {
        &self.config
    }

    /// Puts a file on the device.
    ///
    /// # Errors
    /// [`Error::OutOfDevice`] if it does not fit there.
    pub fn add_file(&mut self, file: FileSpec) -> Result<FileId, Error> {
        let _ = file;
        Ok(FileId(0))
    }

    /// Puts files of these sizes on the device one behind the other, behind those that it has:
    /// the first where the model says that files start.
    ///
    /// # Errors
    /// [`Error::OutOfDevice`] if one does not fit there.
    pub fn add_files(&mut self, sizes_bytes: &[u64]) -> Result<Vec<FileId>, Error> {
        let mut device_offset_bytes = self.config.device.file_start_bytes;
        sizes_bytes
            .iter()
            .map(|&size_bytes| {
                let file = self.add_file(FileSpec {
                    size_bytes,
                    device_offset_bytes,
                })?;
                device_offset_bytes += size_bytes;
                Ok(file)
            })
            .collect()
    }

    /// Runs the readers until all are done.
    pub fn run(&mut self, jobs: Jobs) -> RunReport {
        let _ = jobs;
        unimplemented!("the event loop")
    }

    /// Drops the file's clean pages from the cache.
    pub fn evict(&mut self, file: FileId) {
        let _ = file;
    }

    /// Writes back all that is dirty and waits for the device to be idle.
    pub fn settle(&mut self) {}
}
