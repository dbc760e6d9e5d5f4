//! An image as a tree of paths, with the shape of [`std::fs`].
//!
//! Model: the functions of `std::fs` on a mount of the image, called by root. A path has the same
//! meaning as there, except that every path begins at the root of the image, so `etc` and `/etc` are
//! the same file. Symbolic links are followed within the image. Errors have the same
//! [kind](std::io::ErrorKind), and contain a [`crate::Error`].
//!
//! Differences from `std::fs`:
//!
//! - No permissions are checked.
//! - [`Fs::open`] opens regular files only. [`Fs::read_dir`] lists directories.
//! - [`Fs::with_owner`] sets the owner of new files, and [`Fs::with_umask`] the umask for their
//!   permissions. The umask of the process has no effect.
//!
//! Races: another thread can remove a file after its path was resolved, and the inode number can
//! then belong to a new file. Each operation therefore holds the inode. If the deletion of a file has
//! begun since the path was resolved, the operation resolves the path again.

mod attributes;
mod content;
pub mod copy;
mod file;
mod listing;
mod names;
mod options;
mod other_format;
mod path;
mod walk;

pub use file::File;
pub use listing::{DirEntry, ReadDir};
pub use options::FileOptions;
pub use path::{Fs, open};
pub use walk::{Step, Walk};
