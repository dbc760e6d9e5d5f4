//! Seeded damage to images, and the walk that has to survive it.
//!
//! A damaged image is the base image under a few patches, so that thousands
//! cost little. Damage falls mostly on metadata: [`MetadataMap`] knows where
//! that is from the reads of one clean walk that touches no content.

mod campaign;
mod damage;
mod map;
mod walk;

pub use campaign::{Campaign, Tally};
pub use damage::{Damage, Plan};
pub use map::MetadataMap;
pub use walk::{WalkLimits, WalkOutcome, walk};
