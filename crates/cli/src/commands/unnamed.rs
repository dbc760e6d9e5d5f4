//! Files of an image that have no name until they are whole.

use super::place::Target;
use larder::{Ino, Metadata, Volume};

/// A file without a name, deleted when this is dropped unless it has got one: by then, or after a
/// crash at the next open of the image for writing.
#[derive(Debug)]
pub(super) struct Unnamed<'a> {
    volume: &'a Volume,
    ino: Ino,
}

impl<'a> Unnamed<'a> {
    /// Takes the file that `make` makes.
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

    /// Gives it the name of `target`, in place of the file that has it, if any.
    pub(super) fn give_name(&self, target: &Target) -> larder::Result<()> {
        self.volume
            .link_replacing(self.ino, target.parent, &target.name)
            .map(drop)
    }
}

impl Drop for Unnamed<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.volume.release(self.ino, 1) {
            tracing::warn!("the next open for writing deletes an unfinished copy: {error}");
        }
    }
}
