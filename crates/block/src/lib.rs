//! Block devices, which store the bytes of an image.
//!
//! Everything above this crate reads and writes through [`BlockDevice`], which is the seam for fault
//! injection and recording (`larder-instruments`). A device is a flat array of bytes. Offsets and lengths
//! are in bytes and need no alignment.
//!
//! | device | bytes from | for |
//! |---|---|---|
//! | [`FileDevice`] | a regular file or a kernel block device | every mount |
//! | [`DirectDevice`] | the same, bypassing the kernel's page cache | mounts with `direct_device` |
//! | [`MemoryDevice`] | a vector | tests, images made in memory |
//! | [`RemapDevice`] | another device, with some blocks redirected to other blocks of it | journal recovery without writing |
//! | [`ThreadedDevice`] | another device, whose blocking calls are made by threads | devices without asynchronous requests |
//! | [`DeadlineDevice`] | another device, with a timeout for reads and asynchronous requests | every mount |
//! | [`CountingDevice`] | another device, with reads and bytes counted | statistics |
//!
//! [`mounts`] lists the mounts of the process's mount namespace.

mod back_end;
mod buffers;
mod calls;
mod counting;
mod deadline;
mod device;
mod direct;
mod engine;
mod error;
mod file;
mod lock;
mod loops;
mod memory;
pub mod mounts;
mod processors;
mod remap;
mod request;
mod retry;
mod ring;
mod server;
mod threaded;
mod waiting;

pub use back_end::{BackEnd, UnknownBackEnd};
pub use buffers::{AlignedBytes, ReadBuffers, WriteBuffers, gathered_bytes, scatter, total_bytes};
pub use counting::{CountingDevice, IoCounts};
pub use deadline::DeadlineDevice;
pub use device::{BlockDevice, accepted, check_range, divided, perform_blocking, write_all};
pub use direct::DirectDevice;
pub use error::{Error, Result};
pub use file::{FileDevice, FileRange};
pub use lock::{LockHolder, lock_holder};
pub use memory::MemoryDevice;
pub use processors::run_on_all_processors;
pub use remap::{Redirect, RemapDevice};
pub use request::{CancelToken, Priority, Request};
pub use server::ServerCounts;
pub use threaded::ThreadedDevice;
pub use waiting::Waiting;
