//! Compares two trees of files, for `larder diff` and `larder overlay diff`.
//!
//! Model: `rsync -n` with `--checksum`. Both trees are walked at the same time, in the order of names. [`Files`] compares
//! the two files that have the same path below the roots of the trees.
//!
//! Invariants:
//! 1. Files are equal only if their content was read and is equal, or if it is stored once ([`files`], [`SharedRanges`]).
//!    Equal times and sizes prove nothing.
//! 2. Each [`Walk`] enters no directory twice, so a loop in a hostile image does not make the comparison endless.
//! 3. If a directory cannot be read in one tree, its entries in the other tree are not reported as added or removed.
//!
//! Cost: for both trees, the names in one directory of each level, and the inode numbers of the directories. A path is
//! composed only for a difference.

mod files;
pub(super) mod found;
mod shared_ranges;

pub(super) use files::{Change, Options, Shared, Times};
pub(super) use shared_ranges::SharedRanges;

use super::reading::check_kind;
use crate::failure::{of_cause, of_path};
use files::{Files, Which};
use larder::fs::{DirEntry, Step, Walk};
use larder::{Fs, Ino, Metadata};
use larder_console::{Failure, Result};
use std::cmp::Ordering;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// A tree of files.
#[derive(Debug)]
pub(super) struct Tree {
    pub fs: Fs,
    /// The name of the image, for messages.
    pub image: PathBuf,
    /// The path of the root of the tree.
    pub root: Vec<u8>,
    /// Whether the image is at a URL.
    pub is_remote: bool,
}

/// A path whose files differ.
#[derive(Debug)]
pub(super) struct Difference {
    /// The path in the new tree or, if it does not exist there, in the old one.
    pub path: Vec<u8>,
    /// How the files differ, in the order of [`Change`].
    pub changes: Vec<Change>,
    pub old: Option<Metadata>,
    pub new: Option<Metadata>,
}

impl Difference {
    /// Returns the path. The path of a directory ends in a slash.
    pub(super) fn marked_path(&self) -> Vec<u8> {
        let mut path = self.path.clone();
        let file = self.new.as_ref().or(self.old.as_ref());
        if file.is_some_and(Metadata::is_dir) && !path.ends_with(b"/") {
            path.push(b'/');
        }
        path
    }
}

/// An iterator over the paths whose files differ. An error applies to a single path: the iteration can continue.
#[derive(Debug)]
pub(super) struct Comparison {
    old: Side,
    new: Side,
    files: Files,
    /// The roots, until they are compared.
    roots: Option<(Ino, Ino)>,
    /// For each open directory that both trees have, and for each tree: whether names in it could not be read.
    levels: Vec<[bool; 2]>,
    /// The tree that has an open directory which the other one lacks, and the number of such directories.
    alone: Option<(Which, usize)>,
}

/// The walk through a tree.
#[derive(Debug)]
struct Side {
    tree: Tree,
    /// `None` if the root is not a directory.
    walk: Option<Walk>,
    /// The next step, if it was examined already.
    next: Option<Step>,
}

impl Side {
    /// Begins the walk. Also returns the root.
    fn new(tree: Tree) -> Result<(Self, Ino)> {
        let volume = tree.fs.volume();
        let root = volume
            .resolve(&tree.root)
            .and_then(|ino| volume.metadata(ino));
        let root = root.map_err(|error| tree.failed(&tree.root, &error))?;
        let walk = if root.is_dir() {
            let walk = tree.fs.walk(OsStr::from_bytes(&tree.root));
            let walk = walk.map_err(|error| tree.of_image(of_cause(&tree.root, &error)))?;
            Some(walk.sorted())
        } else {
            None
        };
        let side = Self {
            tree,
            walk,
            next: None,
        };
        Ok((side, root.ino))
    }

    /// Examines the next step. If names in the present directory cannot be read, sets `has_unread`.
    fn examine(&mut self, has_unread: &mut bool) -> Result<()> {
        if self.next.is_none() {
            let is_blocked = self.is_blocked();
            let step = self.take();
            *has_unread |= step.is_err() && !is_blocked;
            self.next = Some(step?);
        }
        Ok(())
    }

