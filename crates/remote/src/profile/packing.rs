//! Writes packs to files.

use super::error::{Error, Result};
use super::pack;
use super::pending::Pending;
use crate::Version;
use std::path::Path;

/// Writes a pack of `units` to a file at `path`, which replaces an existing file when it is complete. `read` returns the
/// content of a unit.
pub(crate) fn write_pack(
    path: &Path,
    version: &Version,
    units: &[u64],
    mut read: impl FnMut(u64) -> crate::Result<Vec<u8>>,
) -> Result<()> {
    let read = |unit| read(unit).map_err(|error| Error::Io(error.to_string()));
    let pending = Pending::create(path)?;
    pending.replace(|mut file| pack::write(&mut file, version, units, read))
}
