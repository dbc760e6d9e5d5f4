//! Lists the paths whose files differ between a base and an overlay.

use crate::args::OverlayDiffArgs;
use crate::json::Name;
use crate::opening::{format_of, open_image};
use crate::overlay;
use larder::{FileKind, Ino, Metadata, Volume};
use larder_console::{Failure, Result, name, write_json};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;

/// The flags that chattr(1) can set. The others say how a file is stored.
const USER_FLAGS: u32 = 0x6043_C0FF;

/// The number of bytes of two files that are compared at once.
const PART_LEN: usize = 1 << 20;

/// How a path differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Change {
    Added,
    Deleted,
    Modified,
}

impl Change {
    fn letter(self) -> char {
        match self {
            Self::Added => 'A',
            Self::Deleted => 'D',
            Self::Modified => 'M',
        }
    }
}

/// A path that differs.
#[derive(Debug)]
struct Difference {
    change: Change,
    path: Vec<u8>,
    is_directory: bool,
}

#[derive(Serialize)]
struct JsonDifference {
    change: Change,
    #[serde(flatten)]
    path: Name,
}

#[derive(Serialize)]
struct JsonDifferences {
    changes: Vec<JsonDifference>,
}

pub(super) fn run(args: &OverlayDiffArgs) -> Result<()> {
    let with_changes = overlay::with(&args.source, &args.changes)?;
    let mut base = args.source.clone();
    base.volume.format = format_of((&with_changes).into())?;
    let base = open_image(&base)?;
    let changed = open_image(&with_changes)?;
    let mut differences = Differences {
        base: &base,
        changed: &changed,
        found: Vec::new(),
    };
    differences
        .compare(Some(Ino::ROOT), Some(Ino::ROOT), b"/")
        .map_err(|error| Failure::new(format!("{}: {error}", args.changes.display())))?;
    if args.json {
        let listed = differences.found.into_iter().map(|one| JsonDifference {
            change: one.change,
            path: Name::new(&one.path),
        });
        return write_json(&JsonDifferences {
            changes: listed.collect(),
        });
    }
    let mut out = BufWriter::new(io::stdout().lock());
    for one in &differences.found {
        let slash = if one.is_directory && one.path != b"/" {
            "/"
        } else {
            ""
        };
        writeln!(
            out,
            "{} {}{slash}",
            one.change.letter(),
            name::escaped(&one.path)
        )?;
    }
    Ok(out.flush()?)
}

/// The comparison of two states of a file system.
struct Differences<'v> {
    base: &'v Volume,
    changed: &'v Volume,
    found: Vec<Difference>,
}

