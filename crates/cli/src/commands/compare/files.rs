//! Compares two files.
//!
//! Content is compared in runs. A run counts as equal without a read in three cases: it is a hole in both files; both
//! files have it at the same place of one disk, which no overlay has changed there; or both files have it at the same
//! place of two images, in a range that the host stores once. Everything else is read, in large parts.

use super::SharedRanges;
use crate::mode;
use larder::{FileRun, Metadata, RunPlace, Volume};
use serde::Serialize;
use std::collections::BTreeMap;

/// The flags that chattr(1) can set. The others say how a file is stored.
const USER_FLAGS: u32 = 0x6043_C0FF;

/// The number of bytes of two files that are compared at once.
const PART_LEN: usize = 1 << 20;

/// How two files differ. The order is that of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::commands) enum Change {
    /// Only the new tree has the path.
    Added,
    /// Only the old tree has the path.
    Removed,
    /// The types differ. Nothing else is then compared.
    Type,
    /// The sizes of regular files differ, and thus their contents.
    Size,
    /// The contents of regular files differ.
    Content,
    /// The targets of symbolic links differ.
    Target,
    /// The device numbers differ.
    Device,
    Permissions,
    /// The users, the groups or the project IDs differ.
    Owner,
    /// The flags of chattr(1) differ.
    Flags,
    /// The extended attributes differ, among them access control lists.
    Xattrs,
    /// The times of the last modification differ.
    Times,
}

impl Change {
    pub(in crate::commands) fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Type => "type",
            Self::Size => "size",
            Self::Content => "content",
            Self::Target => "target",
            Self::Device => "device",
            Self::Permissions => "permissions",
            Self::Owner => "owner",
            Self::Flags => "flags",
            Self::Xattrs => "xattrs",
            Self::Times => "times",
        }
    }
}

/// The files whose times of modification are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum Times {
    Ignored,
    /// All files except directories, whose times change with their entries.
    WithoutDirectories,
    All,
}

/// What is compared.
#[derive(Clone, Copy, Debug)]
pub(in crate::commands) struct Options {
    pub times: Times,
    /// Whether a change of attributes is enough: the content of such a file is not read.
    pub is_brief: bool,
}

/// What is stored once for both trees.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::commands) enum Shared {
    Nothing,
    /// The trees are on the same volume.
    Volume,
    /// The new tree is on an overlay of the disk with the old tree.
    Base,
    /// The trees are on two raw images that share ranges on the host.
    Ranges(SharedRanges),
}

/// One of the two trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Old = 0,
    New = 1,
}

/// A result, or the error of one of the two trees.
type Found<T> = Result<T, (Which, larder::Error)>;

/// A comparison of files.
#[derive(Debug)]
pub(super) struct Files {
    shared: Shared,
    options: Options,
    buffers: [Vec<u8>; 2],
}

/// A file of one of the trees.
#[derive(Clone, Copy)]
struct File<'a> {
    which: Which,
    volume: &'a Volume,
    is_remote: bool,
    metadata: &'a Metadata,
}

impl File<'_> {
    fn of<T>(&self, result: larder::Result<T>) -> Found<T> {
        result.map_err(|error| (self.which, error))
    }

    fn run(&self, offset_bytes: u64) -> Found<FileRun> {
        self.of(self.volume.file_run(self.metadata.ino, offset_bytes))
    }

    /// Fills `buf` from `offset_bytes` on. Returns the number of bytes, which is smaller than `buf` only at the end of
    /// the file.
    fn read(&self, buf: &mut [u8], offset_bytes: u64) -> Found<usize> {
        let ino = self.metadata.ino;
        self.of(if self.is_remote {
            self.volume.read_once(ino, buf, offset_bytes)
        } else {
            // The host reads ahead and caches the image, so another copy would be of no use.
            self.volume.read_past_cache(ino, buf, offset_bytes)
        })
    }

    fn target(&self) -> Found<Vec<u8>> {
        self.of(self.volume.read_link(self.metadata.ino))
    }

    fn xattrs(&self) -> Found<BTreeMap<Vec<u8>, Option<Vec<u8>>>> {
        let ino = self.metadata.ino;
        let names = self.of(self.volume.xattrs(ino))?;
        let values = names.into_iter().map(|name| {
            let value = self.of(self.volume.xattr(ino, &name))?;
            Ok((name, value))
        });
        values.collect()
    }
}

