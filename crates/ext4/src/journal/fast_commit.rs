//! The walk over the fast-commit area, which builds the overlay.
//!
//! Model: the kernel's replay. The fast-commit area holds a sequence of tags: a head, and then, for
//! each fast commit, its changes and a tail. Valid fast commits contain the number of the
//! next transaction after the log. If the head contains another number, the fast commits are older
//! and are ignored. A fast commit is valid if its tail contains the number of that next
//! transaction and the correct checksum. The tags up to the last valid tail are applied in order.
//!
//! | block contents | before the first valid tail | after the first valid tail |
//! |---|---|---|
//! | no head at the start of the area | nothing to replay | |
//! | head with another transaction number | nothing to replay | end of the fast commits |
//! | head with a feature bit (none is defined) | error | error |
//! | tag that is unknown or has a wrong length | error | end of the fast commits |
//! | tail with another transaction number | error | end of the fast commits |
//! | tail with a wrong checksum | error | end of the fast commits |
//!
//! A tag of a valid commit may contain an invalid reference:
//!
//! | reference | treated as |
//! |---|---|
//! | logged or created inode with an invalid number | error |
//! | range of an inode with an invalid number | ignored |
//! | added or removed name whose directory or inode has an invalid number | ignored |
//! | range that is mapped to blocks outside the file system | applied; reading the range returns an error |
//!
//! Deliberate difference: when the kernel's replay adds or removes subdirectories, it does not
//! change the link count of their parent. Larder's replay changes the link count to the value that
//! e2fsck would set.
//!
//! Cost: the area is read twice. The memory is proportional to the size of the area.

