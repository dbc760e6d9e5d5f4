//! The document's machine: its disk, its memory, its largest window.

use larder_instruments::simulated::DeviceModel;
use larder_readahead::PolicyName;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use crate::simulator::{CpuModel, Error, Simulator, SimulatorConfig};

/// 1 MB max readahead size.
pub(super) const READAHEAD_MAX_BYTES: u64 = 1 << 20;

/// 2 GB, of which the kernel, the programs and their own memory leave this for pages.
const MEMORY_BYTES: u64 = (2048 - 100) << 20;

/// 128 MB with the kernel parameters `mem=128m single`, of which the kernel leaves this.
const SMALL_MEMORY_BYTES: u64 = (128 - 16) << 20;

/// How large a reproduction is, and where its chance comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Files, memory and numbers of requests are divided by this; 1 is the document's own size.
    pub divisor: u64,
    /// What chance is drawn from.
    pub seed: u64,
}

impl Size {
    /// `whole` at this size, and at least 1.
    pub(super) fn of(self, whole: u64) -> u64 {
        (whole / self.divisor.max(1)).max(1)
    }

    /// Random numbers for one use, which `purpose` tells from the others.
    pub(super) fn random(self, purpose: u64) -> Pcg64Mcg {
        Pcg64Mcg::seed_from_u64(self.seed ^ purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// The machine with all of its memory.
pub(super) fn machine(policy: PolicyName, size: Size) -> Result<Simulator, Error> {
    build(policy, named("sata-2007"), size.of(MEMORY_BYTES), size.seed)
}

/// The machine with 128 MB, at its own size always: the streams of a test of thrashing and what
/// they thrash belong together.
#[derive(Clone)]
pub(super) struct SmallMachine {
    /// Its disk.
    pub(super) device: DeviceModel,
    /// Memory for pages.
    pub(super) memory_bytes: u64,
}

impl SmallMachine {
    /// As the document's figures are reproduced.
    pub(super) fn as_modelled() -> Self {
        Self {
            device: *named("sata-2007"),
            memory_bytes: SMALL_MEMORY_BYTES,
        }
    }

    pub(super) fn boot(&self, policy: PolicyName, size: Size) -> Result<Simulator, Error> {
        build(policy, &self.device, self.memory_bytes, size.seed)
    }
}

/// The machine with a device that takes no time, to count what the processor does.
pub(super) fn instant_machine(policy: PolicyName, size: Size) -> Result<Simulator, Error> {
    build(policy, named("instant"), size.of(MEMORY_BYTES), size.seed)
}

fn named(device: &str) -> &'static DeviceModel {
    DeviceModel::named(device).expect("the models that reproductions use exist")
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
