//! Operations on a volume, as plain data: generated from a seed, applied to a volume and to a model, and
//! removed one by one until only those remain that a failure needs.
//!
//! An operation names its targets by paths and slots, so that a sequence remains valid if any of its
//! operations are removed. An operation whose target no longer exists is skipped or fails as expected.

mod choice;
mod generate;
mod kind;
mod path;
mod perform;
mod shared;
mod shrink;

pub use generate::{Generator, Mix};
pub use kind::{NewNode, Operation, Owned, Slot, Target, UMASK, describe_content, fill_content};
pub use path::NodePath;
pub use perform::Performer;
pub use shrink::{Listing, kind_of_failure, shrink};
