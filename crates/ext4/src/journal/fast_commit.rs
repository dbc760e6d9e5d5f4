//! The walk over the fast-commit area, which makes the overlay.
//!
//! Model: the kernel's replay. Fast commits follow the last full transaction of
//! the log and say so by its successor's number; those of an earlier time say
//! another and are void. A commit counts if its tail is there with the right
//! number and checksum; the walk ends at the first that does not, so that what
//! holds is the beginning of the area up to the last good tail. The tags up to
//! there are then applied in order.
//!
//! Deliberate difference: the kernel leaves the link counts of directories as
//! they were before subdirectories came or went; here they follow, as e2fsck
//! would set them.
//!
//! Cost: the area is read twice; memory in proportion to it.

use super::file::JournalFile;
use super::{Overlay, OverlayEntry, RangeEdit};
use crate::error::Place;
use crate::ondisk::checksum::Crc32c;
use crate::ondisk::fast_commit::{self, Entry, Tag};
use crate::ondisk::jbd2::{JournalSuperblock, Tid};
use crate::{Error, Filesystem, Ino, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

const S_IFMT: u16 = 0o170_000;
const S_IFDIR: u16 = 0o040_000;

/// Reads the fast commits that follow the log, whose next transaction would be
/// `tid`; answers what they changed and how many they are. `fs` must be the file
/// system as the log left it.
pub(super) fn read(
    file: &JournalFile,
    journal: &JournalSuperblock,
    tid: Tid,
    fs: &Filesystem,
) -> Result<(Overlay, u32)> {
    let area = journal.fast_commit_blocks();
    let mut scan = Scan::new(tid);
    visit(file, area.clone(), |_, placed| Ok(scan.tag(&placed)))?;
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

/// Shows `see` the tags of the blocks of `area` and where they are, until it
/// breaks.
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

/// The search for the last good tail.
struct Scan {
    tid: Tid,
    checksum: Crc32c,
    tags: u64,
    /// Tags up to and with the last good tail.
    good_tags: u64,
    /// Commits up to there.
    commits: u32,
}

impl Scan {
    fn new(tid: Tid) -> Self {
        Self {
            tid,
            checksum: NO_TAGS,
            tags: 0,
            good_tags: 0,
            commits: 0,
        }
    }

    fn tag(&mut self, placed: &fast_commit::Placed<'_>) -> ControlFlow<()> {
        self.tags += 1;
        self.checksum = self.checksum.bytes(placed.checked_bytes());
        let is_good = match placed.tag {
            Some(Tag::Head { features, tid }) => features == 0 && Tid(tid) == self.tid,
            Some(Tag::Tail { tid, checksum }) => {
                let is_good = Tid(tid) == self.tid && Crc32c(checksum) == self.checksum;
                if is_good {
                    self.good_tags = self.tags;
                    self.commits += 1;
                    self.checksum = NO_TAGS;
                }
                is_good
            }
            Some(_) => true,
            None => false,
        };
        let has_head = self.tags > 1 || matches!(placed.tag, Some(Tag::Head { .. }));
        if is_good && has_head {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }
}

/// The checksum that a commit starts from.
const NO_TAGS: Crc32c = Crc32c(0);

/// The application of tags, one by one.
struct Replay<'a> {
    fs: &'a Filesystem,
    overlay: Overlay,
    /// How many names lead to an inode, as far as it concerned a tag.
    names: BTreeMap<Ino, u32>,
    /// The inodes logged by the commit at hand.
    logged: BTreeSet<Ino>,
    /// The block of the journal at hand.
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
            } => {
                self.check_ino(ino)?;
                let sb = self.fs.superblock();
                if !sb.contains_blocks(physical, blocks.into()) {
                    return Err(self.corrupt("fast commit adds blocks outside the file system"));
                }
                let edit = if unwritten {
                    RangeEdit::Unwritten(physical)
                } else {
                    RangeEdit::Written(physical)
                };
                self.overlay.set_range(ino, start, blocks, edit);
            }
            Tag::DelRange { ino, start, blocks } => {
                self.check_ino(ino)?;
                let blocks = blocks.min(u32::MAX - start.0);
                self.overlay
                    .set_range(ino, start, blocks, RangeEdit::Removed);
            }
            Tag::Create(entry) => {
                self.overlay.set_fresh(entry.ino);
                self.names.insert(entry.ino, 0);
                self.link(entry)?;
                if self.is_directory(entry.ino) {
                    self.set_entry(entry.ino, b".", entry.ino);
                }
            }
            Tag::Link(entry) => self.link(entry)?,
            Tag::Unlink(entry) => self.unlink(entry)?,
        }
        Ok(())
    }

    fn link(&mut self, entry: Entry<'_>) -> Result<()> {
        self.check_entry(entry)?;
        self.set_entry(entry.parent, entry.name, entry.ino);
        let names = self.names(entry.ino);
        *names = names.saturating_add(1);
        if self.is_directory(entry.ino) {
            self.set_entry(entry.ino, b"..", entry.parent);
            self.count_subdirectory(entry.parent, 1);
        }
        Ok(())
    }

    fn unlink(&mut self, entry: Entry<'_>) -> Result<()> {
        self.check_entry(entry)?;
        let leads_elsewhere = self
            .overlay
            .entry(entry.parent, entry.name)
            .flatten()
            .is_some_and(|now| now.ino != entry.ino);
        if leads_elsewhere {
            return Ok(());
        }
        self.overlay.set_entry(entry.parent, entry.name, None);
        if self.is_directory(entry.ino) {
            self.count_subdirectory(entry.parent, -1);
        }
        let names = self.names(entry.ino);
        *names = names.saturating_sub(1);
        if *names == 0 {
            self.overlay.forget(entry.ino);
        }
        Ok(())
    }

    /// Takes note of a subdirectory more or less, unless the parent was logged
    /// by the same commit: then the logged link count has it already.
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

    /// The number of names that lead to `ino`: a directory has but one.
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

    fn check_entry(&self, entry: Entry<'_>) -> Result<()> {
        self.check_ino(entry.parent)?;
        self.check_ino(entry.ino)
    }

    fn check_ino(&self, ino: Ino) -> Result<()> {
        if ino.0 == 0 || ino.0 > self.fs.superblock().inodes_count {
            return Err(self.corrupt("fast commit names an inode that does not exist"));
        }
        Ok(())
    }

    fn corrupt(&self, what: &'static str) -> Error {
        Error::corrupt(self.place, what)
    }

    /// The overlay, with the file types of its names.
    fn finish(self) -> Overlay {
        let Self {
            fs, mut overlay, ..
        } = self;
        overlay.set_file_types(|overlay, ino| file_type(mode(fs, overlay, ino)));
        overlay
    }
}

/// The mode of `ino`; 0 if it cannot be found out.
fn mode(fs: &Filesystem, overlay: &Overlay, ino: Ino) -> u16 {
    overlay
        .mode(ino)
        .unwrap_or_else(|| fs.inode(ino).map_or(0, |inode| inode.mode()))
}

fn is_directory(mode: u16) -> bool {
    mode & S_IFMT == S_IFDIR
}

/// The file type of directory entries for a mode; 0 for none that is known.
fn file_type(mode: u16) -> u8 {
    match mode >> 12 {
        0o10 => 1,
        0o4 => 2,
        0o2 => 3,
        0o6 => 4,
        0o1 => 5,
        0o14 => 6,
        0o12 => 7,
        _ => 0,
    }
}
