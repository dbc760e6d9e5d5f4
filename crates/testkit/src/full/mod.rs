//! Random operations on full images, through any way into a file system, beside a model.
//!
//! What must hold (all of it is what POSIX or the manual pages promise):
//! 1. A write or copy changes exactly the bytes that its count says, and none if it fails.
//! 2. Truncation, holes, zeroing, allocation and moves take effect as a whole, or not at all.
//! 3. Only lack of space is a reason to fail, and only where [`Session`] finds the image nearly full.
//! 4. What was written or allocated can be written again without more space.
//! 5. Removing, cutting and punching never fail. What they free can be used.
//! 6. Content is the same from the caches, from the image, after remounting, and, once synced,
//!    after a power cut.
//!
//! Start with [`Session::run`]. A [`Step`] names files by number and ranges by absolute offsets, so
//! that any steps can be left out of a sequence to make a failing one smaller.

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
