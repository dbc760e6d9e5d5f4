//! Large directories that users list to fill the buffer cache.
//!
//! # Model
//! In Linux 2.2, written data passed through the buffer cache, so in the document this cache held 37,256
//! blocks. The buffer cache of a volume contains only metadata, and the scripts use only some hundred blocks
//! of metadata. Therefore each user also has large directories, like those of a mail or news spool, which are
//! distributed over the groups of the image. Listing the directories of all users looks up about as many
//! blocks as the document's cache contained.

use crate::operations::{NEW, Part};
use larder::{Ino, Result, Volume};
use std::ops::ControlFlow;

/// Number of directories of each user: with 128 users, 36,864 blocks.
const DIRECTORIES: u32 = 18;

/// Number of blocks of a directory.
const BLOCKS: u32 = 16;

/// The maximum length of a name, so that few names fill a block.
const NAME_BYTES: usize = 255;

/// Number of names of [`NAME_BYTES`] in a block of 4 KiB.
const NAMES_PER_BLOCK: u32 = 15;

/// The directories of each user.
#[derive(Debug)]
pub(super) struct Spool(Vec<Vec<Ino>>);

impl Spool {
    /// Creates the directories of `users` users.
    pub(super) fn make(volume: &Volume, users: u32) -> Result<Self> {
        let of_user = |user| {
            let name = format!("spool{user}");
            let spool = volume.make_dir(Ino::ROOT, name.as_bytes(), &NEW)?.ino;
            (0..DIRECTORIES)
                .map(|number| directory(volume, spool, number))
                .collect()
        };
        Ok(Self((0..users).map(of_user).collect::<Result<_>>()?))
    }

    /// Lists a part of the directories of `user`.
    pub(super) fn list(&self, volume: &Volume, user: u32, part: Part) -> Result<()> {
        let directories = self.0.get(user as usize).map_or(&[][..], Vec::as_slice);
        for directory in part.of(directories.iter()) {
            volume.read_dir(*directory, 0, &mut |_| ControlFlow::Continue(()))?;
        }
        Ok(())
    }
}

/// Creates a directory of [`BLOCKS`] blocks. All names in the directory are links to one empty file.
fn directory(volume: &Volume, parent: Ino, number: u32) -> Result<Ino> {
    let directory = volume
        .make_dir(parent, number.to_string().as_bytes(), &NEW)?
        .ino;
    let name = |number: u32| format!("{number:0NAME_BYTES$}").into_bytes();
    let file = volume.create(directory, &name(0), &NEW)?.ino;
    for number in 1..BLOCKS * NAMES_PER_BLOCK {
        volume.link(file, directory, &name(number))?;
    }
    Ok(directory)
}
