//! The whiteouts of layers of OCI images: empty files whose names remove files of earlier layers.
//!
//! A whiteout never applies to files of its own layer, wherever they are in the archive. Therefore all whiteouts of a layer
//! are applied before its first file is created, and a layer is read twice.
//!
//! A directory of a layer can replace a link of an earlier layer. The whiteouts in the directory must not apply to the
//! target of the link, wherever they are in the archive. Therefore such links are removed before the first whiteout is
//! applied.

use super::archive::{Archive, Kind};
use super::owners::WHITEOUT;
use super::tree::{self, Tree};
use larder_console::{Failure, Result};
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The whiteout that removes all files in its directory.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// The beginning of names that have a meaning for AUFS only.
const OF_AUFS: &[u8] = b".wh..wh.";

/// Removes each file of the tree that a directory of `archive` will replace, and then applies all whiteouts.
pub(super) fn apply_archive(tree: &mut Tree<'_>, archive: &mut Archive) -> Result<()> {
    let mut whiteouts = Vec::new();
    while let Some(entry) = archive.next_entry()? {
        let names = tree::names(&entry.path).map_err(|failure| failure.at(&entry.path))?;
        if entry.kind == Kind::Directory {
            let replaced = replace_by(tree, &names, true);
            replaced.map_err(|failure| failure.at(&entry.path))?;
        } else if names.last().is_some_and(|name| name.starts_with(WHITEOUT)) {
            whiteouts.push(entry.path);
        }
    }
    for path in whiteouts {
        apply(tree, &path).map_err(|failure| failure.at(&path))?;
    }
    Ok(())
}

/// Removes the file with the path `names`, if it is a directory and its replacement is not, or the reverse.
fn replace_by(tree: &mut Tree<'_>, names: &[&[u8]], is_directory: bool) -> Result<()> {
    if let (Some(present), Some((name, parents))) = (tree.find(names)?, names.split_last())
        && present.is_dir() != is_directory
        && let Some(parent) = tree.find_directory(parents)?
    {
        tree.remove(parent, name, &present)?;
    }
    Ok(())
}

/// Applies all whiteouts below the directory `root` of the host. Also removes each directory of the tree that a file of
/// another type will replace, and each other file that a directory will replace.
pub(super) fn apply_directory(tree: &mut Tree<'_>, root: &Path) -> Result<()> {
    let mut left = vec![PathBuf::new()];
    while let Some(directory) = left.pop() {
        let failed = |error: io::Error| {
            Failure::new(error.to_string()).at(root.join(&directory).as_os_str().as_bytes())
        };
        let entries: io::Result<Vec<DirEntry>> =
            fs::read_dir(root.join(&directory)).and_then(Iterator::collect);
        let mut entries = entries.map_err(failed)?;
        entries.sort_by_cached_key(DirEntry::file_name);
        for entry in entries {
            let is_directory = entry.file_type().map_err(failed)?.is_dir();
            let path = directory.join(entry.file_name());
            let bytes = path.as_os_str().as_bytes();
            if entry.file_name().as_bytes().starts_with(WHITEOUT) {
                apply(tree, bytes).map_err(|failure| failure.at(bytes))?;
                continue;
            }
            let names = tree::names(bytes)?;
            replace_by(tree, &names, is_directory).map_err(|failure| failure.at(bytes))?;
            if is_directory {
                left.push(path);
            }
        }
    }
    Ok(())
}

/// Applies the whiteout at `path` of a layer.
fn apply(tree: &mut Tree<'_>, path: &[u8]) -> Result<()> {
    let names = tree::names(path)?;
    let Some((name, parents)) = names.split_last() else {
        return Ok(());
    };
    let Some(removed) = name.strip_prefix(WHITEOUT) else {
        return Ok(());
    };
    let Some(parent) = tree.find_directory(parents)? else {
        return Ok(());
    };
    if *name == OPAQUE {
        return tree.empty(parent);
    }
    if name.starts_with(OF_AUFS) {
        return Ok(());
    }
    if matches!(removed, b"" | b"." | b"..") {
        return Err(Failure::new("the name of the whiteout is invalid"));
    }
    match tree.lookup(parent, removed)? {
        Some(file) => tree.remove(parent, removed, &file),
        None => Ok(()),
    }
}
