//! Block devices, which store the bytes of an image.
//!
//! All other crates read and write an image through the trait [`BlockDevice`]. `larder-instruments` implements
//! it to inject faults and to record requests, and `larder-remote` for images on servers. A device is a flat
//! array of bytes. Offsets and lengths are in bytes and need no alignment.
//!
//! | device | bytes from | for |
//! |---|---|---|
//! | [`FileDevice`] | a regular file or a kernel block device | local images |
//! | [`DirectDevice`] | the same, bypassing the kernel's page cache | local images with `direct_device` |
//! | [`MemoryDevice`] | a vector | tests, images in memory |
//! | [`RemapDevice`] | another device, some of whose blocks are read from other places | journal recovery without writing |
//! | [`PartDevice`] | a part of another device | partitions of images at URLs, of disk images and of overlays |
//! | [`ThreadedDevice`] | another device, whose blocking calls are made by threads | devices with only blocking calls |
//! | [`DeadlineDevice`] | another device, with a timeout for reads and writes | volumes with `device_timeout` |
//! | [`CountingDevice`] | another device, whose requests are counted | statistics of every volume |
//!
//! Threads: a device for local images starts threads when requests need them: one with `io_uring`, otherwise at most 8.
//! A [`DirectDevice`], [`RemapDevice`] or [`ThreadedDevice`] starts at most 8 more, for requests that only blocking
//! calls can perform. These numbers do not depend on the number of processors. With `io_uring`, the kernel also starts
//! threads, which perform requests that would block. For each thread that uses a ring, it starts at most 4 threads per
//! processor.
//!
//! [`mounts`] lists the mounts of the process's mount namespace. [`programs`] finds programs of the system, which
//! make and change images.
//!
//! ```
//! use larder_block::{BlockDevice, FileRange, MemoryDevice, PartDevice};
//! use std::sync::Arc;
//!
//! let disk: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(vec![0; 1 << 20]));
//! disk.write_at(b"example", 4096 + 100)?;
//! let range = FileRange {
//!     offset_bytes: 4096,
//!     size_bytes: Some(8192),
//! };
//! let partition = PartDevice::new(disk, range)?;
//! let mut bytes = [0; 7];
//! partition.read_at(&mut bytes, 100)?;
//! assert_eq!(&bytes, b"example");
//! # Ok::<(), larder_block::Error>(())
//! ```

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
mod latency;
mod lock;
mod loops;
mod memory;
pub mod mounts;
mod part;
mod processors;
pub mod programs;
mod remap;
mod request;
mod retry;
mod ring;
mod server;
mod threaded;
pub mod timing;
mod waiting;

pub use back_end::{BackEnd, UnknownBackEnd};
pub use buffers::{AlignedBytes, ReadBuffers, WriteBuffers, gathered_bytes, scatter, total_bytes};
pub use counting::{CountingDevice, IoCounts, IoLatencies};
pub use deadline::DeadlineDevice;
pub use device::{
    BlockDevice, Pieces, accepted, check_range, divided, perform_blocking, read_owned, write_all,
};
pub use direct::DirectDevice;
pub use error::{Error, Result};
pub use file::{FileDevice, FileRange};
pub use latency::{LatencyHistogram, LatencyStats};
pub use lock::{LockHolder, lock_holder};
pub use memory::MemoryDevice;
pub use part::PartDevice;
pub use processors::run_on_all_processors;
pub use remap::{Redirect, RemapDevice};
pub use request::{CancelToken, Priority, Request};
pub use server::ServerCounts;
pub use threaded::ThreadedDevice;
pub use waiting::Waiting;
