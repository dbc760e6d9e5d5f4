//! Copies the files of a tar archive into a new image.
//!
//! A file gets its name before its content: nothing reads the image before it is complete, so the content of many small
//! files can be written together. A new file is created with its owner, permissions and times. For a directory that
//! exists, the owner is set first, then the permissions, and then the attributes, because setting one can change the
//! following ones.

use super::archive::{Archive, Entry, Kind};
use super::contents::Contents;
use super::pax::Run;
use super::tree::{self, Tree, is_full, of_volume};
use indicatif::ProgressBar;
use larder::fs::copy::{BUFFER_BYTES, Rules, attribute_value, has_zero_block, write_except_zeros};
use larder::{Errno, Error, FileTimes, Ino, Make, NewFile, SetAttributes, SetTime, XattrMode};
use larder_console::{Failure, Result, name, print_warning};

/// Copies the files of archives.
#[derive(Debug)]
pub(super) struct Filler {
    buffer: Vec<u8>,
    progress: ProgressBar,
    /// Whether a warning about attributes was printed.
    has_warned: bool,
}

impl Filler {
    pub(super) fn new(progress: ProgressBar) -> Self {
        Self {
            buffer: vec![0; BUFFER_BYTES],
            progress,
            has_warned: false,
        }
    }

    /// Copies all files of `archive`.
    pub(super) fn fill(&mut self, tree: &mut Tree<'_>, archive: &mut Archive) -> Result<()> {
        let start_bytes = self.progress.position();
        let mut contents = Contents::new(tree.volume)?;
        while let Some(entry) = archive.next_entry()? {
            self.add(tree, archive, &entry, contents.as_mut())
                .map_err(|failure| failure.at(&entry.path))?;
            if let Some(contents) = &mut contents {
                contents.write_complete()?;
            }
            self.progress.set_position(start_bytes + archive.at_bytes());
        }
        if let Some(contents) = &mut contents {
            contents.finish()?;
        }
        archive.drain()
    }

    fn add(
        &mut self,
        tree: &mut Tree<'_>,
        archive: &mut Archive,
        entry: &Entry,
        mut contents: Option<&mut Contents<'_>>,
    ) -> Result<()> {
        let names = tree::names(&entry.path)?;
        if names.iter().any(|name| tree.owners.is_whiteout(name)) {
            return Ok(());
        }
        let Some((name, parents)) = names.split_last() else {
            if entry.kind == Kind::Directory {
                return self.set_metadata(tree, Ino::ROOT, entry);
            }
            return Err(Failure::new(
                "the archive would replace the root directory with another file",
            ));
        };
        let parent = retry_when_full(&mut contents, |_| tree.directory(parents))?;
        if let Kind::HardLink { path } = &entry.kind {
            return retry_when_full(&mut contents, |contents| {
                link(tree, path, parent, name, contents.as_deref_mut())
            });
        }
        let Some(ino) = retry_when_full(&mut contents, |_| make(tree, parent, name, entry))? else {
            let present = tree.lookup(parent, name)?;
            let directory =
                present.filter(|present| present.is_dir() && entry.kind == Kind::Directory);
            if let Some(directory) = directory {
                return self.set_metadata(tree, directory.ino, entry);
            }
            remove(tree, parent, name, contents.as_deref_mut())?;
            let made = make(tree, parent, name, entry)?;
            let ino = made.ok_or_else(|| of_volume(&Error::Errno(Errno::EXIST)))?;
            return self.complete(tree, archive, ino, entry, contents);
        };
        self.complete(tree, archive, ino, entry, contents)
    }

