//! Larder volumes as FUSE mounts.
//!
//! - [`Server`] mounts a [`Volume`](larder::Volume) and answers the kernel's
//!   requests until the mount goes away, read-only or for writing too.
//! - [`unmount`] takes a mount away, also one whose server was killed.
//! - [`MountEntry::server`] leads to the statistics of a mount, by the crate [`larder_observe`].
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
mod mount;
mod node;
mod open_files;
mod operations;
mod options;
mod server;
mod transport;

pub use error::{Error, Result};
pub use mount::attach::check_mount;
pub use mount::info::{MountEntry, find_mount, is_mounted, mount_of};
pub use mount::unmount::{Unmounted, unmount};
pub use options::MountOptions;
pub use server::{Server, Unmounter};
