//! Orphans: files without names that are still in use, and files that are being truncated.
//!
//! # Model
//! `ext4_orphan_add` and `ext4_orphan_del`. With the feature `orphan_file`, the inode numbers of
//! the orphans are stored in a hidden file. While the image is open for writing, the superblock
//! records that this file may contain orphans. Without the feature, or if the file is full, the
//! orphans form a list. The superblock contains the number of the first orphan. Each orphan
//! contains the number of the next orphan instead of its time of deletion.
//!
//! # State
//! All orphans are also cached in memory, so that no change searches the list or the file. If a
//! handle is undone, its changes of this cache are undone too.
//!
//! # Locking
//! A change takes the lock of the cache while its handle is open, and holds the lock only for the
//! duration of the change.

use super::known_orphans::{Known, Neighbours, OrphanChange, Slot};
use crate::error::{DamageAt, Place};
use crate::journal::Handle;
use crate::ondisk::checksum::Crc32c;
use crate::ondisk::features::Compat;
use crate::ondisk::fields::le32;
use crate::ondisk::{inode as raw, orphan_file};
use crate::{FileBlock, Filesystem, Ino, Inode, MappingKind, Result};

/// The maximum number of blocks of an orphan file. e2fsprogs does not create larger orphan files.
const MAX_FILE_BLOCKS: u64 = 512;

impl Filesystem {
    /// Adds `inode` to the orphan file or list. After a crash, the next mount then deletes the file
    /// if it has no links, and otherwise truncates it to the size in the inode. Does nothing if
    /// `inode` is already an orphan. The caller must write the inode with the same handle.
    pub fn add_orphan(&self, handle: &mut Handle<'_>, inode: &mut Inode) -> Result<()> {
        self.with_orphans(|known| {
            let ino = inode.ino();
            if known.file.contains_key(&ino) || known.list.contains_key(&ino) {
                return Ok(());
            }
            let change = if let Some(slot) = known.free_slots.first().copied() {
                self.set_orphan_slot(handle, known.file_seed, slot, Some(ino))?;
                OrphanChange::AddedToFile(slot)
            } else {
                self.add_to_orphan_list(handle, known.head, ino)?;
                OrphanChange::AddedToList
            };
            known.apply(&mut handle.orphans, change, ino);
            Ok(())
        })
    }

    /// Removes `inode` from the orphan file or list. Does nothing if `inode` is not an orphan.
    pub fn remove_orphan(&self, handle: &mut Handle<'_>, inode: &mut Inode) -> Result<()> {
        self.with_orphans(|known| {
            let ino = inode.ino();
            let change = if let Some(&slot) = known.file.get(&ino) {
                self.set_orphan_slot(handle, known.file_seed, slot, None)?;
                OrphanChange::RemovedFromFile(slot)
            } else if let Some(&at) = known.list.get(&ino) {
                self.remove_from_orphan_list(handle, ino, at)?;
                OrphanChange::RemovedFromList(at)
            } else {
                return Ok(());
            };
            known.apply(&mut handle.orphans, change, ino);
            Ok(())
        })
    }

    /// Returns the orphans of the image, whose deletion or truncation the mount must finish.
    pub fn orphans(&self) -> Result<Vec<Ino>> {
        self.with_orphans(|known| Ok(known.all()))
    }

    /// Returns whether there is an orphan file.
    pub(crate) fn has_orphan_file(&self) -> bool {
        let sb = self.superblock();
        sb.compat.contains(Compat::ORPHAN_FILE) && sb.orphan_file_ino != Ino(0)
    }

    /// Returns whether the orphan file has no orphans.
    pub(crate) fn is_orphan_file_empty(&self) -> Result<bool> {
        self.with_orphans(|known| Ok(known.file.is_empty()))
    }

    fn with_orphans<R>(&self, change: impl FnOnce(&mut Known) -> Result<R>) -> Result<R> {
        let mut known = self.orphans.known.lock();
        if let Some(known) = known.as_mut() {
            return change(known);
        }
        change(known.insert(self.read_orphans()?))
    }

    /// Reads the orphan list and the orphan file.
    fn read_orphans(&self) -> Result<Known> {
        let mut known = Known {
            head: self.first_orphan()?,
            ..Known::default()
        };
        let mut previous = None;
        let mut next = known.head;
        while let Some(ino) = next {
            self.check_orphan(ino, Place::Superblock)?;
            if known.list.contains_key(&ino) {
                return Err(Place::Inode(ino).corrupt("orphan list contains a cycle"));
            }
            next = Ino::stored(raw::dtime(&self.inode_bytes(ino)?));
            known.list.insert(ino, Neighbours { previous, next });
            previous = Some(ino);
        }
        self.read_orphan_file(&mut known)?;
        Ok(known)
    }

