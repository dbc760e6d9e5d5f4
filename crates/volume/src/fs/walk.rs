//! Walks through trees.
//!
//! Model: fts(3). An image can be hostile: a walk enters no directory twice, so a loop does not make it endless.
//!
//! Cost: memory for one name and one batch of entries for each level of directories, and for the inode number of each
//! directory. In a sorted walk, a batch is all entries of the directory.

use super::listing::{DirEntry, ReadDir, damage, entered_twice};
use super::path::{Fs, at};
use crate::{FileKind, Ino};
use std::collections::HashSet;
use std::io;
use std::path::Path;

/// An iterator over all entries below a directory. Returned by [`Fs::walk`].
#[derive(Debug)]
pub struct Walk {
    levels: Vec<ReadDir>,
    entered: HashSet<Ino>,
    is_sorted: bool,
    /// The directory that was returned last, until it is entered; or the reason why it cannot be entered.
    next: Option<io::Result<ReadDir>>,
}

/// A step of a [`Walk`].
#[derive(Debug)]
pub enum Step {
    /// An entry.
    Entry(DirEntry),
    /// The directory that was returned last is entered: its entries follow.
    Entered,
    /// The present directory has no more entries: those of its parent follow.
    Left,
}

impl Fs {
    /// Returns an iterator over all entries below the directory at `path`, without the directory
    /// itself. A directory precedes its entries. Symbolic links are returned, and not followed.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let image = dir.path().join("disk.img");
    /// # larder_testkit::e2fsprogs::make_image(&image, "-t ext4", "16M")?;
    /// let fs = larder::OpenOptions::new().read_write(true).open(&image)?;
    /// fs.create_dir_all("/a/b")?;
    /// fs.write("/a/b/c", "")?;
    /// let mut paths = Vec::new();
    /// for entry in fs.walk("/a")? {
    ///     paths.push(entry?.path());
    /// }
    /// assert_eq!(paths, ["/a/b", "/a/b/c"].map(std::path::PathBuf::from));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The same as for [`Fs::read_dir`]. If a directory cannot be listed, the item that follows it is
    /// an error with its path, and the walk continues with the next entry.
    pub fn walk(&self, path: impl AsRef<Path>) -> io::Result<Walk> {
        let root = self.read_dir(path)?;
        Ok(Walk {
            entered: HashSet::from([root.ino()]),
            levels: vec![root],
            is_sorted: false,
            next: None,
        })
    }
}

impl Walk {
    /// Sorts the entries of each directory by name, in the order of their bytes. Must be called before the first step.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.is_sorted = true;
        self.levels.iter_mut().for_each(ReadDir::sort);
        self
    }

    /// Returns the next step: an entry, or the beginning or the end of a directory. Returns `None` after the end of the
    /// root of the walk. The root has an end, but no beginning: a walk begins in it.
    ///
    /// # Errors
    /// The same as for [`Fs::walk`].
    pub fn step(&mut self) -> Option<io::Result<Step>> {
        match self.next.take() {
            Some(Ok(mut listing)) => {
                if self.is_sorted {
                    listing.sort();
                }
                self.levels.push(listing);
                return Some(Ok(Step::Entered));
            }
            Some(Err(error)) => return Some(Err(error)),
            None => {}
        }
        let level = self.levels.last_mut()?;
        Some(match level.next() {
            Some(Ok(entry)) => {
                let listing = self.listing(&entry);
                self.next = listing
                    .map_err(|error| at(&entry.path(), error))
                    .transpose();
                Ok(Step::Entry(entry))
            }
            Some(Err(error)) => Err(at(&level.path(), error)),
            None => {
                self.levels.pop();
                Ok(Step::Left)
            }
        })
    }

    /// Does not enter the directory that was returned last.
    pub fn skip_directory(&mut self) {
        self.next = None;
    }

    /// Returns whether the directory that was returned last cannot be entered. The next step is then the error.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        matches!(self.next, Some(Err(_)))
    }

    /// Returns the entries of the present directory that were read and are not returned yet. In a
    /// [sorted](Walk::sorted) walk, these are all entries that are not returned yet.
    pub fn rest(&self) -> impl Iterator<Item = &DirEntry> {
        self.levels.last().into_iter().flat_map(ReadDir::unreturned)
    }

    /// Returns the listing of `entry`, or `None` if `entry` is not a directory.
    fn listing(&mut self, entry: &DirEntry) -> io::Result<Option<ReadDir>> {
        if entry.kind()? != FileKind::Directory {
            return Ok(None);
        }
        let listing = ReadDir::enter(entry)?;
        let ino = listing.ino();
        if self.entered.insert(ino) {
            return Ok(Some(listing));
        }
        Err(if self.levels.iter().any(|level| level.ino() == ino) {
            damage(ino, "directory loop")
        } else {
            entered_twice(ino)
        })
    }
}

impl Iterator for Walk {
    type Item = io::Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.step()? {
                Ok(Step::Entry(entry)) => return Some(Ok(entry)),
                Ok(Step::Entered | Step::Left) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
