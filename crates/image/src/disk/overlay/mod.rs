//! Overlays: writable layers on disks that are not changed.
//!
//! # Model
//! An overlay is a file that contains the changed parts of a disk, the base. The type [`Overlay`] represents the disk
//! with the changes. The file has the format qcow2 with a backing file, so that other programs can read it. It consists
//! of clusters of 128 KiB, each of which has 32 subclusters of 4 KiB. A subcluster is stored in the overlay, is zero,
//! or is read from the base.
//!
//! | file | contents |
//! |---|---|
//! | `header.rs` | the header, the record of the base, and the places of the tables |
//! | `map.rs` | where each subcluster is stored |
//! | `space.rs` | which clusters of the file are used |
//! | `base.rs` | the version of the base |
//! | `device.rs` | reads, writes and flushes |
//! | `commit.rs` | writes the changes to the base |
//!
//! When Larder creates the file, it also creates all tables except the L2 tables. The offsets of the created tables
//! follow from the size of the disk.
//!
//! Larder refuses an overlay that another program has written to. It recognises this by a bit of the header (an autoclear
//! feature): other programs do not know this bit, and therefore clear it before they write.
//!
//! # Binding
//! The overlay records the name, the format and the version of its base. The name is for other programs. Larder opens
//! the base that the user names, with the recorded format, and refuses it if its version differs. If the base is an
//! object on a server, its version is the version of the object. Otherwise, the version consists of a checksum of the
//! first 2 MiB of the disk and, if the base is in a file, the size and the time of modification of the file. This
//! detects a different file system. A change is not detected if both are true: it affects no metadata in these 2 MiB,
//! and the time of modification is set back afterwards.
//!
//! # Order of writes
//! The guarantees of a file system in the overlay hold after a power loss, because the overlay provides the guarantees of
//! [`BlockDevice`](larder_block::BlockDevice):
//!
//! 1. A write to a stored subcluster changes the file in place. Any other write stores whole subclusters in clusters that
//!    no table on the medium refers to. If the write covers its first or last subcluster only in part, the other bytes of this
//!    subcluster are copied from its previous content.
//! 2. A flush writes the reference counts of new clusters, and new L2 tables. It flushes the file. Then it writes changed
//!    entries of the L1 table and of the other L2 tables, and flushes the file again. If no table has changed, the file
//!    is flushed once.
//!
//! After a failed flush of the file, nothing more is written: the kernel may have dropped what it could not write.
//!
//! Therefore, each entry on the medium refers to content on the medium. After a power loss, a
//! cluster can have a reference count although no entry refers to it. Such clusters are freed when the overlay is next
//! opened for writing.
//!
//! # Memory
//! The L2 tables are in memory, except their pages of 4 KiB without entries: at most 128 KiB for each GiB of the disk that has
//! a change. Tables that are holes of the file therefore take little memory, whatever the size of the disk.
//!
//! # Untrusted input
//! The header, the tables and the reference counts are checked when the overlay is opened. An overlay that uses a cluster
//! twice is refused.

mod base;
mod commit;
mod device;
mod error;
mod header;
mod map;
mod space;

pub use base::Base;
pub use device::{Overlay, OverlayInfo};
pub use error::OverlayError;
pub use header::CommitState;
