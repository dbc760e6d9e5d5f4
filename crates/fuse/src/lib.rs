//! Larder volumes as FUSE mounts.
//!
//! - [`Server`] mounts a [`Volume`](larder::Volume), read-only or writable, and answers the requests of
//!   the kernel until the volume is unmounted.
//! - [`unmount`] unmounts a volume, even if its server was killed.
//! - [`server_of`] identifies the server of a mount, which can be queried for statistics with the
//!   crate [`larder_observe`].
//!
//! The crate has three layers. [`Server`] owns the mount. The module `transport` receives requests, through
//! `io_uring` or /dev/fuse, and `protocol` parses them. The module `operations` executes them on the volume.

#![deny(unsafe_code)]

mod changes;
mod error;
mod error_log;
#[cfg(feature = "floor")]
pub mod floor;
mod hint;
mod lookups;
mod mount;
mod node;
mod open_files;
mod operations;
mod options;
mod protocol;
mod server;
mod transport;
mod workers;
mod write_back;

pub use error::{Error, Result};
pub use larder_block::mounts::MountEntry;
pub use mount::attach::check_mount;
pub use mount::info::{find_mount, mount_of, mounts_of, server_of};
pub use mount::unmount::{Unmounted, unmount};
pub use options::{MountOptions, Transport, WriteBack};
pub use server::{Server, Unmounter};
