//! What an image file contains: an ext file system, partitions, a disk in another format, or something else.
//!
//! [`examine`] reads the start of a device, and returns its [`Contents`]. If these are partitions,
//! [`PartitionTable::select`] returns the partition that a user requested, or the only one with an ext file
//! system. If the file is a disk image, [`open_disk`] returns the disk in it, which can be examined in turn. An
//! [`Overlay`] keeps changes of an image or a disk in another file. [`Medium`] does these steps for programs that open any
//! image.
//!
//! # Untrusted input
//! Every byte of an image can be hostile. Therefore at most [`MAX_PARTITIONS`] partitions of a GPT are read, and at most
//! [`MAX_PARTITIONS`] tables of a chain of extended partitions. All ranges are checked against the size of the device.
//! Nothing that an image names is opened.
//!
//! ```
//! use larder_block::MemoryDevice;
//! use larder_image::{Contents, Format, examine};
//!
//! let mut bytes = vec![0; 1 << 20];
//! assert_eq!(examine(&MemoryDevice::new(bytes.clone()), None)?, Contents::Empty);
//! bytes[..4].copy_from_slice(b"hsqs");
//! assert_eq!(examine(&MemoryDevice::new(bytes), None)?, Contents::Other(Format::Squashfs));
//! # Ok::<(), larder_block::Error>(())
//! ```

#![forbid(unsafe_code)]

mod contents;
mod disk;
mod format;
mod gpt;
mod image_format;
mod mbr;
mod medium;
mod shell;
mod table;

pub use contents::{Contents, examine};
pub use disk::{
    Base, CommitState, DiskDevice, DiskError, DiskInfo, Overlay, OverlayError, OverlayInfo,
    open_disk,
};
pub use format::Format;
pub use image_format::{ImageFormat, UnknownFormat};
pub use medium::{Medium, NotFound, device_memory_bytes};
pub use shell::quoted;
pub use table::{MAX_PARTITIONS, NotSelected, Partition, PartitionTable, TableKind};
