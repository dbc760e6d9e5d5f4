//! Working sets: which units of an image a program reads, and their content.
//!
//! # Model
//! ```text
//!   a mount with a Recorder --> profile: the units that were read, in the order of their first use (format)
//!                                  |
//!                                  |--> pack: the same units with their content, in one object (pack)
//!                                  v      v
//!   the next mount: Source --> claims of the units --> few large requests (plan, prefetch), or the pack
//! ```
//! A recorder sees what reaches the device. The caches above the device read only what is needed while they are
//! recorded, so a profile contains what was used, and not what was read ahead.
//!
//! A profile is bound to one [version](crate::Version) of an object. A profile of another version is refused: the
//! same file may have other places in it.
//!
//! # Demand before prefetch
//! Units are prefetched in the background, in the order of their first use as far as large requests allow it. A
//! read that needs a unit of the profile waits for it, but only for a short time. It then requests the unit itself.
//!
//! # Trust
//! Profiles and packs are hostile input. Their parsers have limits, and no content causes a panic. The bytes of a
//! profile only select what is fetched from the image. The content of a pack replaces that of the image. Its
//! checksums protect against accidents, and not against the person who made it.

mod error;
mod format;
pub mod pack;
mod pending;
mod plan;
mod prefetch;
mod record;
mod source;
mod uses;
mod working_set;

pub use error::{Error, Result};
pub use format::{MAX_TEXT_BYTES, Profile};
pub(crate) use prefetch::start;
pub use record::Recorder;
pub use source::Location;
use source::Source;
pub(crate) use uses::Uses;
pub(crate) use working_set::WorkingSet;

use crate::{UNIT_BYTES, Version};
use pending::Pending;
use std::path::Path;

/// The maximum number of units of a profile or a pack. They take 4 GiB.
pub const MAX_UNITS: usize = 1 << 16;

/// The maximum length of an `ETag` in a profile or a pack, in bytes.
const MAX_ETAG_BYTES: usize = 1024;

/// The maximum size of an object that has a profile. The offsets of its bytes are valid file offsets.
const MAX_OBJECT_BYTES: u64 = i64::MAX as u64;

/// Returns the number of units of an object.
fn unit_count(object_bytes: u64) -> u64 {
    object_bytes.div_ceil(UNIT_BYTES)
}

/// Writes a pack of `units` to a file at `path`, which replaces an existing file when it is complete. `read` returns the
/// content of a unit.
pub(crate) fn write_pack(
    path: &Path,
    version: &Version,
    units: &[u64],
    read: impl FnMut(u64) -> crate::Result<Vec<u8>>,
) -> Result<()> {
    let mut read = read;
    let read = |unit| read(unit).map_err(|error| Error::Io(error.to_string()));
    let pending = Pending::create(path)?;
    pending.replace(|mut file| pack::write(&mut file, version, units, read))
}
