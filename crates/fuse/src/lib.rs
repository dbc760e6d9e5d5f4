//! Larder volumes as FUSE mounts.
//!
//! - [`Server`] mounts a [`Volume`](larder::Volume) and answers the kernel's
//!   requests until the mount goes away, read-only or for writing too.
//! - [`unmount`] takes a mount away, also one whose server was killed.
//! - [`stats`] asks the server behind a mount what its caches did; [`metrics`] serves that to Prometheus.
//!
//! The layers, top down: [`Server`] owns the mount; `transport` speaks the FUSE
//! protocol (today through the crate `fuser`, and nothing outside that module
//! knows it); `operations` answers in terms of the volume.

#![forbid(unsafe_code)]

mod changes;
mod error;
mod error_log;
mod hint;
mod lookups;
pub mod metrics;
mod mount;
mod node;
mod open_files;
mod operations;
mod options;
mod server;
pub mod stats;
mod transport;

pub use error::{Error, Result};
pub use metrics::Metrics;
pub use mount::attach::check_mount;
pub use mount::info::{MountEntry, find_mount, is_mounted, mount_of};
pub use mount::unmount::{Unmounted, unmount};
pub use options::MountOptions;
pub use server::{Server, Unmounter};
