//! Comparison of two views of one image: the kernel's mount and Larder.
//!
//! A [`Source`] is a set of files that can be listed and read: a directory ([`DirectorySource`], for
//! both the kernel's mount and a FUSE mount) or a [`larder::Volume`] ([`VolumeSource`]). [`compare()`]
//! walks two of them in parallel and reports the differences.

mod compare;
mod directory;
mod mounted;
mod source;
mod volume;

pub use compare::{Comparison, Report, compare};
pub use directory::DirectorySource;
pub use mounted::Oracle;
pub use source::{Attributes, Entry, Fields, Source, Stat, Time};
pub use volume::VolumeSource;
