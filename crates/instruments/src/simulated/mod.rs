//! A device that takes virtual time: requests go in, completions come out when they are due.
//!
//! Model: what lies below the page cache when a kernel reads ahead: an I/O scheduler that sorts
//! and merges, and a device with a queue of its own. No bytes move; the caller holds the clock.
//!
//! ```text
//!   submit ──> queue (sorted, merged) ──> in the device (up to its depth) ──> complete
//!                                          seek, rotation, transfer; or latency, streams
//! ```
//!
//! Tunables: the parameters of a [`DeviceModel`]; [`DEVICE_MODELS`] is the table of them all, each
//! with its source. `docs/design/devices.md` has what they do, beside published measurements.
//!
//! Cost: a request costs a few steps in ordered maps and heaps; the disk also looks at each of
//! the commands in its queue, at most 31, before it moves its arm. Memory is for what is under
//! way, and is reused.
//!
//! Deterministic: the same requests at the same times give the same completions, from one seed.

mod arithmetic;
mod command;
mod device;
mod drive;
mod drive_cache;
mod mechanics;
mod model;
mod parallel;
mod parameters;
mod request;
mod scheduler;

pub use device::{DeviceCounts, SimulatedDevice};
pub use model::DEVICE_MODELS;
pub use parameters::{
    DeviceModel, DiskModel, ElevatorModel, Figure, ParallelModel, Parameter, QueueModel,
    ServiceModel, UnitModel, UnknownModel,
};
pub use request::{Completion, Request, RequestId, RequestKind, VirtualTime};