impl Files {
    pub(super) fn new(shared: Shared, options: Options) -> Self {
        Self {
            shared,
            options,
            buffers: [vec![0; PART_LEN], vec![0; PART_LEN]],
        }
    }

    /// Returns how two files differ. `volumes` are the volumes of the files, each with whether it is remote.
    pub(super) fn changes(
        &mut self,
        volumes: [(&Volume, bool); 2],
        metadata: [&Metadata; 2],
    ) -> Found<Vec<Change>> {
        let file = |which: Which| File {
            which,
            volume: volumes[which as usize].0,
            is_remote: volumes[which as usize].1,
            metadata: metadata[which as usize],
        };
        let (old, new) = (file(Which::Old), file(Which::New));
        let [first, second] = metadata;
        if first.kind != second.kind {
            return Ok(vec![Change::Type]);
        }
        if self.shared == Shared::Volume && first.ino == second.ino {
            return Ok(Vec::new());
        }
        let mut changes = self.changed_attributes(first, second);
        if self.options.is_brief && !changes.is_empty() {
            return Ok(changes);
        }
        if first.is_file()
            && (first.size_bytes != second.size_bytes || !self.has_same_content(old, new)?)
        {
            changes.push(Change::Content);
        }
        if first.is_symlink() && old.target()? != new.target()? {
            changes.push(Change::Target);
        }
        if old.xattrs()? != new.xattrs()? {
            changes.push(Change::Xattrs);
        }
        changes.sort_unstable();
        Ok(changes)
    }

    /// Returns which attributes of two files of the same type differ.
    fn changed_attributes(&self, old: &Metadata, new: &Metadata) -> Vec<Change> {
        let has_times = match self.options.times {
            Times::Ignored => false,
            Times::WithoutDirectories => !old.is_dir(),
            Times::All => true,
        };
        let device = |file: &Metadata| (file.rdev_major, file.rdev_minor);
        let owner = |file: &Metadata| (file.uid, file.gid, file.project_id);
        let differ = [
            (
                Change::Size,
                old.is_file() && old.size_bytes != new.size_bytes,
            ),
            (
                Change::Device,
                mode::is_device(old.kind) && device(old) != device(new),
            ),
            (Change::Permissions, old.permissions != new.permissions),
            (Change::Owner, owner(old) != owner(new)),
            (Change::Flags, (old.flags ^ new.flags) & USER_FLAGS != 0),
            (Change::Times, has_times && old.modified != new.modified),
        ];
        let changed = differ.into_iter().filter(|(_, differs)| *differs);
        changed.map(|(change, _)| change).collect()
    }

    /// Returns whether two regular files of the same size have the same content.
    fn has_same_content(&mut self, old: File<'_>, new: File<'_>) -> Found<bool> {
        let size_bytes = old.metadata.size_bytes;
        let mut at_bytes = 0;
        while at_bytes < size_bytes {
            let (one, other) = (old.run(at_bytes)?, new.run(at_bytes)?);
            let end_bytes = one.end_bytes.min(other.end_bytes).min(size_bytes);
            let left_bytes = end_bytes - at_bytes;
            let equal_bytes = self.shared_bytes(one.place, other.place);
            if equal_bytes > 0 {
                at_bytes += equal_bytes.min(left_bytes);
                continue;
            }
            let left = usize::try_from(left_bytes).unwrap_or(usize::MAX);
            let len = left.min(PART_LEN);
            let [first, second] = &mut self.buffers;
            let (first, second) = (&mut first[..len], &mut second[..len]);
            if old.read(first, at_bytes)? != len
                || new.read(second, at_bytes)? != len
                || first != second
            {
                return Ok(false);
            }
            at_bytes += len as u64;
        }
        Ok(true)
    }

    /// Returns how many bytes of two runs that begin at these places are certainly equal. This can be more than the length
    /// of the runs.
    fn shared_bytes(&self, old: RunPlace, new: RunPlace) -> u64 {
        match (old, new) {
            (RunPlace::Hole, RunPlace::Hole) => u64::MAX,
            (
                RunPlace::Disk { offset_bytes, .. },
                RunPlace::Disk {
                    offset_bytes: other_bytes,
                    is_unchanged,
                },
            ) if offset_bytes == other_bytes => match &self.shared {
                Shared::Volume => u64::MAX,
                Shared::Base if is_unchanged => u64::MAX,
                Shared::Ranges(ranges) => ranges.len_from(offset_bytes),
                Shared::Base | Shared::Nothing => 0,
            },
            _ => 0,
        }
    }
}
