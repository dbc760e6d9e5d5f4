//! Seeded damage to images, and the walk that must survive it.
//!
//! A damaged image is the base image with a few patches, so that thousands of them are cheap. Most
//! damage is applied to metadata. [`MetadataMap`] finds the metadata from the reads of a clean walk that
//! reads no content.

mod campaign;
mod damage;
mod map;
mod walk;

pub use campaign::{Campaign, Tally};
pub use damage::{Damage, Plan};
pub use map::MetadataMap;
pub use walk::{WalkLimits, WalkOutcome, walk};