    /// Takes the next step. At the end of the root and after it, the step is [`Step::Left`].
    fn take(&mut self) -> Result<Step> {
        if let Some(step) = self.next.take() {
            return Ok(step);
        }
        match self.walk.as_mut().and_then(Walk::step) {
            Some(Ok(step)) => Ok(step),
            Some(Err(error)) => Err(self.tree.of_image(of_cause(&self.tree.root, &error))),
            None => Ok(Step::Left),
        }
    }

    /// Takes the next step, which was examined. Returns its entry.
    fn take_entry(&mut self) -> Option<DirEntry> {
        match self.next.take() {
            Some(Step::Entry(entry)) => Some(entry),
            _ => None,
        }
    }

    fn is_blocked(&self) -> bool {
        self.walk.as_ref().is_some_and(Walk::is_blocked)
    }

    fn skip_directory(&mut self) {
        if let Some(walk) = &mut self.walk {
            walk.skip_directory();
        }
    }

    /// Returns the attributes of the file of `entry`.
    fn metadata(&self, entry: &DirEntry) -> Result<Metadata> {
        let metadata = self.tree.fs.volume().metadata(entry.ino());
        let checked = metadata.and_then(|metadata| {
            check_kind(entry.kind().ok(), &metadata)?;
            Ok(metadata)
        });
        checked.map_err(|error| self.tree.failed(&path_of(entry), &error))
    }
}

impl Tree {
    /// Returns the failure for the file at `path`.
    fn failed(&self, path: &[u8], error: &larder::Error) -> Failure {
        self.of_image(of_path(path, error))
    }

    /// Adds the name of the image to a failure.
    fn of_image(&self, failure: Failure) -> Failure {
        failure.at(self.image.as_os_str().as_bytes())
    }
}

impl Comparison {
    /// Begins a comparison. If nothing is stored once for both trees, `shared` is [`Shared::Nothing`].
    ///
    /// # Errors
    /// If a root does not exist or cannot be read.
    pub(super) fn new(old: Tree, new: Tree, shared: Shared, options: Options) -> Result<Self> {
        let (old, old_root) = Side::new(old)?;
        let (new, new_root) = Side::new(new)?;
        let has_level = old.walk.is_some() || new.walk.is_some();
        Ok(Self {
            old,
            new,
            files: Files::new(shared, options),
            roots: Some((old_root, new_root)),
            levels: vec![[false; 2]; usize::from(has_level)],
            alone: None,
        })
    }

    /// Returns the old tree and the new one.
    pub(super) fn trees(&self) -> [&Tree; 2] {
        [&self.old.tree, &self.new.tree]
    }

    fn side(&mut self, which: Which) -> &mut Side {
        match which {
            Which::Old => &mut self.old,
            Which::New => &mut self.new,
        }
    }

    /// Compares the roots.
    fn compare_roots(&mut self, (old, new): (Ino, Ino)) -> Result<Option<Difference>> {
        let read = |tree: &Tree, ino| {
            let metadata = tree.fs.volume().metadata(ino);
            metadata.map_err(|error| tree.failed(&tree.root, &error))
        };
        let (old, new) = (read(&self.old.tree, old)?, read(&self.new.tree, new)?);
        let roots = [&self.old, &self.new].map(|side| side.tree.root.clone());
        self.compare(old, new, |which| roots[which as usize].clone())
    }

    /// Compares the files of two entries, at least one of which exists.
    fn compare_entries(
        &mut self,
        old: Option<&DirEntry>,
        new: Option<&DirEntry>,
    ) -> Result<Option<Difference>> {
        let read = |side: &Side, entry: Option<&DirEntry>| {
            entry.map(|entry| side.metadata(entry)).transpose()
        };
        let metadata = match (read(&self.old, old), read(&self.new, new)) {
            (Ok(first), Ok(second)) => (first, second),
            (Err(failure), _) | (_, Err(failure)) => {
                // If the entry is a directory, comparing its content would only report further failures.
                if old.is_some() {
                    self.old.skip_directory();
                }
                if new.is_some() {
                    self.new.skip_directory();
                }
                return Err(failure);
            }
        };
        let change = match metadata {
            (Some(first), Some(second)) => {
                return self.compare(first, second, |which| {
                    let entry = match which {
                        Which::Old => old,
                        Which::New => new,
                    };
                    entry.map(path_of).unwrap_or_default()
                });
            }
            (None, _) => Change::Added,
            (_, None) => Change::Removed,
        };
        Ok(Some(Difference {
            path: new.or(old).map(path_of).unwrap_or_default(),
            changes: vec![change],
            old: metadata.0,
            new: metadata.1,
        }))
    }

