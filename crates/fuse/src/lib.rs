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
//!
//! ```
//! # use larder_testkit::{Requirement, skip};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # if skip(&[Requirement::Tool("mke2fs"), Requirement::Root, Requirement::Fuse]) {
//! #     return Ok(());
//! # }
//! # let dir = tempfile::tempdir()?;
//! # let image = dir.path().join("disk.img");
//! # let mountpoint = dir.path().join("mnt");
//! # std::fs::create_dir(&mountpoint)?;
//! # larder_testkit::e2fsprogs::make_image(&image, "-t ext4", "16M")?;
//! use larder::{OpenOptions, Volume};
//! use larder_fuse::{MountOptions, Server};
//! use std::sync::Arc;
//! use std::{fs, thread};
//!
//! let volume = Volume::open(&image, &OpenOptions::new().read_write(true))?;
//! let options = MountOptions {
//!     read_write: true,
//!     ..MountOptions::default()
//! };
//! let server = Server::mount(Arc::new(volume), &mountpoint, &options)?;
//! let unmounter = server.unmounter();
//! let serving = thread::spawn(move || server.serve(|| Ok(()), || None));
//!
//! fs::write(mountpoint.join("hostname"), "example")?;
//! assert_eq!(fs::read(mountpoint.join("hostname"))?, b"example");
//!
//! unmounter.unmount()?;
//! // The server returns after all changes are on the image.
//! serving.join().expect("the server panicked")?;
//! # Ok(())
//! # }
//! ```

#![deny(unsafe_code)]

mod activity;
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
mod procfs;
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
pub use server::{KernelConnection, Server, Unmounter};
