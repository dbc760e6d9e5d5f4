//! Assertions at the seams between layers, checked in release builds too.
//!
//! Each promise is checked by the side that gives it and by the side that relies on it: a handle
//! and the journal, write-back and the mapping, the caches and the device. A broken promise is a
//! mistake of ours. It stops all writing ([`Filesystem::abort`]), so that what is committed stays as
//! it is, and is an error; it is no panic, which could end the process with content unsaved.
//!
//! Cost: a comparison or a lookup in memory for each handle, block or run of blocks; nothing for
//! each byte.

use crate::{Error, Filesystem, Result};

impl Filesystem {
    /// Makes sure that a promise between layers `holds`; `what` says what is wrong if not.
    ///
    /// # Errors
    /// [`Error::Invariant`]; nothing more is written.
    #[inline]
    pub fn ensure(&self, holds: bool, what: &'static str) -> Result<()> {
        if holds {
            Ok(())
        } else {
            Err(self.broken(what))
        }
    }

    /// Stops all writing because a promise between layers is broken.
    #[cold]
    pub fn broken(&self, what: &'static str) -> Error {
        let error = Error::Invariant(what);
        tracing::error!("{error}");
        self.abort(&error);
        error
    }
}