    /// Compares two files. `path` returns their paths.
    fn compare(
        &mut self,
        old: Metadata,
        new: Metadata,
        path: impl Fn(Which) -> Vec<u8>,
    ) -> Result<Option<Difference>> {
        let trees = [&self.old.tree, &self.new.tree];
        let volumes = trees.map(|tree| (&**tree.fs.volume(), tree.is_remote));
        let changes = self.files.changes(volumes, [&old, &new]);
        let changes =
            changes.map_err(|(which, error)| trees[which as usize].failed(&path(which), &error))?;
        Ok((!changes.is_empty()).then(|| Difference {
            path: path(Which::New),
            changes,
            old: Some(old),
            new: Some(new),
        }))
    }

    /// Returns the next entries to compare: those with the same path, or one that only one tree has.
    fn next_entries(&mut self) -> Option<Result<(Option<DirEntry>, Option<DirEntry>)>> {
        loop {
            if let Some((which, levels)) = self.alone {
                match self.side(which).take() {
                    Ok(Step::Entry(entry)) => {
                        return Some(Ok(match which {
                            Which::Old => (Some(entry), None),
                            Which::New => (None, Some(entry)),
                        }));
                    }
                    Ok(Step::Entered) => self.alone = Some((which, levels + 1)),
                    Ok(Step::Left) => self.alone = (levels > 1).then_some((which, levels - 1)),
                    Err(failure) => return Some(Err(failure)),
                }
                continue;
            }
            let [old_unread, new_unread] = self.levels.last_mut()?;
            let examined = self.old.examine(old_unread);
            if let Err(failure) = examined.and_then(|()| self.new.examine(new_unread)) {
                return Some(Err(failure));
            }
            let (old_unread, new_unread) = (*old_unread, *new_unread);
            let (Some(old), Some(new)) = (&self.old.next, &self.new.next) else {
                return None;
            };
            let order = match (old, new) {
                (Step::Entry(old), Step::Entry(new)) => old.file_name().cmp(new.file_name()),
                (Step::Entry(_), Step::Left) => Ordering::Less,
                (Step::Left, Step::Entry(_)) => Ordering::Greater,
                (Step::Entered, Step::Entered) => {
                    self.levels.push([false; 2]);
                    (self.old.next, self.new.next) = (None, None);
                    continue;
                }
                (Step::Left, Step::Left) => {
                    self.levels.pop();
                    (self.old.next, self.new.next) = (None, None);
                    continue;
                }
                (Step::Entered, _) => {
                    self.alone = Some((Which::Old, 1));
                    self.old.next = None;
                    continue;
                }
                (_, Step::Entered) => {
                    self.alone = Some((Which::New, 1));
                    self.new.next = None;
                    continue;
                }
            };
            let old = order.is_le().then(|| self.old.take_entry()).flatten();
            let new = order.is_ge().then(|| self.new.take_entry()).flatten();
            match order {
                // It is unknown whether the other tree has the name.
                Ordering::Less if new_unread => self.old.skip_directory(),
                Ordering::Greater if old_unread => self.new.skip_directory(),
                _ => {
                    match (self.old.is_blocked(), self.new.is_blocked()) {
                        (true, false) if order.is_eq() => self.new.skip_directory(),
                        (false, true) if order.is_eq() => self.old.skip_directory(),
                        _ => {}
                    }
                    return Some(Ok((old, new)));
                }
            }
        }
    }
}

impl Iterator for Comparison {
    type Item = Result<Difference>;

    fn next(&mut self) -> Option<Result<Difference>> {
        loop {
            let compared = match self.roots.take() {
                Some(roots) => self.compare_roots(roots),
                None => match self.next_entries()? {
                    Ok((old, new)) => self.compare_entries(old.as_ref(), new.as_ref()),
                    Err(failure) => Err(failure),
                },
            };
            if let Some(found) = compared.transpose() {
                return Some(found);
            }
        }
    }
}

fn path_of(entry: &DirEntry) -> Vec<u8> {
    entry.path().into_os_string().into_vec()
}
