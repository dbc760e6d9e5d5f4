//! Assertions at the interfaces between layers, which are also checked in release builds.
//!
//! Both sides of an interface check it: a handle and the journal, write-back and the mapping, the
//! caches and the device. A violation is a bug in Larder. It stops all writing
//! ([`Filesystem::abort`]), so that committed data does not change, and returns an error. It does
//! not panic, because that could end the process with unsaved content.
//!
//! Cost: a comparison or a lookup in memory for each handle, block or run of blocks; nothing for
//! each byte.

use crate::{Error, Filesystem, Result};

impl Filesystem {
    /// Checks that an invariant between layers `holds`; `what` describes the violation.
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

    /// Stops all writing because an invariant between layers is violated.
    #[cold]
    pub fn broken(&self, what: &'static str) -> Error {
        let error = Error::Invariant(what);
        tracing::error!("{error}");
        self.abort(&error);
        error
    }
}
