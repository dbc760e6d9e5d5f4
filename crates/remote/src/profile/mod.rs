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
//! A recorder records the reads of the device. During a recording, the caches above the device do not read ahead.
//! Therefore a profile contains few units that the program did not use, for example units that only the kernel's own
//! readahead has read.
//!
//! A profile is bound to one [version](crate::Version) of an object. A profile of another version is refused,
//! because the files may be in other places of the image.
//!
//! # Demand before prefetch
//! Units are prefetched in the background, in the order of their first use as far as large requests allow it. A
//! read that needs a unit of the profile waits for the unit, but only for a short time. Then the read requests the unit
//! itself.
//!
//! # Trust
//! Profiles and packs are hostile input. Their parsers have limits, and no content causes a panic. The bytes of a
//! profile only select what is fetched from the image. The content of a pack replaces that of the image. Its
//! checksums protect against accidents, but not against a malicious author.

mod error;
mod format;
mod limits;
pub mod pack;
mod packing;
mod pending;
mod plan;
mod prefetch;
mod record;
mod source;
mod uses;
mod working_set;

pub use error::{Error, Result};
pub use format::{MAX_TEXT_BYTES, Profile};
pub use limits::MAX_UNITS;
pub(crate) use packing::write_pack;
pub(crate) use prefetch::start;
pub use record::Recorder;
pub use source::Location;
pub(crate) use uses::Uses;
pub(crate) use working_set::WorkingSet;