use super::file::JournalFile;
use super::{Overlay, OverlayEntry};
use crate::error::{DamageAt, Place};
use crate::ondisk::Damage;
use crate::ondisk::checksum::Crc32c;
use crate::ondisk::fast_commit::{self, Entry, Tag};
use crate::ondisk::jbd2::{Features, JournalSuperblock, Tid};
use crate::{FileBlock, FileKind, FileTypeByte, Filesystem, Ino, MappingKind, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Reads the fast commits that follow the log. Returns their changes and their number. `tid` is the
/// number of the transaction that would follow the log. `fs` must be the file system after the
/// replay of the log.
pub(super) fn read(
    file: &JournalFile,
    journal: &JournalSuperblock,
    tid: Tid,
    fs: &Filesystem,
) -> Result<(Overlay, u32)> {
    let area = journal.fast_commit_blocks();
    if area.is_empty() && journal.features.contains(Features::FAST_COMMIT) {
        return Err(Place::Journal(0).corrupt("the journal has no blocks for fast commits"));
    }
    let mut scan = Scan {
        tid,
        checksum: NO_TAGS,
        tags: 0,
        good_tags: 0,
        commits: 0,
    };
    visit(file, area.clone(), |block, placed| {
        let verdict = scan.tag(&placed);
        verdict.at(Place::Journal(block))
    })?;
    let mut replay = Replay {
        fs,
        overlay: Overlay::default(),
        names: BTreeMap::new(),
        logged: BTreeSet::new(),
        place: Place::Journal(area.start),
    };
    let mut left = scan.good_tags;
    visit(file, area, |block, placed| {
        if left == 0 {
            return Ok(ControlFlow::Break(()));
        }
        left -= 1;
        replay.place = Place::Journal(block);
        if let Some(tag) = placed.tag {
            replay.apply(tag)?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((replay.finish(), scan.commits))
}

/// Calls `see` with each tag in the blocks of `area`, and with the block that contains the tag,
/// until `see` returns `Break`.
fn visit(
    file: &JournalFile,
    area: std::ops::Range<u32>,
    mut see: impl FnMut(u32, fast_commit::Placed<'_>) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let mut bytes = vec![0; file.block_size_bytes()];
    for block in area {
        file.read(block, &mut bytes)?;
        for placed in fast_commit::tags(&bytes) {
            if see(block, placed)?.is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The search for the last valid tail.
struct Scan {
    tid: Tid,
    checksum: Crc32c,
    tags: u64,
    /// The number of tags up to and including the last valid tail.
    good_tags: u64,
    /// The number of fast commits up to the last valid tail.
    commits: u32,
}

impl Scan {
    /// Examines one tag. Returns whether the search continues, or the corruption that was found.
    fn tag(
        &mut self,
        placed: &fast_commit::Placed<'_>,
    ) -> std::result::Result<ControlFlow<()>, Damage> {
        if self.tags == 0 && !placed.is_head() {
            return Ok(ControlFlow::Break(()));
        }
        self.tags += 1;
        self.checksum = self.checksum.bytes(placed.checked_bytes());
        let wrong = match placed.tag {
            Some(Tag::Head { features, .. }) if features != 0 => {
                return Err("fast commits have an unknown feature");
            }
            Some(Tag::Head { tid, .. }) if Tid(tid) != self.tid => {
                return Ok(ControlFlow::Break(()));
            }
            Some(Tag::Tail { tid, checksum }) => {
                if Tid(tid) == self.tid && Crc32c(checksum) == self.checksum {
                    self.good_tags = self.tags;
                    self.commits += 1;
                    self.checksum = NO_TAGS;
                    return Ok(ControlFlow::Continue(()));
                }
                "the first fast commit has a wrong checksum or transaction number"
            }
            Some(_) => return Ok(ControlFlow::Continue(())),
            None => "the first fast commit has a damaged tag",
        };
        if self.commits == 0 {
            return Err(wrong);
        }
        Ok(ControlFlow::Break(()))
    }
}

/// The initial checksum of a commit.
const NO_TAGS: Crc32c = Crc32c(0);

/// The replay of the tags, one by one.
struct Replay<'a> {
    fs: &'a Filesystem,
    overlay: Overlay,
    /// The number of names, for each inode that a tag has created, linked or unlinked, and for each logged
    /// inode that is not a directory.
    names: BTreeMap<Ino, u32>,
    /// The inodes logged by the current commit.
    logged: BTreeSet<Ino>,
    /// The current block of the journal.
    place: Place,
}

impl Replay<'_> {
    fn apply(&mut self, tag: Tag<'_>) -> Result<()> {
        match tag {
            Tag::Head { .. } | Tag::Pad => {}
            Tag::Tail { .. } => self.logged.clear(),
            Tag::Inode { ino, raw } => {
                self.check_ino(ino)?;
                let kept = raw.len().min(self.fs.superblock().inode_size_bytes.into());
                self.overlay.set_inode(ino, &raw[..kept]);
                self.logged.insert(ino);
                if !self.is_directory(ino) {
                    self.names.insert(ino, fast_commit::inode_links(raw).into());
                }
            }
            Tag::AddRange {
                ino,
                start,
                blocks,
                physical,
                unwritten,
            } => self.set_range(
                ino,
                start,
                blocks,
                MappingKind::mapped(physical, !unwritten),
            ),
            Tag::DelRange { ino, start, blocks } => {
                let blocks = blocks.min(u32::MAX - start.0);
                self.set_range(ino, start, blocks, MappingKind::Hole);
            }
            Tag::Create(entry) => {
                self.check_ino(entry.ino)?;
                self.overlay.set_created(entry.ino);
                self.names.insert(entry.ino, 0);
                self.link(entry);
                if self.is_directory(entry.ino) {
                    self.set_entry(entry.ino, b".", entry.ino);
                }
            }
            Tag::Link(entry) => self.link(entry),
            Tag::Unlink(entry) => self.unlink(entry),
        }
        Ok(())
    }

    fn set_range(&mut self, ino: Ino, start: FileBlock, blocks: u32, kind: MappingKind) {
        if self.has_ino(ino) {
            self.overlay.set_range(ino, start, blocks, kind);
        } else {
            self.warn_ignored(ino);
        }
    }

    fn link(&mut self, entry: Entry<'_>) {
        if !self.is_entry(entry) {
            return;
        }
        self.set_entry(entry.parent, entry.name, entry.ino);
        let names = self.names(entry.ino);
        *names = names.saturating_add(1);
        if self.is_directory(entry.ino) {
            self.set_entry(entry.ino, b"..", entry.parent);
            self.count_subdirectory(entry.parent, 1);
        }
    }

    fn unlink(&mut self, entry: Entry<'_>) {
        if !self.is_entry(entry) {
            return;
        }
        let refers_elsewhere = self
            .overlay
            .entry(entry.parent, entry.name)
            .flatten()
            .is_some_and(|now| now.ino != entry.ino);
        if refers_elsewhere {
            return;
        }
        self.overlay.set_entry(entry.parent, entry.name, None);
        if self.is_directory(entry.ino) {
            self.count_subdirectory(entry.parent, -1);
        }
        let names = self.names(entry.ino);
        *names = names.saturating_sub(1);
        if *names == 0 {
            self.overlay.set_deleted(entry.ino);
        }
    }

    /// Records that `more` subdirectories were added to `parent`, or removed if `more` is negative.
    /// Does nothing if the current commit logged the inode of `parent`, because the logged link
    /// count already includes the change.
    fn count_subdirectory(&mut self, parent: Ino, more: i32) {
        if !self.logged.contains(&parent) {
            self.overlay.add_subdirectories(parent, more);
        }
    }

    fn set_entry(&mut self, parent: Ino, name: &[u8], ino: Ino) {
        let file_type = 0;
        self.overlay
            .set_entry(parent, name, Some(OverlayEntry { ino, file_type }));
    }

    /// Returns the number of names of `ino`. A directory has at most one.
    fn names(&mut self, ino: Ino) -> &mut u32 {
        let (fs, overlay) = (self.fs, &self.overlay);
        self.names.entry(ino).or_insert_with(|| {
            let links = fs.inode(ino).map_or(0, |inode| inode.links());
            if is_directory(mode(fs, overlay, ino)) {
                links.min(1).into()
            } else {
                links.into()
            }
        })
    }

    fn is_directory(&self, ino: Ino) -> bool {
        is_directory(mode(self.fs, &self.overlay, ino))
    }

    /// Returns whether the entry can be part of a directory. Logs a warning if not.
    fn is_entry(&self, entry: Entry<'_>) -> bool {
        let is_name = !entry.name.iter().any(|byte| matches!(byte, 0 | b'/'));
        let is_entry = is_name && self.has_ino(entry.parent) && self.has_ino(entry.ino);
        if !is_entry {
            self.warn_ignored(entry.parent);
        }
        is_entry
    }

    fn has_ino(&self, ino: Ino) -> bool {
        self.fs.superblock().has_ino(ino)
    }

    fn check_ino(&self, ino: Ino) -> Result<()> {
        if self.has_ino(ino) {
            return Ok(());
        }
        Err(self
            .place
            .corrupt("fast commit refers to an inode that does not exist"))
    }

    fn warn_ignored(&self, ino: Ino) {
        tracing::warn!(place = %self.place, %ino, "ignored a change in a fast commit: invalid name or inode number");
    }

    /// Returns the overlay, after setting the file types of its names.
    fn finish(self) -> Overlay {
        let Self {
            fs, mut overlay, ..
        } = self;
        overlay.set_file_types(|overlay, ino| file_type(mode(fs, overlay, ino)));
        overlay
    }
}

/// Returns the mode of `ino`, or 0 if the inode cannot be read.
pub(super) fn mode(fs: &Filesystem, overlay: &Overlay, ino: Ino) -> u16 {
    overlay
        .mode(ino)
        .unwrap_or_else(|| fs.inode(ino).map_or(0, |inode| inode.mode()))
}

pub(super) fn is_directory(mode: u16) -> bool {
    FileKind::from_mode(mode) == Some(FileKind::Directory)
}

/// Returns the file type that a directory entry stores for `mode`, or 0 for an unknown mode.
fn file_type(mode: u16) -> u8 {
    FileKind::from_mode(mode)
        .map_or(FileTypeByte::UNKNOWN, FileTypeByte::of)
        .0
}
