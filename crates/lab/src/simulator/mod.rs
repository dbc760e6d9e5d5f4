//! The simulator: the page cache and the policies as they are, over a device in virtual time.
//!
//! ```text
//!   readers (run, task)        what each does next, and when: workload
//!      | read, write           larder_readahead::driver, as in the mount
//!   page cache                 larder_cache::page::PageCache, as in the mount
//!      | in_flight, write_back one device request for each run of pages
//!   device                     larder_instruments::simulated::SimulatedDevice
//! ```
//!
//! # What is real, and what is not
//! The cache, its budget and the policies are the code that a mount runs. The device is a model,
//! and so is the processor ([`CpuModel`]). Bytes are neither read nor copied: pages have frames
//! that nobody touches, so simulated memory costs 40 bytes a page.
//!
//! Pages of a window for a miss carry the same flags as in the mount: those of the request are
//! wanted, the others read ahead. Of a window for a marker, the mount takes all pages for read
//! ahead, and the simulator those that the request does not reach. One part of a policy is
//! heeded here and not by the mount:
//! [`copies_state`](larder_readahead::Policy::copies_state). It matters where readers share an
//! open file.
//!
//! Deliberate differences from Linux, where results may depend on them:
//! - **Eviction** is Larder's: one clock hand over all pages, which spares once a page used twice.
//!   Linux has two lists, and moves a page to the active one when it is used again. Where pages
//!   are used once, as in streams, both evict in the order of arrival. Where a file larger than
//!   memory is read again and again at random, Linux protects what was read twice for longer.
//! - **No file system**: a file is one run of bytes on the device, has its size from the start,
//!   and needs no metadata.
//! - **A reader that runs asks for all that it can at once**, at the time it got its processor.
//!   The processor time that it spent delays what it does next.
//! - **Memory that is all in flight**: a reader waits until the device completes something, and
//!   windows are cut short, as in Linux.
//! - **Memory that comes free** goes to those who wait for it, first come first served. In Linux
//!   each who finds none goes reclaiming for itself.
//! - **Page tables** do not exist: each access to a mapping is a fault.
//!
//! # Invariants
//! Time never goes back, and the same configuration, files and jobs give the same reports to the
//! byte. `tests/simulator` holds runs to what they were asked for.
//!
//! # Cost
//! `cargo bench -p larder-lab --bench simulate` prints page accesses a second of processor time.
//! On a shared virtual machine of 2026: 2 to 12 million on what is cached and on misses that large
//! requests bring in, 1.7 to 2.4 million where each page is a request to a drive without
//! mechanics. Where each page is a command to the disk: 0.9 to 1.0 million for one reader at
//! random, 0.75 million for 200 readers queued. Of that, half a microsecond an access is the page
//! cache and the readers, as on a device that takes no time; the rest is the disk's model.

mod cpu;
mod event;
mod in_flight;
mod latency;
mod machine;
mod page_set;
mod read;
mod run;
mod sampler;
mod task;
mod write;
mod write_back;

pub use cpu::CpuModel;

use larder_instruments::simulated::DeviceModel;
use larder_readahead::PolicyName;

use crate::run_report::{PageCounts, RunReport};
use crate::workload::Jobs;
use machine::Machine;
use run::Run;

/// Size of a page.
pub const PAGE_BYTES: u64 = 4096;

/// How a simulator is made.
#[derive(Clone, Debug)]
pub struct SimulatorConfig {
    /// The readahead policy.
    pub policy: PolicyName,
    /// The device that the files lie on.
    pub device: DeviceModel,
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
pub struct FileId(u32);

impl FileId {
    /// Its place in tables of all files.
    fn index(self) -> usize {
        self.0 as usize
    }
}

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
    /// There are more files than numbers.
    #[error("more files than a simulator can number")]
    TooManyFiles,
}

/// A simulated machine. It stays warm from run to run: the clock goes on, and cached pages stay.
#[derive(Debug)]
pub struct Simulator {
    config: SimulatorConfig,
    machine: Machine,
    /// Where [`Simulator::add_files`] goes on.
    free_from_bytes: u64,
}

impl Simulator {
    /// A machine with an empty cache and no files.
    ///
    /// # Errors
    /// [`Error::Map`] if there is no address space for the cache.
    pub fn new(config: SimulatorConfig) -> Result<Self, Error> {
        Ok(Self {
            machine: Machine::new(&config)?,
            free_from_bytes: config.device.file_start_bytes.value,
            config,
        })
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
        self.machine.add_file(file)
    }

    /// Puts files of these sizes on the device one behind the other: the first where the model
    /// says that files start, or behind those that an earlier call put there.
    ///
    /// # Errors
    /// [`Error::OutOfDevice`] if one does not fit there.
    pub fn add_files(&mut self, sizes_bytes: &[u64]) -> Result<Vec<FileId>, Error> {
        sizes_bytes
            .iter()
            .map(|&size_bytes| {
                let file = self.machine.add_file(FileSpec {
                    size_bytes,
                    device_offset_bytes: self.free_from_bytes,
                })?;
                // It fits the device, so it cannot overflow.
                self.free_from_bytes += size_bytes.next_multiple_of(PAGE_BYTES);
                Ok(file)
            })
            .collect()
    }

    /// Runs the readers until all are done. Files are opened anew; what was in flight or dirty
    /// before goes on, and what is at the end stays so.
    pub fn run(&mut self, jobs: Jobs) -> RunReport {
        Run::new(&mut self.machine, self.config.cpu, jobs).finish()
    }

    /// Drops the file's clean pages from the cache.
    pub fn evict(&mut self, file: FileId) {
        self.machine.evict(file);
    }

    /// Writes back all that is dirty and waits for the device to be idle.
    pub fn settle(&mut self) {
        self.machine.settle();
    }

    /// The pages that are cached or in flight.
    #[must_use]
    pub fn cached_pages(&self) -> u64 {
        self.machine.cached_pages()
    }

    /// The pages that are dirty or being written.
    #[must_use]
    pub fn dirty_pages(&self) -> u64 {
        self.machine.write_back.unclean_pages()
    }

    /// All counts since the machine was made.
    #[must_use]
    pub fn counts(&self) -> PageCounts {
        self.machine.all_counts()
    }

    /// Checks the invariants of the cache.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check_invariants(&self) {
        self.machine.pages.frames().check_invariants();
    }
}
