//! Files of an image that have no name until they are complete.

use super::operands::Target;
use larder::{Ino, Metadata, Volume};

/// A file without a name. Dropping this value deletes the file, unless it has been given a name. After a
/// crash, the file is deleted when the image is next opened for writing.
#[derive(Debug)]
pub(super) struct Unnamed<'a> {
    volume: &'a Volume,
    ino: Ino,
}

impl<'a> Unnamed<'a> {
    /// Creates a file without a name, by calling `make`.
    pub(super) fn new(
        volume: &'a Volume,
        make: impl FnOnce(&Volume) -> larder::Result<Metadata>,
    ) -> larder::Result<Self> {
        let ino = make(volume)?.ino;
        volume.hold(ino)?;
        Ok(Self { volume, ino })
    }

    pub(super) fn ino(&self) -> Ino {
        self.ino
    }

    /// Gives the file the name `target`. A file that already has that name is replaced.
    pub(super) fn link_as(&self, target: &Target) -> larder::Result<()> {
        self.volume
            .link_replacing(self.ino, target.parent, &target.name)
            .map(drop)
    }
}

impl Drop for Unnamed<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.volume.release(self.ino, 1) {
            tracing::warn!(
                "cannot delete an unfinished copy: {error}; the next open for writing deletes it"
            );
        }
    }
}
