//! Simulates workloads: runs Larder's page cache and readahead policies on a simulated device, in virtual
//! time.
//!
//! ```text
//!   readers (run, task)           execute the operations of a workload
//!      | read, write              reads use larder_readahead::driver, as in a mount
//!   page cache                    larder_cache::page::PageCache, as in a mount
//!      | in_flight, write_back    one device request for each run of pages
//!   device                        larder_instruments::simulated::SimulatedDevice
//! ```
//!
//! # Real and simulated parts
//! The cache, its budget and the policies are the code that a mount runs. The device and the processor
//! ([`CpuModel`]) are models. No content is read or copied. The memory of pages is never accessed, so a
//! simulated page costs 40 bytes of real memory.
//!
//! A page of a readahead window is either wanted (a reader requests it) or read ahead. In the simulator, the
//! pages of the request are wanted, and all others are read ahead. A mount treats more pages as read ahead:
//! - If a marker (the first page of the asynchronous part of the previous window) causes the window, all pages of
//!   the window.
//! - Otherwise, also the pages of the request that the reader does not read itself. The reader stops at the
//!   first page that is already cached, and at a maximum number of pages.
//!
//! The property [`copies_state`](larder_readahead::Policy::copies_state) of a policy affects readers that share
//! an open file. It always has an effect here, but in a volume only with `readahead_exact`.
//!
//! Deliberate differences from Linux that may affect results:
//! - **Eviction** is Larder's: one clock hand scans all pages, and evicts a page unless it was used since the
//!   hand last passed it. The first use of a page does not count. Linux has an inactive and an active list, and
//!   moves a page to the active list when it is used again. If each page is used once, as by sequential readers,
//!   both evict pages in the order in which they were read. If a file larger than memory is read repeatedly at
//!   random, Linux keeps a page that was read twice for longer than Larder does.
//! - **No file system**: a file is a contiguous range of the device, has its full size from the start, and
//!   has no metadata.
//! - **Processor time does not delay requests**: a reader runs until it must wait or its operation is done, and
//!   issues all requests of this time when it acquires its processor. The processor time that it spends delays
//!   what it does next: the rest of the operation after the wait, or its next operation.
//! - **Full memory**: if every page is being read, dirty or being written, a reader waits until the device
//!   completes a request. Waiting readers receive the freed memory in FIFO order. In Linux, each task that finds
//!   no free memory reclaims pages itself.
//! - **Page tables** are not modelled: each access to a mapping is a fault.
//!
//! # Invariants
//! Time never decreases, and the same configuration, files and jobs produce byte-identical reports.
//! The tests in `tests/simulator` compare the counts in each report with the operations of the readers.
//!
//! # Cost
//! `cargo bench -p larder-lab --bench simulate` prints page accesses per second of processor time. On a
//! shared virtual machine of 2026, the simulator executes 2 to 12 million accesses to cached pages, or to
//! pages that are read in large requests. It executes 1.7 to 2.4 million accesses if each page is a request
//! to a device that is not a disk. If each page is a request to the disk, it executes 0.9 to 1.0 million for
//! one random reader and 0.75 million for 200 concurrent readers. The page cache and the readers take half a
//! microsecond of an access; the model of the disk takes the remainder.

mod config;
mod cpu;
mod event;
mod ids;
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

pub use config::{Error, SimulatorConfig};
pub use cpu::CpuModel;
pub use ids::{FileId, FileSpec, PAGE_BYTES};

use crate::run_report::{PageCounts, RunReport};
use crate::workload::Jobs;
use machine::Machine;
use run::Run;

/// A simulated machine. It stays warm from run to run: the clock continues, and pages stay cached.
#[derive(Debug)]
pub struct Simulator {
    config: SimulatorConfig,
    machine: Machine,
    /// Device offset at which [`Simulator::add_files`] continues.
    free_from_bytes: u64,
}

impl Simulator {
    /// Creates a machine with an empty cache and no files.
    ///
    /// # Errors
    /// Returns [`Error::Map`] if there is no address space for the cache.
    pub fn new(config: SimulatorConfig) -> Result<Self, Error> {
        Ok(Self {
            machine: Machine::new(&config)?,
            free_from_bytes: config.device.file_start_bytes.value,
            config,
        })
    }

    /// Returns the parameters of the simulator.
    #[must_use]
    pub fn config(&self) -> &SimulatorConfig {
        &self.config
    }

    /// Adds a file on the device.
    ///
    /// # Errors
    /// Returns [`Error::OutOfDevice`] if the file does not fit there.
    pub fn add_file(&mut self, file: FileSpec) -> Result<FileId, Error> {
        self.machine.add_file(file)
    }

    /// Adds files of these sizes, one after the other. The first one follows the files of earlier calls, or
    /// starts at the model's offset for files.
    ///
    /// # Errors
    /// Returns [`Error::OutOfDevice`] if one of the files does not fit there.
    pub fn add_files(&mut self, sizes_bytes: &[u64]) -> Result<Vec<FileId>, Error> {
        sizes_bytes
            .iter()
            .map(|&size_bytes| {
                let file = self.machine.add_file(FileSpec {
                    size_bytes,
                    device_offset_bytes: self.free_from_bytes,
                })?;
                // The file fits on the device, so this cannot overflow.
                self.free_from_bytes += size_bytes.next_multiple_of(PAGE_BYTES);
                Ok(file)
            })
            .collect()
    }

    /// Runs the readers until all are done. The run opens the files anew. At its start and at its end, it neither
    /// waits for pages in flight nor writes dirty pages back.
    pub fn run(&mut self, jobs: Jobs) -> RunReport {
        Run::new(&mut self.machine, self.config.cpu, jobs).finish()
    }

    /// Drops the file's clean pages from the cache.
    pub fn evict(&mut self, file: FileId) {
        self.machine.evict(file);
    }

    /// Writes back all dirty pages, and waits until the device is idle.
    pub fn sync(&mut self) {
        self.machine.sync();
    }

    /// Returns the number of pages that are cached or in flight.
    #[must_use]
    pub fn cached_pages(&self) -> u64 {
        self.machine.cached_pages()
    }

    /// Returns the number of pages that are dirty or being written.
    #[must_use]
    pub fn dirty_pages(&self) -> u64 {
        self.machine.write_back.unclean_pages()
    }

    /// Returns all counts since the machine was created.
    #[must_use]
    pub fn counts(&self) -> PageCounts {
        self.machine.all_counts()
    }

    /// Checks the invariants of the cache.
    ///
    /// # Panics
    /// Panics if an invariant is violated.
    pub fn check_invariants(&self) {
        self.machine.pages.frames().check_invariants();
    }
}
