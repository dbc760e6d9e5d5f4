//! The changes of fast commits, in memory: inodes, mappings and directory entries that take
//! precedence over the contents of the image. (The overlay file of `--overlay` is unrelated.)
//!
//! A fast commit logs changes to inodes and names (for example, "the name `a` in directory 2 refers
//! to inode 12"). Other commits log copies of blocks. In a read-only mount, these blocks are read
//! from the journal instead of from the file system. A fast commit has no such copies. The overlay
//! stores the changes of fast commits by inode and by directory. With write access, `super::apply` writes them to the
//! image. With read-only access, they stay in memory, and readers query the overlay:
//!
//! - after reading an on-disk inode: [`Overlay::patch_inode`];
//! - before mapping a file's blocks: [`Overlay::range`];
//! - before looking up a name: [`Overlay::entry`];
//! - while listing a directory: [`Overlay::entry`] for each name on the image, to omit names that
//!   were removed or replaced, and then [`Overlay::entries`].
//!
//! Model: the kernel's replay of fast commits, which writes these changes to the blocks of the image.
//! There are two deliberate differences. The overlay also changes the link counts of parent directories
//! (see [`super::fast_commit`]). It omits the changes of allocation bitmaps and free counts, which the
//! kernel's replay makes: readers of files do not need them, and `super::apply` updates them itself.
//!
//! Invariants: the ranges of an inode do not overlap. Each range is at least one block long and
//! does not contain block 2^32 - 1.
//!
//! Cost: the memory is proportional to the size of the fast-commit area.

use crate::ondisk::fast_commit;
use crate::{FileBlock, Ino, MappingKind};
use std::collections::{BTreeMap, BTreeSet};

/// The changes of all fast commits in the journal.
#[derive(Debug, Default)]
pub struct Overlay {
    inodes: BTreeMap<Ino, Box<[u8]>>,
    /// The inodes that were created or deleted. Everything that the image stores for these numbers
    /// is obsolete. The inodes without an entry in `inodes` were deleted.
    obsolete: BTreeSet<Ino>,
    ranges: BTreeMap<Ino, BTreeMap<u32, Range>>,
    entries: BTreeMap<Ino, BTreeMap<Box<[u8]>, Option<OverlayEntry>>>,
    /// For each directory, the number of subdirectories to add to the link count of its inode.
    subdirectories: BTreeMap<Ino, i32>,
}

/// The new target of a name that fast commits added or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverlayEntry {
    /// The inode that the name refers to.
    pub ino: Ino,
    /// The file type, as directory entries encode it on disk; 0 if unknown.
    pub file_type: u8,
}

/// A run of file blocks with a logged mapping. Its start is the key in the map.
#[derive(Clone, Copy, Debug)]
struct Range {
    blocks: u32,
    kind: MappingKind,
}

