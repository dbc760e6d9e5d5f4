//! A volume as a source.
//!
//! The source also checks that the volume is consistent: a lookup finds each listed name, a lookup of a missing
//! name fails, and each attribute is listed once.

use super::{Attributes, Entry, Source, Stat, Time};
use crate::error::{Error, Result};
use larder::{FileKind, Ino, Timestamp, Volume};
use std::ops::{ControlFlow, Range};

/// A volume as a tree of files from its root.
#[derive(Debug)]
pub struct VolumeSource<'a> {
    volume: &'a Volume,
}

impl<'a> VolumeSource<'a> {
    /// Creates a source of the files of `volume`.
    #[must_use]
    pub fn new(volume: &'a Volume) -> Self {
        Self { volume }
    }

    fn check_lookups(&self, node: Ino, entries: &[Entry<Ino>]) -> Result<()> {
        for entry in entries {
            let found = self
                .volume
                .lookup(node, &entry.name)
                .map_err(failed(|| format!("look up {}", text(&entry.name)), node))?;
            if found != entry.node {
                return Err(Error::Inconsistent(format!(
                    "directory {node}: lookup of {} finds inode {found}, the listing shows {}",
                    text(&entry.name),
                    entry.node
                )));
            }
        }
        match self.volume.lookup(node, b"no such name \xff") {
            Err(larder::Error::NotFound(_)) => Ok(()),
            other => Err(Error::Inconsistent(format!(
                "directory {node}: lookup of a missing name returns {other:?}"
            ))),
        }
    }
}

impl Source for VolumeSource<'_> {
    type Node = Ino;

    fn label(&self) -> &'static str {
        "larder"
    }

    fn root(&self) -> Ino {
        Ino::ROOT
    }

    fn entries(&self, node: &Ino) -> Result<Vec<Entry<Ino>>> {
        let mut entries = Vec::new();
        self.volume
            .read_dir(*node, 0, &mut |entry| {
                if entry.name != b"." && entry.name != b".." {
                    entries.push(Entry {
                        name: entry.name.to_vec(),
                        node: entry.ino,
                        ino: u64::from(entry.ino.0),
                        kind: entry.kind,
                    });
                }
                ControlFlow::Continue(())
            })
            .map_err(failed(|| "list".to_owned(), *node))?;
        self.check_lookups(*node, &entries)?;
        Ok(entries)
    }

    fn stat(&self, node: &Ino) -> Result<Stat> {
        let found = self
            .volume
            .metadata(*node)
            .map_err(failed(|| "stat".to_owned(), *node))?;
        let time = |time: Timestamp| -> Time { (time.seconds, time.nanoseconds) };
        let device = matches!(found.kind, FileKind::CharDevice | FileKind::BlockDevice);
        Ok(Stat {
            ino: u64::from(found.ino.0),
            kind: found.kind,
            permissions: found.permissions,
            links: found.links,
            owners: (found.uid, found.gid),
            rdev: if device {
                (found.rdev_major, found.rdev_minor)
            } else {
                (0, 0)
            },
            size_bytes: found.size_bytes,
            blocks_512: found.blocks_512,
            accessed: time(found.accessed),
            modified: time(found.modified),
            changed: time(found.changed),
            created: found.created.map(time),
        })
    }

    fn target(&self, node: &Ino) -> Result<Vec<u8>> {
        self.volume
            .read_link(*node)
            .map_err(failed(|| "read the symbolic link".to_owned(), *node))
    }

    fn attributes(&self, node: &Ino) -> Result<Attributes> {
        let names = self
            .volume
            .xattrs(*node)
            .map_err(failed(|| "list attributes".to_owned(), *node))?;
        let mut attributes = Attributes::new();
        for name in names {
            let value = self
                .volume
                .xattr(*node, &name)
                .map_err(failed(|| format!("read attribute {}", text(&name)), *node))?;
            let shown = text(&name);
            let Some(value) = value else {
                return Err(Error::Inconsistent(format!(
                    "inode {node}: attribute {shown} is listed, but has no value"
                )));
            };
            if attributes.insert(name, value).is_some() {
                return Err(Error::Inconsistent(format!(
                    "inode {node}: attribute {shown} is listed twice"
                )));
            }
        }
        Ok(attributes)
    }

    fn data_runs(&self, node: &Ino, size_bytes: u64) -> Result<Vec<Range<u64>>> {
        let mut runs = Vec::new();
        let mut at = 0;
        while at < size_bytes {
            let start = match self.volume.seek_data(*node, at) {
                Ok(start) => start,
                Err(larder::Error::NoMoreData(_)) => break,
                Err(error) => return Err(failed(|| format!("seek data at {at}"), *node)(error)),
            };
            let end = self
                .volume
                .seek_hole(*node, start)
                .map_err(failed(|| format!("seek a hole at {start}"), *node))?;
            if start < at || end <= start || end > size_bytes {
                return Err(Error::Inconsistent(format!(
                    "inode {node}: seek from {at} returns data at {start} and a hole at {end}"
                )));
            }
            runs.push(start..end);
            at = end;
        }
        Ok(runs)
    }

    fn read_at(&self, node: &Ino, buf: &mut [u8], offset_bytes: u64) -> Result<usize> {
        self.volume
            .read_at(*node, buf, offset_bytes)
            .map_err(failed(|| format!("read at {offset_bytes}"), *node))
    }
}

fn failed(what: impl Fn() -> String, node: Ino) -> impl Fn(larder::Error) -> Error {
    move |source| Error::Volume {
        what: format!("inode {node}: cannot {}", what()),
        source,
    }
}

fn text(name: &[u8]) -> String {
    name.escape_ascii().to_string()
}
