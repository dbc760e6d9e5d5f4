//! Simulates disks and other block devices in virtual time. A simulated device accepts requests, and computes
//! when each of them completes.
//!
//! Model: the layers of Linux below the page cache. An I/O scheduler of the host sorts and merges requests
//! into commands, and a device with a command queue of its own serves the commands. The simulation computes
//! only times: requests contain no data. The caller passes the current virtual time to each call.
//!
//! ```text
//!   submit ──> host's queue ──────────> device ──────────────────> complete
//!              sorts and merges         serves up to `device_depth`
//!              requests                 commands at a time
//! ```
//!
//! Tunables: the parameters of a [`DeviceModel`]. The table [`DEVICE_MODELS`] lists all models with their
//! sources. `docs/design/devices.md` compares their performance with published measurements. A disk has a
//! seek time, a rotation time and a transfer rate; other devices have a latency and limits on the transfer
//! rate.
//!
//! Cost: a request costs a few operations on ordered maps and heaps. The disk also examines each of the
//! commands in its queue, at most 31, before it moves its arm. A disk needs memory for its table of seek times
//! and for the ranges in its caches. All other memory is for pending requests, and is reused.
//!
//! Determinism: the completions depend only on the model, the seed, and the requests and their times.

mod arithmetic;
mod cfq;
mod command;
mod device;
mod drive;
mod drive_cache;
mod lane;
mod latency;
mod mechanics;
mod model;
mod parallel;
mod parameters;
mod request;
mod scheduler;

pub use device::{DeviceCounts, SimulatedDevice};
pub use model::{DEVICE_MODELS, UnknownModel};
pub use parameters::{
    CfqModel, DeadlineModel, DeviceModel, DiskModel, ElevatorModel, ParallelModel, Parameter,
    QueueModel, ServiceModel, SourcedValue, StripedUnits,
};
pub use request::{Completion, Request, RequestId, RequestKind, VirtualTime};