impl Overlay {
    /// Returns whether the overlay contains no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inodes.is_empty()
            && self.obsolete.is_empty()
            && self.ranges.is_empty()
            && self.entries.is_empty()
            && self.subdirectories.is_empty()
    }

    /// Applies the logged inode `ino` and the logged change of its link count to `raw`, the inode as it
    /// is in the inode table. Returns whether there was either. If so, the checksum in `raw` may no
    /// longer match. Logged mappings are not applied: see [`Overlay::range`].
    ///
    /// If fast commits created the inode, `raw` can contain arbitrary bytes before the call.
    pub fn patch_inode(&self, ino: Ino, raw: &mut [u8]) -> bool {
        let logged = self.inodes.get(&ino);
        if let Some(logged) = logged {
            fast_commit::patch_inode(raw, logged, self.obsolete.contains(&ino));
        }
        let more = self.subdirectories.get(&ino);
        if let Some(&more) = more {
            fast_commit::add_directory_links(raw, more);
        }
        logged.is_some() || more.is_some()
    }

    /// Returns the logged mapping of `ino` at `block`, or `None` if the mapping on the image is
    /// valid there. Also returns the number of blocks, starting at `block`, for which this result
    /// is valid: at most `max_blocks`, and at least one unless `max_blocks` is 0.
    #[must_use]
    pub fn range(&self, ino: Ino, block: FileBlock, max_blocks: u32) -> (Option<MappingKind>, u32) {
        let Some(ranges) = self.ranges.get(&ino) else {
            return (None, max_blocks);
        };
        if let Some((&start, range)) = ranges.range(..=block.0).next_back() {
            let skipped = block.0 - start;
            if skipped < range.blocks {
                let blocks = (range.blocks - skipped).min(max_blocks);
                return (Some(range.kind.skip(skipped)), blocks);
            }
        }
        let until_next = ranges
            .range(block.0..)
            .next()
            .map_or(u32::MAX, |(&start, _)| start - block.0);
        (None, until_next.min(max_blocks))
    }

    /// Returns the logged change of `name` in the directory `parent`: `None` if the name was not
    /// changed, `Some(None)` if the name was removed, or else the new target of the name.
    #[must_use]
    pub fn entry(&self, parent: Ino, name: &[u8]) -> Option<Option<OverlayEntry>> {
        self.entries.get(&parent)?.get(name).copied()
    }

    /// Returns the names in the directory `parent` that were added, or whose target was changed,
    /// sorted by name.
    pub fn entries(&self, parent: Ino) -> impl Iterator<Item = (&[u8], OverlayEntry)> {
        let names = self.logged_names(parent);
        names.filter_map(|(name, entry)| Some((name, entry?)))
    }

    /// Returns the logged mode of `ino`, or `None` if the inode was not logged.
    pub(super) fn mode(&self, ino: Ino) -> Option<u16> {
        Some(fast_commit::inode_mode(self.inodes.get(&ino)?))
    }

    /// Returns whether the inode `ino` was logged.
    pub(super) fn has_inode(&self, ino: Ino) -> bool {
        self.inodes.contains_key(&ino)
    }

    /// Returns the inodes that were deleted.
    pub(super) fn deleted(&self) -> impl Iterator<Item = Ino> {
        let obsolete = self.obsolete.iter().copied();
        obsolete.filter(|ino| !self.inodes.contains_key(ino))
    }

    /// Returns the inodes that were changed or created.
    pub(super) fn changed(&self) -> BTreeSet<Ino> {
        let inodes = self.inodes.keys().chain(self.ranges.keys());
        inodes.chain(self.subdirectories.keys()).copied().collect()
    }

    /// Returns whether `ino` was created or deleted. If so, everything that the image stores for
    /// this number is obsolete.
    pub(super) fn is_obsolete(&self, ino: Ino) -> bool {
        self.obsolete.contains(&ino)
    }

    /// Returns the logged mappings of `ino`: start, number of blocks, and kind of each run.
    pub(super) fn ranges(&self, ino: Ino) -> impl Iterator<Item = (FileBlock, u32, MappingKind)> {
        let ranges = self.ranges.get(&ino).into_iter().flatten();
        ranges.map(|(&start, range)| (FileBlock(start), range.blocks, range.kind))
    }

    /// Returns the directories in which names were added, changed or removed.
    pub(super) fn parents(&self) -> impl Iterator<Item = Ino> {
        self.entries.keys().copied()
    }

    /// Returns the logged names in the directory `parent`, each with its new target, or `None` if
    /// the name was removed.
    pub(super) fn logged_names(
        &self,
        parent: Ino,
    ) -> impl Iterator<Item = (&[u8], Option<OverlayEntry>)> {
        let names = self.entries.get(&parent).into_iter().flatten();
        names.map(|(name, entry)| (&**name, *entry))
    }

    /// Records that the inode `ino` was logged. `raw` holds the first bytes of the inode. The link
    /// count in `raw` already includes all earlier changes of subdirectories, so the entry of `ino`
    /// in `subdirectories` is removed.
    pub(super) fn set_inode(&mut self, ino: Ino, raw: &[u8]) {
        self.inodes.insert(ino, raw.into());
        self.subdirectories.remove(&ino);
    }

    /// Records that `ino` was created. Everything that the image stores for this number is then
    /// obsolete.
    pub(super) fn set_created(&mut self, ino: Ino) {
        self.obsolete.insert(ino);
    }

    /// Records that the inode `ino` was deleted, and removes its earlier changes.
    pub(super) fn set_deleted(&mut self, ino: Ino) {
        self.inodes.remove(&ino);
        self.ranges.remove(&ino);
        self.entries.remove(&ino);
        self.subdirectories.remove(&ino);
        self.obsolete.insert(ino);
    }

    /// Adds `more`, which may be negative, to the number of subdirectories of `ino`.
    pub(super) fn add_subdirectories(&mut self, ino: Ino, more: i32) {
        let count = self.subdirectories.entry(ino).or_default();
        *count = count.saturating_add(more);
    }

    /// Makes `name` in `parent` refer to `entry`, or removes the name if `entry` is `None`.
    pub(super) fn set_entry(&mut self, parent: Ino, name: &[u8], entry: Option<OverlayEntry>) {
        self.entries
            .entry(parent)
            .or_default()
            .insert(name.into(), entry);
    }

    /// Sets the file type of each name to `file_type(overlay, ino)`, where `ino` is the target of the name.
    /// During the calls, `overlay` contains no names.
    pub(super) fn set_file_types(&mut self, mut file_type: impl FnMut(&Self, Ino) -> u8) {
        let mut entries = std::mem::take(&mut self.entries);
        for entry in entries
            .values_mut()
            .flat_map(BTreeMap::values_mut)
            .flatten()
        {
            entry.file_type = file_type(self, entry.ino);
        }
        self.entries = entries;
    }

    /// Records that the `blocks` blocks of `ino` from `start` on are mapped as `kind`. Replaces
    /// earlier mappings of these blocks. Does nothing if `blocks` is 0, or if the blocks would include
    /// block 2^32 - 1.
    pub(super) fn set_range(&mut self, ino: Ino, start: FileBlock, blocks: u32, kind: MappingKind) {
        let start = start.0;
        let Some(end) = start.checked_add(blocks).filter(|end| *end > start) else {
            return;
        };
        let ranges = self.ranges.entry(ino).or_default();
        let overlapped: Vec<(u32, Range)> = ranges
            .range(..end)
            .rev()
            .map(|(&at, &range)| (at, range))
            .take_while(|(at, range)| at + range.blocks > start)
            .collect();
        for (at, range) in overlapped {
            ranges.remove(&at);
            if at < start {
                let blocks = start - at;
                ranges.insert(at, Range { blocks, ..range });
            }
            if at + range.blocks > end {
                let blocks = at + range.blocks - end;
                let kind = range.kind.skip(end - at);
                ranges.insert(end, Range { blocks, kind });
            }
        }
        ranges.insert(start, Range { blocks, kind });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FsBlock;
    use proptest::prelude::*;

    const INO: Ino = Ino(12);

    /// Returns the mapping of each single block.
    fn expanded(overlay: &Overlay, blocks: u32) -> Vec<Option<MappingKind>> {
        (0..blocks)
            .map(|block| overlay.range(INO, FileBlock(block), 1).0)
            .collect()
    }

    proptest! {
        #[test]
        fn ranges_set_in_any_order_match_blocks_set_one_by_one(
            edits in prop::collection::vec((0_u32..60, 0_u32..30, 0_u8..3), 0..30),
        ) {
            let mut overlay = Overlay::default();
            let mut model = vec![None; 100];
            for (number, (start, blocks, kind)) in (0_u64..).zip(edits) {
                let physical = FsBlock(1000 * number);
                let edit = match kind {
                    0 => MappingKind::Hole,
                    1 => MappingKind::Written(physical),
                    _ => MappingKind::Unwritten(physical),
                };
                overlay.set_range(INO, FileBlock(start), blocks, edit);
                for skipped in 0..blocks {
                    model[(start + skipped) as usize] = Some(edit.skip(skipped));
                }
            }
            prop_assert_eq!(expanded(&overlay, 100), model);
            // A run has the same mapping as its single blocks.
            let mut at = 0;
            while at < 100 {
                let (edit, blocks) = overlay.range(INO, FileBlock(at), 100 - at);
                prop_assert!(blocks > 0);
                for skipped in 0..blocks {
                    let single = overlay.range(INO, FileBlock(at + skipped), 1).0;
                    prop_assert_eq!(edit.map(|edit| edit.skip(skipped)), single);
                }
                at += blocks;
            }
        }
    }

    #[test]
    fn range_is_split_before_its_last_block() {
        let mut overlay = Overlay::default();
        let last = FileBlock(u32::MAX - 1);
        overlay.set_range(INO, FileBlock(0), u32::MAX, MappingKind::Hole);
        overlay.set_range(INO, last, 1, MappingKind::Written(FsBlock(5)));
        // Ignored, because it would include block 2^32 - 1.
        overlay.set_range(INO, last, 2, MappingKind::Hole);
        let written = (Some(MappingKind::Written(FsBlock(5))), 1);
        assert_eq!(overlay.range(INO, last, u32::MAX), written);
        let before = overlay.range(INO, FileBlock(1), u32::MAX);
        assert_eq!(before, (Some(MappingKind::Hole), u32::MAX - 2));
        let past_end = overlay.range(INO, FileBlock(u32::MAX), 1);
        assert_eq!(past_end, (None, 1));
    }

    #[test]
    fn removed_entry_differs_from_unknown_entry() {
        let mut overlay = Overlay::default();
        let entry = OverlayEntry {
            ino: INO,
            file_type: 1,
        };
        overlay.set_entry(Ino::ROOT, b"new", Some(entry));
        overlay.set_entry(Ino::ROOT, b"removed", None);
        assert_eq!(overlay.entry(Ino::ROOT, b"new"), Some(Some(entry)));
        assert_eq!(overlay.entry(Ino::ROOT, b"removed"), Some(None));
        assert_eq!(overlay.entry(Ino::ROOT, b"other"), None);
        let names: Vec<_> = overlay.entries(Ino::ROOT).map(|(name, _)| name).collect();
        assert_eq!(names, [b"new"]);
    }

    #[test]
    fn deleted_inode_has_no_logged_changes() {
        let mut overlay = Overlay::default();
        overlay.set_inode(INO, &[1; 128]);
        overlay.set_range(INO, FileBlock(0), 5, MappingKind::Hole);
        overlay.set_deleted(INO);
        assert_eq!(overlay.mode(INO), None);
        assert_eq!(overlay.range(INO, FileBlock(0), 9), (None, 9));
        assert!(!overlay.patch_inode(INO, &mut [0; 128]));
    }
}
