//! Reads and writes ext2, ext3 and ext4 images inside a process, with caches that work like those
//! of the Linux kernel. Needs neither a mount nor root. A cache hit makes no system call.
//!
//! There are two layers:
//!
//! - [`Fs`] accesses files by path, and has the shape of [`std::fs`]. [`open`](open()) opens an image for reading, and
//!   [`OpenOptions::open`] opens it with options.
//! - [`Volume`] accesses files by inode number, for programs such as file servers that keep track of
//!   inodes themselves. [`Fs::volume`] returns the volume of an `Fs`, and [`Fs::new`] the `Fs` of a
//!   volume.
//!
//! Each volume has its own page, buffer, dentry and inode caches, and its own readahead. All types
//! are `Send` and `Sync`. Share them between threads by reference. A clone of an `Fs` is cheap.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let image = dir.path().join("disk.img");
//! # larder_testkit::e2fsprogs::make_image(&image, "-t ext4", "16M")?;
//! # let fs = larder::OpenOptions::new().read_write(true).open(&image)?;
//! # fs.create_dir("/etc")?;
//! # fs.write("/etc/hostname", "example\n")?;
//! # fs.close()?;
//! # drop(fs);
//! let fs = larder::open(&image)?;
//! for entry in fs.read_dir("/etc")? {
//!     let entry = entry?;
//!     println!("{} {}", entry.metadata()?.size_bytes, entry.path().display());
//! }
//! assert_eq!(fs.read_to_string("/etc/hostname")?, "example\n");
//! println!("page cache hits: {}", fs.volume().stats().page.hits);
//! # Ok(())
//! # }
//! ```
//!
//! The same by inode number:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let image = dir.path().join("disk.img");
//! # larder_testkit::e2fsprogs::make_image(&image, "-t ext4", "16M")?;
//! # let fs = larder::OpenOptions::new().read_write(true).open(&image)?;
//! # fs.create_dir("/etc")?;
//! # fs.write("/etc/hostname", "example\n")?;
//! # fs.close()?;
//! # drop(fs);
//! use larder::{OpenOptions, Volume};
//! use std::ops::ControlFlow;
//!
//! let volume = Volume::open(&image, &OpenOptions::new())?;
//! let etc = volume.resolve(b"/etc")?;
//! volume.read_dir(etc, 0, &mut |entry| {
//!     println!("{} {}", entry.ino, String::from_utf8_lossy(entry.name));
//!     ControlFlow::Continue(())
//! })?;
//! let hostname = volume.lookup(etc, b"hostname")?;
//! let mut buf = [0; 4096];
//! let len = volume.read_at(hostname, &mut buf, 0)?;
//! assert_eq!(&buf[..len], b"example\n");
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod access_list;
mod background;
mod clock;
mod content_queue;
mod dirty;
mod error;
mod file;
mod fill;
pub mod fs;
mod known_paths;
mod live;
mod lookup;
mod metadata;
mod mmp;
mod need;
mod open;
mod options;
mod read;
mod seek;
mod stats;
mod tree_ahead;
mod volume;
mod write;
mod write_back;

pub use clock::{Clock, SystemClock};
pub use content_queue::ContentQueue;
pub use error::{Error, Result};
pub use file::OpenFile;
pub use fs::{File, FileOptions, Fs, open};
pub use known_paths::KnownNames;
pub use larder_block::{self as block, BackEnd, BlockDevice, LatencyStats, ServerCounts};
pub use larder_cache::hash::{HashKey, UnknownFunction};
pub use larder_cache::mbcache::{Stats as MbCacheStats, UnknownVariant, Variant as MbCacheVariant};
pub use larder_cache::table::Counts;
pub use larder_cache::table::histogram::{ChiSquare, Histogram, Report as HistogramReport};
pub use larder_cache::tables::{self, Tables};
pub use larder_cache::tape::{
    CacheKind, CallerScope, Event, NameEvent, Operation, ReadEvent, RecordingStats, Tape,
};
pub use larder_cache::{CacheStats, Error as CacheError};
pub use larder_ext4::ondisk::time::Timestamp;
pub use larder_ext4::{
    Corrupt, Error as Ext4Error, FileKind, FsBlock, GroupNo, Ino, MemoryOnly, Place, Statfs,
};
pub use larder_readahead::{Advice, PolicyName, UnknownPolicy};
pub use metadata::{DirEntry, FsKind, Info, JournalState, Metadata};
pub use options::{DataMode, ErrorsMode, OpenOptions};
pub use rustix::io::Errno;
pub use seek::{FileRun, RunPlace};
pub use stats::{
    AttributeStats, BusyProcess, DeviceStats, HotFile, HotStats, Load, MountTransport,
    OperationStats, ReadaheadStats, RequestStats, Stats, TreeReadaheadStats, WritingStats,
};
pub use volume::Volume;
pub use write::{
    ChangedBy, ContentBuffers, DeviceNumber, Fallocate, FileTimes, Make, NewFile, RenameFlags,
    SetAttributes, SetTime, XattrMode,
};