    /// Gives the new file `ino` its content and attributes.
    fn complete(
        &mut self,
        tree: &mut Tree<'_>,
        archive: &mut Archive,
        ino: Ino,
        entry: &Entry,
        mut contents: Option<&mut Contents<'_>>,
    ) -> Result<()> {
        if let Kind::File { size_bytes, runs } = &entry.kind {
            let has_no_hole = runs.iter().map(|run| run.len_bytes).sum::<u64>() == *size_bytes;
            let small = match &contents {
                Some(_) if has_no_hole => archive.small_content()?,
                _ => None,
            };
            if let Some((chunk, content)) = small {
                let bytes = chunk.get(content.clone()).unwrap_or_default();
                if !has_zero_block(tree.volume, bytes) {
                    if let Some(contents) = contents.as_deref_mut()
                        && !content.is_empty()
                    {
                        contents.add(ino, chunk, content);
                    }
                    return retry_when_full(&mut contents, |_| self.set_xattrs(tree, ino, entry));
                }
                write_at(tree, ino, bytes, 0, &mut contents)?;
            } else {
                self.write(tree, archive, ino, runs, &mut contents)?;
            }
            grow(tree, ino, *size_bytes)?;
            // The write has changed the time of modification.
            return retry_when_full(&mut contents, |_| self.set_metadata(tree, ino, entry));
        }
        if entry.kind == Kind::Directory {
            tree.set_times(ino, times_of(entry));
        }
        retry_when_full(&mut contents, |_| self.set_xattrs(tree, ino, entry))
    }

    /// Writes the content of a new file.
    fn write(
        &mut self,
        tree: &Tree<'_>,
        archive: &mut Archive,
        ino: Ino,
        runs: &[Run],
        contents: &mut Option<&mut Contents<'_>>,
    ) -> Result<()> {
        for run in runs {
            let mut at_bytes = run.offset_bytes;
            let mut left_bytes = run.len_bytes;
            while left_bytes > 0 {
                let len = usize::try_from(left_bytes).unwrap_or(usize::MAX);
                let len = len.min(self.buffer.len());
                let part = self.buffer.get_mut(..len).unwrap_or_default();
                let len = archive.data(part)?;
                if len == 0 {
                    return Err(Failure::new("the content ends early"));
                }
                let part = part.get(..len).unwrap_or_default();
                write_at(tree, ino, part, at_bytes, contents)?;
                at_bytes += len as u64;
                self.progress.inc(len as u64);
                left_bytes -= len as u64;
            }
        }
        Ok(())
    }

    /// Gives the file `ino` the metadata of `entry`. A directory that existed keeps the attributes that `entry` lacks,
    /// except access control lists, as in a copy of a directory. Attributes that ext4 does not support are skipped.
    fn set_metadata(&mut self, tree: &mut Tree<'_>, ino: Ino, entry: &Entry) -> Result<()> {
        tree.remove_lists(ino)?;
        let (uid, gid) = tree.owners.owner(entry.uid, entry.gid);
        let times = times_of(entry);
        let is_symlink = matches!(entry.kind, Kind::Symlink { .. });
        let attributes = SetAttributes {
            uid: Some(uid),
            gid: Some(gid),
            permissions: (!is_symlink).then_some(entry.permissions),
            atime: Some(SetTime::To(times.accessed)),
            mtime: Some(SetTime::To(times.modified)),
            ..SetAttributes::default()
        };
        tree.set_attributes(ino, &attributes)?;
        self.set_xattrs(tree, ino, entry)?;
        if entry.kind == Kind::Directory {
            tree.set_times(ino, times);
        }
        Ok(())
    }

    /// Sets the attributes of `entry`, except those that ext4 does not support.
    fn set_xattrs(&mut self, tree: &Tree<'_>, ino: Ino, entry: &Entry) -> Result<()> {
        for (attribute, value) in &entry.xattrs {
            let value = attribute_value(tree.owners, attribute, value);
            match tree
                .volume
                .set_xattr(ino, attribute, &value, XattrMode::Any)
            {
                Ok(()) => {}
                Err(error) if error.errno() == Errno::OPNOTSUPP => self.warn(entry, attribute),
                Err(error) => {
                    let what = [&b"cannot set attribute "[..], attribute].concat();
                    return Err(of_volume(&error).at(&what));
                }
            }
        }
        Ok(())
    }

    /// Prints a warning about the first attribute that ext4 does not support.
    fn warn(&mut self, entry: &Entry, attribute: &[u8]) {
        if !self.has_warned {
            self.has_warned = true;
            let (path, attribute) = (name::escaped(&entry.path), name::escaped(attribute));
            let message = format!(
                "{path}: attribute {attribute} is not supported by ext4; all such attributes are skipped"
            );
            self.progress.suspend(|| print_warning(&message));
        }
    }
}

