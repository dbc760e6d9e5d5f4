//! Disk images: files in a format that stores a disk.
//!
//! # Model
//! Each format divides the disk into units, and its tables say where each unit is stored in the file:
//!
//! | format | unit | size of a unit | tables | file |
//! |---|---|---|---|---|
//! | qcow2 | cluster | 512 bytes to 2 MiB | two levels (L1, L2) | `qcow2.rs` |
//! | VMDK, one sparse file | grain | usually 64 KiB | two levels (grain directory, grain tables) | `vmdk.rs` |
//! | seekable zstd | frame | differs from frame to frame, usually 2 MiB | one list (seek table) at the end | `seekable.rs` |
//!
//! A unit is absent, which means zeros, or it is stored as it is, or it is compressed. The trait [`Layout`] hides the
//! difference between the formats: it divides a range of the disk into [extents](layout::Extent), each of which is in one
//! of these three states.
//!
//! [`DiskDevice`] is the disk. It is read-only:
//!
//! - A request whose bytes are stored as they are, without a gap, is passed to the device of the file with another offset.
//!   Its buffers are not copied, and the file can have any number of requests in flight. The first level of the tables is
//!   read when the image is opened. If the second level is not cached, or the request needs several extents, a thread of
//!   the device performs the request with blocking calls.
//! - A compressed unit is decompressed by such a thread. [`PartCache`](cache::PartCache) keeps parts of tables and
//!   decompressed units, up to a limit, and evicts them with a clock hand. [`Budget`](budget::Budget) limits the memory for
//!   units that are decompressed at the same time.
//! - These threads read the file by requests that own their buffers. Therefore the timeout of its device ends such a read,
//!   and so does [`cancel_in_flight`](BlockDevice::cancel_in_flight).
//!
//! # Untrusted input
//! Every byte of the file can be hostile:
//!
//! - An image never causes another file to be opened. If its content is partly in another file (a backing file, an
//!   external data file, a parent, an extent), it is refused with [`DiskError::OtherFile`].
//! - Three sizes are limited: that of each table that is read when the image is opened
//!   ([`MAX_TABLE_BYTES`](limits::MAX_TABLE_BYTES)), that of a decompressed unit
//!   ([`MAX_UNIT_BYTES`](limits::MAX_UNIT_BYTES)), and that of its compressed form
//!   ([`max_stored_bytes`](limits::max_stored_bytes)). Before memory is allocated for a table, its range is checked
//!   against the size of the file.
//! - No more content of a unit is decompressed than its size. The window of zstd has at most the size of the unit, whatever
//!   the header of the frame says.
//! - Damage that is found later fails the read, with `EIO`. So does a panic of a decoder.
//!
//! # Formats
//! qcow2: versions 2 and 3, compressed by deflate or zstd, with or without extended L2 entries. The state of the disk
//! is read, not that of a snapshot. An image that was not closed can be read: only its reference counts may be wrong,
//! and a reader does not need them.
//!
//! VMDK: the formats `monolithicSparse` and `streamOptimized`.
//!
//! Seekable zstd: a file whose last frame is the seek table. The optional checksums in the seek table are ignored. Those
//! in the frames are verified.
//!
//! # Overlays
//! The module [`overlay`] adds changes to a disk that is not changed itself.
//!
//! # Tests
//! `tests/disks.rs` compares disks with those that qemu-img and zeekstd wrote. `tests/hostile_disks.rs` damages them.
//! `tests/memory.rs` measures the memory for a unit and for the tables of an overlay. `device/tests.rs` tests requests on a
//! device that does not answer.

mod budget;
mod buffers;
mod cache;
mod decompress;
mod device;
mod error;
mod layout;
mod limits;
mod overlay;
mod qcow2;
mod seekable;
mod tables;
mod vmdk;

pub use device::{DiskDevice, DiskInfo};
pub use error::DiskError;
pub use overlay::{Base, CommitState, Overlay, OverlayError, OverlayInfo};

use crate::Format;
use device::Disk;
use larder_block::BlockDevice;
use layout::Layout;
use qcow2::Qcow2;
use seekable::Seekable;
use std::sync::Arc;
use vmdk::Vmdk;

/// Opens the disk in `file`, which has this `format`. Tables and decompressed units are cached in `memory_bytes`, and as much
/// memory is used to decompress units. Each limit can be exceeded by one unit. Returns `None` if Larder reads no disk in this
/// format, or if a file compressed by zstd has no seek table.
///
/// # Errors
/// If the image is damaged, if it needs another file or a key, or if it uses a feature that is not supported.
pub fn open_disk(
    file: Arc<dyn BlockDevice>,
    format: Format,
    memory_bytes: u64,
) -> Result<Option<DiskDevice>, DiskError> {
    let layout: Box<dyn Layout> = match format {
        Format::Qcow2 => Box::new(Qcow2::open(&*file)?),
        Format::Vmdk => Box::new(Vmdk::open(&*file)?),
        Format::Zstd => match Seekable::open(&*file)? {
            Some(layout) => Box::new(layout),
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    let info = DiskInfo {
        format,
        size_bytes: layout.size_bytes(),
        unit_bytes: layout.unit_bytes(),
    };
    let disk = Disk::new(file, layout, memory_bytes);
    Ok(Some(DiskDevice::new(disk, info)))
}
