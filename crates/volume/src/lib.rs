//! Reads and writes ext2, ext3 and ext4 images inside a process, with caches that work like those
//! of the Linux kernel. Needs neither a mount nor root. A cache hit makes no system call.
//!
//! A [`Volume`] is one open image. Each volume has its own page, buffer, dentry and inode caches,
//! and its own readahead. `Volume` is `Send` and `Sync`: share it between threads by reference or
//! in an `Arc`.
//!
//! ```no_run
//! use larder::{OpenOptions, Volume};
//! use std::ops::ControlFlow;
//!
//! # fn main() -> larder::Result<()> {
//! let volume = Volume::open("disk.img", &OpenOptions::default())?;
//!
//! // Walk: list a directory.
//! let etc = volume.resolve(b"/etc")?;
//! volume.read_dir(etc, 0, &mut |entry| {
//!     println!("{} {}", entry.ino, String::from_utf8_lossy(entry.name));
//!     ControlFlow::Continue(())
//! })?;
//!
//! // Read the first bytes of a file, then count the cache hits.
//! let ino = volume.lookup(etc, b"hostname")?;
//! let mut buf = [0; 4096];
//! let n = volume.read_at(ino, &mut buf, 0)?;
//! println!("{}", String::from_utf8_lossy(&buf[..n]));
//! println!("page cache hits: {}", volume.stats().page.hits);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod background;
mod clock;
mod dirty;
mod error;
mod file;
mod fill;
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
pub use error::{Error, Result};
pub use file::OpenFile;
pub use larder_block::ServerCounts;
pub use larder_cache::CacheStats;
pub use larder_cache::hash::HashKey;
pub use larder_cache::mbcache::{Stats as MbCacheStats, Variant as MbCacheVariant};
pub use larder_cache::table::histogram::Report as HistogramReport;
pub use larder_cache::tables::{self, Tables};
pub use larder_cache::tape::{CacheKind, Event, Operation, RecordingStats, Tape};
pub use larder_ext4::ondisk::time::Timestamp;
pub use larder_ext4::{FileKind, Ino, MemoryOnly, Statfs};
pub use larder_readahead::{Advice, PolicyName};
pub use metadata::{DirEntry, Info, JournalState, Metadata};
pub use options::{DataMode, ErrorsMode, OpenOptions};
pub use stats::{
    AttributeStats, DeviceStats, ReadaheadStats, Stats, TreeReadaheadStats, WritingStats,
};
pub use volume::Volume;
pub use write::{
    ChangedBy, DeviceNumber, Fallocate, Make, NewFile, RenameFlags, SetAttributes, SetTime,
    XattrMode,
};