/// Calls `run`. If the image is full, writes `contents`, which has reserved space for the worst case, and calls `run` again.
fn retry_when_full<'c, 'v, R>(
    contents: &mut Option<&'c mut Contents<'v>>,
    mut run: impl FnMut(&mut Option<&'c mut Contents<'v>>) -> Result<R>,
) -> Result<R> {
    match run(contents) {
        Err(failure) if is_full(&failure) && contents.is_some() => {
            if let Some(contents) = contents {
                contents.finish()?;
            }
            run(contents)
        }
        done => done,
    }
}

/// Writes `bytes` to the file `ino` at `offset_bytes`, except blocks of zeros, which are holes.
fn write_at(
    tree: &Tree<'_>,
    ino: Ino,
    bytes: &[u8],
    offset_bytes: u64,
    contents: &mut Option<&mut Contents<'_>>,
) -> Result<()> {
    retry_when_full(contents, |_| {
        let written = write_except_zeros(tree.volume, ino, bytes, offset_bytes);
        written.map_err(|error| of_volume(&error))
    })
}

/// Gives the new file `ino` the size `size_bytes`, if it ends with a hole.
fn grow(tree: &Tree<'_>, ino: Ino, size_bytes: u64) -> Result<()> {
    let metadata = tree.volume.metadata(ino);
    if metadata.map_err(|error| of_volume(&error))?.size_bytes == size_bytes {
        return Ok(());
    }
    let grown = tree.volume.truncate(ino, size_bytes);
    grown.map_err(|error| of_volume(&error))
}

/// Creates the file of `entry`. Returns `None` if a file has the name.
fn make(tree: &Tree<'_>, parent: Ino, name: &[u8], entry: &Entry) -> Result<Option<Ino>> {
    let (uid, gid) = tree.owners.owner(entry.uid, entry.gid);
    let new = NewFile::new()
        .permissions(entry.permissions)
        .owner(uid, gid);
    let (what, times) = (make_of(&entry.kind), times_of(entry));
    match tree.volume.make_exactly(parent, name, what, &new, times) {
        Ok(made) => Ok(Some(made.ino)),
        Err(error) if error.errno() == Errno::EXIST => Ok(None),
        Err(error) => Err(of_volume(&error)),
    }
}

/// Removes the file with the name `name` in `parent`, if it exists.
fn remove(
    tree: &mut Tree<'_>,
    parent: Ino,
    name: &[u8],
    contents: Option<&mut Contents<'_>>,
) -> Result<()> {
    if let Some(contents) = contents {
        // The content of the file may not be in the image yet.
        contents.finish()?;
    }
    match tree.lookup(parent, name)? {
        Some(present) => tree.remove(parent, name, &present),
        None => Ok(()),
    }
}

/// Returns the times of access and of modification of a file.
fn times_of(entry: &Entry) -> FileTimes {
    FileTimes {
        accessed: entry.atime.unwrap_or(entry.mtime),
        modified: entry.mtime,
    }
}

/// Adds the name `name` in `parent` to the file at `path` of the image.
fn link(
    tree: &mut Tree<'_>,
    path: &[u8],
    parent: Ino,
    name: &[u8],
    contents: Option<&mut Contents<'_>>,
) -> Result<()> {
    let of_target = |failure: Failure| failure.at(path);
    let names = tree::names(path).map_err(of_target)?;
    let Some(target) = tree.find(&names).map_err(of_target)? else {
        return Err(Failure::new(format!(
            "is a hard link to {}, which does not exist at this point",
            name::escaped(path)
        )));
    };
    if target.is_dir() {
        return Err(Failure::new(format!(
            "is a hard link to {}, which is a directory",
            name::escaped(path)
        )));
    }
    if let Some(present) = tree.lookup(parent, name)? {
        if present.ino == target.ino {
            return Ok(());
        }
        remove(tree, parent, name, contents)?;
        if tree.find(&names).map_err(of_target)?.is_none() {
            return Err(Failure::new("is a hard link that replaces its own target"));
        }
    }
    let linked = tree.volume.link(target.ino, parent, name);
    linked.map(drop).map_err(|error| of_volume(&error))
}

/// Returns what an entry creates. A hard link, which creates nothing, is not passed.
fn make_of(kind: &Kind) -> Make<'_> {
    match kind {
        Kind::File { .. } | Kind::HardLink { .. } => Make::FILE,
        Kind::Directory => Make::Directory,
        Kind::Symlink { target } => Make::Symlink { target },
        Kind::Node { kind, device } => Make::Node {
            kind: *kind,
            device: *device,
        },
    }
}
