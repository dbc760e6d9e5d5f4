//! A device in virtual time: it takes requests, and returns completions when they are due.
//!
//! Model: the layers below the page cache: an I/O scheduler that sorts and merges, and a device with a
//! queue of its own. No bytes are transferred. The caller advances the clock.
//!
//! ```text
//!   submit ──> queue (sorted, merged) ──> in the device (up to its depth) ──> complete
//!                                          seek, rotation, transfer; or latency, streams
//! ```
//!
//! Tunables: the parameters of a [`DeviceModel`]. The table [`DEVICE_MODELS`] lists all models with
//! their sources. `docs/design/devices.md` compares their performance with published measurements.
//!
//! Cost: a request costs a few steps in ordered maps and heaps. The disk also examines each of the
//! commands in its queue, at most 31, before it moves its arm. Memory is used only for pending requests,
//! and is reused.
//!
//! Deterministic: one seed, and the same requests at the same times, give the same completions.

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
