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
//! Start with [`Session::run`]. A sequence of [`Step`]s names files by number and ranges by
//! absolute offsets, so that it stays one whichever of its steps are taken out.

mod campaign;
mod files;
mod folder;
mod generate;
mod promise;
mod session;
mod step;
mod target;
mod volume;

pub use campaign::Campaign;
pub use files::{Files, Limits};
pub use folder::{Folder, KernelMount, Mount};
pub use generate::{Mix, sequence};
pub use session::{Session, Tally};
pub use step::{FILES, FILLER, FileNo, Step};
pub use target::Target;
pub use volume::InProcess;
