//! Random operations on full images, through any interface of a file system, compared with a model.
//!
//! These rules follow from POSIX or the manual pages:
//! 1. A write or copy changes exactly the bytes that its count reports, and none if it fails.
//! 2. Truncation, holes, zeroing, allocation and moves take effect as a whole, or not at all.
//! 3. Operations fail only for lack of space, and only where [`Session`] finds the image nearly full.
//! 4. A range that was written or allocated can be written again without more space.
//! 5. Removal, truncation and punching never fail. The space that they free can be used.
//! 6. Content is the same from the caches, from the image, after a remount, and, once synced, after a
//!    power cut.
//!
//! Start with [`Session::run`]. A [`Step`] names files by number and ranges by absolute offsets, so that a
//! failing sequence can be shortened by removing any of its steps.

mod campaign;
mod files;
mod folder;
mod generate;
mod mix;
mod promise;
mod session;
mod step;
mod tally;
mod target;
mod verify;
mod volume;

#[cfg(test)]
mod tests;

pub use campaign::Campaign;
pub use files::{Files, Limits};
pub use folder::{Folder, KernelMount, Mount};
pub use generate::sequence;
pub use mix::Mix;
pub use session::Session;
pub use step::{FILES, FILLER, FileNo, Step};
pub use tally::Tally;
pub use target::Target;
pub use volume::InProcess;