impl Differences<'_> {
    /// Compares the files with the name `path`, and for directories all files below them. A file that does not exist is
    /// `None`.
    fn compare(&mut self, old: Option<Ino>, new: Option<Ino>, path: &[u8]) -> larder::Result<()> {
        let mut left = vec![(old, new, path.to_vec())];
        // A directory of a damaged image can contain itself.
        let mut entered = HashSet::new();
        while let Some((old, new, path)) = left.pop() {
            let old = old.map(|ino| self.base.metadata(ino)).transpose()?;
            let new = new.map(|ino| self.changed.metadata(ino)).transpose()?;
            let change = match (&old, &new) {
                (Some(old), Some(new)) if self.is_same(old, new)? => None,
                (Some(_), Some(_)) => Some(Change::Modified),
                (Some(_), None) => Some(Change::Deleted),
                (None, Some(_)) => Some(Change::Added),
                (None, None) => None,
            };
            let is_directory = |file: &Option<Metadata>| {
                file.as_ref()
                    .is_some_and(|file| file.kind == FileKind::Directory)
            };
            if let Some(change) = change {
                self.found.push(Difference {
                    change,
                    path: path.clone(),
                    is_directory: is_directory(new.as_ref().map_or(&old, |_| &new)),
                });
            }
            let ino_of = |file: &Option<Metadata>| file.as_ref().map(|file| file.ino);
            if !entered.insert((ino_of(&old), ino_of(&new))) {
                continue;
            }
            let mut names: BTreeMap<Vec<u8>, (Option<Ino>, Option<Ino>)> = BTreeMap::new();
            if let Some(old) = old.filter(|old| old.kind == FileKind::Directory) {
                each_entry(self.base, old.ino, |name, ino| {
                    names.entry(name.to_vec()).or_default().0 = Some(ino);
                })?;
            }
            if let Some(new) = new.filter(|new| new.kind == FileKind::Directory) {
                each_entry(self.changed, new.ino, |name, ino| {
                    names.entry(name.to_vec()).or_default().1 = Some(ino);
                })?;
            }
            // The last is compared first.
            for (name, (old, new)) in names.into_iter().rev() {
                let slash: &[u8] = if path == b"/" { b"" } else { b"/" };
                left.push((old, new, [&path[..], slash, &name[..]].concat()));
            }
        }
        Ok(())
    }

    /// Returns whether two files are equal. Of directories, the entries are not compared.
    fn is_same(&self, old: &Metadata, new: &Metadata) -> larder::Result<bool> {
        // Only inodes with a time of creation record times in nanoseconds.
        let identity = |file: &Metadata| {
            let times = (file.changed, file.modified, file.created);
            (file.ino, file.generation, times, file.size_bytes)
        };
        if old.created.is_some() && identity(old) == identity(new) {
            return Ok(true);
        }
        let attributes = |file: &Metadata| {
            (
                file.kind,
                file.permissions,
                (file.uid, file.gid, file.project_id),
                (file.rdev_major, file.rdev_minor),
                file.flags & USER_FLAGS,
            )
        };
        if attributes(old) != attributes(new) || self.xattrs(old, new)? {
            return Ok(false);
        }
        if old.kind == FileKind::Directory {
            return Ok(true);
        }
        if (old.size_bytes, old.modified) != (new.size_bytes, new.modified) {
            return Ok(false);
        }
        match old.kind {
            FileKind::Regular => self.has_same_content(old, new),
            FileKind::Symlink => {
                Ok(self.base.read_link(old.ino)? == self.changed.read_link(new.ino)?)
            }
            _ => Ok(true),
        }
    }

    /// Returns whether the extended attributes of two files differ.
    fn xattrs(&self, old: &Metadata, new: &Metadata) -> larder::Result<bool> {
        let all =
            |volume: &Volume, ino: Ino| -> larder::Result<BTreeMap<Vec<u8>, Option<Vec<u8>>>> {
                let names = volume.xattrs(ino)?;
                let values = names.into_iter().map(|name| {
                    let value = volume.xattr(ino, &name)?;
                    Ok((name, value))
                });
                values.collect()
            };
        Ok(all(self.base, old.ino)? != all(self.changed, new.ino)?)
    }

    /// Returns whether two files of the same size have the same content.
    fn has_same_content(&self, old: &Metadata, new: &Metadata) -> larder::Result<bool> {
        let (mut first, mut second) = (vec![0; PART_LEN], vec![0; PART_LEN]);
        let mut at_bytes = 0;
        while at_bytes < old.size_bytes {
            let len = self.base.read_at(old.ino, &mut first, at_bytes)?;
            let other_len = self.changed.read_at(new.ino, &mut second, at_bytes)?;
            if len == 0 || len != other_len || first[..len] != second[..len] {
                return Ok(false);
            }
            at_bytes += len as u64;
        }
        Ok(true)
    }
}

/// Calls `run` with the name and the inode of each entry of a directory, except `.` and `..`.
fn each_entry(volume: &Volume, ino: Ino, mut run: impl FnMut(&[u8], Ino)) -> larder::Result<()> {
    volume.read_dir(ino, 0, &mut |entry| {
        if entry.name != b"." && entry.name != b".." {
            run(entry.name, entry.ino);
        }
        ControlFlow::Continue(())
    })
}