    fn read_orphan_file(&self, known: &mut Known) -> Result<()> {
        if !self.has_orphan_file() {
            return Ok(());
        }
        let sb = self.superblock();
        let file = self.inode(sb.orphan_file_ino)?;
        let place = file.place();
        let seed = self.inode_seed(&file);
        known.file_seed = seed;
        let blocks = file.size_bytes() >> sb.block_size_log2;
        place.ensure(blocks <= MAX_FILE_BLOCKS, "orphan file is too large")?;
        for number in 0..u32::try_from(blocks).unwrap_or(0) {
            let MappingKind::Written(at) = self.map(&file, FileBlock(number), 1)?.kind else {
                return Err(place.corrupt("orphan file has a hole"));
            };
            let place = Place::Block(at, file.ino());
            let block = self.metadata_block(at, file.ino(), |bytes| {
                orphan_file::check(bytes, at, seed).at(place)
            })?;
            for (index, ino) in orphan_file::slots(&block).enumerate() {
                let slot = Slot { block: at, index };
                let Some(ino) = ino else {
                    known.free_slots.insert(slot);
                    continue;
                };
                self.check_orphan(ino, place)?;
                if known.list.contains_key(&ino) || known.file.insert(ino, slot).is_some() {
                    return Err(place.corrupt("orphan is listed twice"));
                }
            }
        }
        Ok(())
    }

    /// Returns the first orphan of the list, from the superblock in the buffer cache, which
    /// contains the changes of handles.
    fn first_orphan(&self) -> Result<Option<Ino>> {
        const LAST_ORPHAN_AT: usize = 0xE8;
        let (block, start) = self.superblock_place();
        let block = self.metadata_block_unchecked(block, Ino(0))?;
        Ok(le32(&block, start + LAST_ORPHAN_AT).and_then(Ino::stored))
    }

    /// Returns an error if `ino` cannot be the number of an orphan.
    fn check_orphan(&self, ino: Ino, place: Place) -> Result<()> {
        let is_file = self.superblock().is_file_ino(ino);
        place.ensure(is_file, "orphan has an invalid or reserved inode number")
    }

    fn set_orphan_slot(
        &self,
        handle: &mut Handle<'_>,
        seed: Option<Crc32c>,
        slot: Slot,
        ino: Option<Ino>,
    ) -> Result<()> {
        let file = self.superblock().orphan_file_ino;
        handle.update(slot.block, file, |block| {
            orphan_file::set_slot(block, slot.index, ino);
            if let Some(seed) = seed {
                orphan_file::set_checksum(block, slot.block, seed);
            }
            Ok(())
        })
    }

    /// Inserts `ino` before `head` into the list on the image.
    fn add_to_orphan_list(
        &self,
        handle: &mut Handle<'_>,
        head: Option<Ino>,
        ino: Ino,
    ) -> Result<()> {
        self.set_next_orphan(handle, ino, head)?;
        self.update_superblock(handle, |superblock| superblock.set_last_orphan(Some(ino)))
    }

    /// Removes `ino` from between its neighbors in the list on the image.
    fn remove_from_orphan_list(
        &self,
        handle: &mut Handle<'_>,
        ino: Ino,
        Neighbours { previous, next }: Neighbours,
    ) -> Result<()> {
        match previous {
            Some(previous) => self.set_next_orphan(handle, previous, next)?,
            None => self.update_superblock(handle, |superblock| {
                superblock.set_last_orphan(next);
            })?,
        }
        self.set_next_orphan(handle, ino, None)
    }

    /// Makes `next` follow `ino` in the list. If the checksum of the inode `ino` is wrong, it is
    /// not updated, so that the damage can still be detected.
    fn set_next_orphan(&self, handle: &mut Handle<'_>, ino: Ino, next: Option<Ino>) -> Result<()> {
        self.edit_inode(handle, ino, |fs, bytes| {
            let sb = fs.superblock();
            let seed = sb
                .inode_checksum_seed(ino, raw::generation(bytes))
                .filter(|seed| raw::checksum_is_right(bytes, raw::extra_isize(bytes), *seed));
            raw::set_dtime(bytes, next.map_or(0, |next| next.0));
            if let Some(seed) = seed {
                raw::set_checksum(bytes, seed);
            }
        })
    }
}
