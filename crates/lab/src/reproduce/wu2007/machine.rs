//! Simulates the document's machine: its disk, its memory and its largest readahead window.

use larder_instruments::simulated::DeviceModel;
use larder_readahead::PolicyName;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use crate::simulator::{CpuModel, Error, Simulator, SimulatorConfig};

/// The largest readahead window, in bytes: 1 MB in the document.
pub(super) const READAHEAD_MAX_BYTES: u64 = 1 << 20;

/// Memory for pages, in bytes: the document's 2 GB minus an estimate for the kernel and programs.
const MEMORY_BYTES: u64 = (2048 - 100) << 20;

/// Memory of a process that reads a stream, without the page cache: private memory, page tables and kernel
/// memory. `scripts/process-memory` measured it with 200 processes in a control group, on Linux 6.18 (x86-64,
/// glibc 2.36), 2026-11-24; 86,691 of these bytes are kernel memory. At that time, the script did not yet subtract the
/// memory of the idle process that kept the group alive, so the figure contains a two-hundredth of it.
pub(super) const PROCESS_BYTES: u64 = 192_450;

/// Memory for pages in the thrashing test, in bytes: 128 MB (kernel parameters `mem=128m single`) minus an
/// estimate for the kernel, minus the memory of 200 processes.
pub(super) const SMALL_MEMORY_BYTES: u64 = ((128 - 16) << 20) - 200 * PROCESS_BYTES;

/// The size of a reproduction, and the seed of its random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Divisor of files, memory and numbers of requests; 1 is the document's own size.
    pub divisor: u64,
    /// Seed of the random numbers.
    pub seed: u64,
    /// The scheduler of the disk.
    pub scheduler: Scheduler,
}

/// A scheduler of the disk. CFQ was the default of Linux 2.6.20; the document does not name the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// The deadline scheduler.
    Deadline,
    /// CFQ, completely fair queueing.
    Cfq,
}

impl Scheduler {
    /// Returns the model of the document's disk with this scheduler.
    fn disk(self) -> &'static DeviceModel {
        named(match self {
            Self::Deadline => "sata-2007",
            Self::Cfq => "sata-2007-cfq",
        })
    }
}

impl Size {
    /// Returns `whole` divided by the divisor, and at least 1.
    pub(super) fn of(self, whole: u64) -> u64 {
        (whole / self.divisor.max(1)).max(1)
    }

    /// Returns a random number generator for one use, which `purpose` identifies.
    pub(super) fn random(self, purpose: u64) -> Pcg64Mcg {
        Pcg64Mcg::seed_from_u64(self.seed ^ purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// Returns the machine with all of its memory.
pub(super) fn machine(policy: PolicyName, size: Size) -> Result<Simulator, Error> {
    build(
        policy,
        size.scheduler.disk(),
        size.of(MEMORY_BYTES),
        size.seed,
    )
}

/// The machine with 128 MB. It is never scaled, since thrashing depends on the ratio of streams to
/// memory.
#[derive(Clone)]
pub(super) struct SmallMachine {
    /// The disk.
    pub(super) device: DeviceModel,
    /// Memory for pages.
    pub(super) memory_bytes: u64,
}

impl SmallMachine {
    /// Returns the machine with which the document's figures are reproduced.
    pub(super) fn as_modelled(scheduler: Scheduler) -> Self {
        Self {
            device: *scheduler.disk(),
            memory_bytes: SMALL_MEMORY_BYTES,
        }
    }

    pub(super) fn boot(&self, policy: PolicyName, size: Size) -> Result<Simulator, Error> {
        build(policy, &self.device, self.memory_bytes, size.seed)
    }
}

/// Returns the machine with a device that takes no time, for counting processor work.
pub(super) fn instant_machine(policy: PolicyName, size: Size) -> Result<Simulator, Error> {
    build(policy, named("instant"), size.of(MEMORY_BYTES), size.seed)
}

fn named(device: &str) -> &'static DeviceModel {
    DeviceModel::named(device).expect("the device models of the reproduction exist")
}

fn build(
    policy: PolicyName,
    device: &DeviceModel,
    memory_bytes: u64,
    seed: u64,
) -> Result<Simulator, Error> {
    Simulator::new(SimulatorConfig {
        policy,
        device: *device,
        memory_bytes,
        readahead_max_bytes: READAHEAD_MAX_BYTES,
        seed,
        cpu: CpuModel::CORE_2,
    })
}
