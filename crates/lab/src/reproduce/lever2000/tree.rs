//! A tree of files whose names users look up, so that names and inodes do not stay cached.
//!
//! # Model
//! In Histogram 5 of the document, the inode cache held 9,785 inodes, and 3% of 189,321 lookups hit: names whose
//! dentries were evicted were looked up again and again, and their inodes had been evicted as well. The files of the
//! scripts are too few for this. Therefore users also read the attributes of the files of a tree, as make or ls -l
//! do. Each file is examined once in a pass.

use crate::operations::{NEW, Part};
use larder::{Ino, Result, Volume};

/// Number of directories.
const DIRECTORIES: u32 = 640;

/// Number of files in a directory.
const FILES: u32 = 64;

/// The directories.
#[derive(Debug)]
pub(super) struct Tree(Vec<Ino>);

impl Tree {
    /// Creates the directories with empty files.
    pub(super) fn make(volume: &Volume) -> Result<Self> {
        let tree = volume.make_dir(Ino::ROOT, b"tree", &NEW)?.ino;
        let directory = |number: u32| {
            let name = number.to_string();
            let directory = volume.make_dir(tree, name.as_bytes(), &NEW)?.ino;
            for file in 0..FILES {
                volume.create(directory, name_of(file).as_bytes(), &NEW)?;
            }
            Ok(directory)
        };
        Ok(Self(
            (0..DIRECTORIES).map(directory).collect::<Result<_>>()?,
        ))
    }

    /// Reads the attributes of the files in a part of the directories of `user`, one of `users`.
    pub(super) fn examine(&self, volume: &Volume, user: u32, users: u32, part: Part) -> Result<()> {
        let directories = self.0.iter().skip(user as usize).step_by(users as usize);
        for directory in part.of(directories) {
            for file in 0..FILES {
                let ino = volume.lookup(*directory, name_of(file).as_bytes())?;
                volume.metadata(ino)?;
            }
        }
        Ok(())
    }
}

fn name_of(file: u32) -> String {
    format!("file{file}")
}
