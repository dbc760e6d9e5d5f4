//! Larder volumes as FUSE mounts.
//!
//! - [`Server`] mounts a [`Volume`](larder::Volume), read-only or writable, and answers the kernel's
//!   requests until the volume is unmounted.
//! - [`unmount`] unmounts a volume, even if its server was killed.
//! - [`MountEntry::server`] gives access to the statistics of a mount, with the crate
//!   [`larder_observe`].
//!
//! The layers, from the top: [`Server`] owns the mount. `transport` implements the FUSE protocol; only
//! this module uses the crate `fuser`. `operations` runs the requests on the volume.

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
