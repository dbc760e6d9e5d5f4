//! The interface between a copy and the program that makes it.

use super::error::CopyError;
use std::fmt::Debug;
use std::ops::ControlFlow;
use std::path::Path;

/// Is notified of the progress and the errors of a copy.
pub trait Observer: Debug {
    /// `len_bytes` of content were copied.
    fn copied(&mut self, len_bytes: u64);

    /// The file at `path`, or a part of its metadata, was not copied. `path` begins with the path of
    /// the source. Returns whether the copy continues with the next file.
    fn failed(&mut self, path: &Path, error: CopyError) -> ControlFlow<()>;
}
