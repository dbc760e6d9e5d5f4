//! Large directories, which users list: they fill the buffer cache.
//!
//! # Model
//! In Linux 2.2 what was written went through the buffer cache, which so held 37,256 blocks; a volume keeps
//! metadata alone there, of which the scripts use some hundred. As many blocks as the document's
//! cache held come from directories like those of a spool of mail or news, a set for each user, spread over the groups of
//! the image. Who lists them looks each of their blocks up.

use crate::operations::NEW;
use larder::{Ino, Result, Volume};
use std::ops::ControlFlow;

/// Directories of each user: with 128 users, 36,864 blocks.
const DIRECTORIES: u32 = 18;

/// Blocks of a directory.
const BLOCKS: u32 = 16;

/// Names as long as names can be, so that few fill a block.
const NAME_BYTES: usize = 255;

/// Names of [`NAME_BYTES`] in a block of 4 KiB.
const NAMES_A_BLOCK: u32 = 15;

/// The directories of each user.
#[derive(Debug)]
pub(super) struct Spool(Vec<Vec<Ino>>);

impl Spool {
    /// Makes those of `users`.
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

    /// Lists the directories of `user`.
    pub(super) fn list(&self, volume: &Volume, user: u32) -> Result<()> {
        let directories = self.0.get(user as usize).into_iter().flatten();
        for directory in directories {
            volume.read_dir(*directory, 0, &mut |_| ControlFlow::Continue(()))?;
        }
        Ok(())
    }
}

/// A directory of [`BLOCKS`], all of whose names are links to one empty file.
fn directory(volume: &Volume, parent: Ino, number: u32) -> Result<Ino> {
    let directory = volume
        .make_dir(parent, number.to_string().as_bytes(), &NEW)?
        .ino;
    let name = |number: u32| format!("{number:0NAME_BYTES$}").into_bytes();
    let file = volume.create(directory, &name(0), &NEW)?.ino;
    for number in 1..BLOCKS * NAMES_A_BLOCK {
        volume.link(file, directory, &name(number))?;
    }
    Ok(directory)
}
