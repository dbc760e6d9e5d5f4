//! Directories: a name to its inode, and listings.
//!
//! Model: the kernel's `ext4_lookup` and `ext4_readdir`. A name is looked up
//! through the hash tree where there is one ([`crate::htree`]) and block by block
//! otherwise. A listing always goes through the blocks in their order, also of
//! an indexed directory (the kernel goes by hash there): the nodes of the tree
//! look like free space, and the inodes of files that were made one after the
//! other are then asked for one after the other.
//!
//! Damage: a block that is damaged costs its own entries only. A lookup that
//! finds the name elsewhere does not fail; a listing emits what can be read and
//! fails at its end, naming the first damaged block.
//!
//! Cookies: where the next entry starts in the directory, in bytes. Two bits
//! above any such position say more: [`COOKIE_OVERLAY`] that the rest is the
//! number of an entry of the fast commits' overlay, [`COOKIE_DAMAGE`] that there
//! was damage before, so that a listing in many calls does not forget it.

use crate::error::Place;
use crate::htree::Indexed;
use crate::ondisk::checksum::Crc32c;
use crate::ondisk::dir::{Dirent, Dirents, FileTypeByte, split_tail};
use crate::ondisk::dx::{DxNode, DxShape};
use crate::ondisk::features::Incompat;
use crate::ondisk::inode::InodeFlags;
use crate::{Error, FileBlock, Filesystem, FsBlock, Ino, Inode, MappingKind, Result};
use larder_cache::buffer::Buffer;
use std::ops::ControlFlow;

/// In a cookie: the rest counts the overlay's entries.
const COOKIE_OVERLAY: u64 = 1 << 61;
/// In a cookie: a block before was damaged.
const COOKIE_DAMAGE: u64 = 1 << 62;
/// The longest name.
const MAX_NAME_BYTES: usize = 255;
/// Blocks of a directory that are read ahead together, at first and at most.
const FIRST_READAHEAD_BLOCKS: u32 = 4;
const MAX_READAHEAD_BLOCKS: u32 = 64;

/// An entry of a directory, as a listing shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// The name: no slash, no zero byte, not empty.
    pub name: &'a [u8],
    /// The inode that it leads to.
    pub ino: Ino,
    /// The file's type, if the entry has it.
    pub file_type: FileTypeByte,
    /// Continues a listing behind this entry. Less than 2^63.
    pub next_cookie: u64,
}

/// What a name leads to.
pub(crate) type Target = (Ino, FileTypeByte);

impl Filesystem {
    /// What `name` leads to in the directory `dir`; `None` if it is not there.
    ///
    /// # Errors
    /// [`Error::NotDirectory`]; [`Error::Encrypted`] and [`Error::Casefolded`]
    /// where names cannot be compared; [`Error::Corrupt`] if a damaged block
    /// could have held the name; the device's error.
    pub fn lookup(&self, dir: &Inode, name: &[u8]) -> Result<Option<(Ino, FileTypeByte)>> {
        self.check_directory(dir)?;
        let is_dots = matches!(name, b"." | b"..");
        if !is_dots {
            self.check_names(dir)?;
            if dir.flags().contains(InodeFlags::CASEFOLD)
                && self.superblock().incompat.contains(Incompat::CASEFOLD)
            {
                return Err(Error::Casefolded(dir.ino()));
            }
        }
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return Ok(None);
        }
        if let Some(changed) = self.overlay().and_then(|o| o.entry(dir.ino(), name)) {
            return Ok(changed.map(|entry| (entry.ino, self.file_type(entry.file_type))));
        }
        if dir.has_inline_data() {
            return self.lookup_inline(dir, name);
        }
        if !is_dots
            && self.is_indexed(dir)
            && let Indexed::Answer(found) = self.lookup_indexed(dir, name)?
        {
            return Ok(found);
        }
        self.lookup_linear(dir, name)
    }

    /// Emits the entries of `dir` from `cookie` on (0: from the start), until
    /// there are no more or `emit` breaks.
    ///
    /// # Errors
    /// As [`Filesystem::lookup`], but ignoring case is no obstacle. An error of a
    /// block comes at the end, after all entries that can be read; who calls
    /// again with the cookie of the last entry gets it again.
    pub fn read_dir(
        &self,
        dir: &Inode,
        cookie: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.check_directory(dir)?;
        self.check_names(dir)?;
        let mut listing = Listing {
            fs: self,
            dir: dir.ino(),
            emit,
            damage: None,
            had_damage: cookie & COOKIE_DAMAGE != 0,
        };
        let at = cookie & !COOKIE_DAMAGE;
        let flow = if at & COOKIE_OVERLAY != 0 {
            listing.offer_overlay(at & !COOKIE_OVERLAY)
        } else {
            let flow = if dir.has_inline_data() {
                self.list_inline(dir, at, &mut listing)?
            } else {
                self.list_blocks(dir, at, &mut listing)?
            };
            match flow {
                ControlFlow::Continue(()) => listing.offer_overlay(0),
                broken => broken,
            }
        };
        match (flow, listing.damage) {
            (ControlFlow::Break(()), _) => Ok(()),
            (ControlFlow::Continue(()), Some(error)) => Err(error),
            // Damage was in an earlier call: find it again.
            (ControlFlow::Continue(()), None) if cookie & COOKIE_DAMAGE != 0 => {
                self.read_dir(dir, 0, &mut |_| ControlFlow::Continue(()))
            }
            (ControlFlow::Continue(()), None) => Ok(()),
        }
    }

    fn check_directory(&self, dir: &Inode) -> Result<()> {
        if !dir.is_directory() {
            return Err(Error::NotDirectory(dir.ino()));
        }
        // Directories grow by whole blocks; only damage makes one larger than
        // everything. This bounds every walk over a directory.
        if dir.size_bytes() > self.superblock().size_bytes() {
            let place = Place::Inode(dir.ino());
            return Err(Error::corrupt(
                place,
                "directory is larger than the file system",
            ));
        }
        Ok(())
    }

    /// Whether the names of `dir` are there to be read.
    fn check_names(&self, dir: &Inode) -> Result<()> {
        let is_encrypted = dir.flags().contains(InodeFlags::ENCRYPT)
            && self.superblock().incompat.contains(Incompat::ENCRYPT);
        if is_encrypted {
            return Err(Error::Encrypted(dir.ino()));
        }
        Ok(())
    }

    /// The type byte of an entry: unknown if entries have none.
    fn file_type(&self, byte: u8) -> FileTypeByte {
        if self.superblock().incompat.contains(Incompat::FILETYPE) {
            FileTypeByte(byte)
        } else {
            FileTypeByte::UNKNOWN
        }
    }

    fn lookup_linear(&self, dir: &Inode, name: &[u8]) -> Result<Option<Target>> {
        let mut damage = None;
        let mut blocks = DirBlocks::new(self, *dir, 0);
        while let Some((_, block)) = blocks.next() {
            let searched = block.and_then(|(fs_block, block)| {
                self.search_block(&block, name, Place::Block(fs_block, dir.ino()))
            });
            match searched {
                Ok(None) => {}
                Ok(found) => return Ok(found),
                Err(error) => {
                    damage.get_or_insert(error);
                }
            }
        }
        damage.map_or(Ok(None), Err)
    }

    /// Searches the entries of one block, which is at `place`, for `name`.
    pub(crate) fn search_block(
        &self,
        block: &[u8],
        name: &[u8],
        place: Place,
    ) -> Result<Option<Target>> {
        for dirent in Dirents::new(block) {
            let dirent = dirent.map_err(|what| Error::corrupt(place, what))?;
            if dirent.name == name {
                return self.target(&dirent, place).map(Some);
            }
        }
        Ok(None)
    }

    /// What `dirent`, found at `place`, leads to.
    fn target(&self, dirent: &Dirent<'_>, place: Place) -> Result<Target> {
        if dirent.ino.0 > self.superblock().inodes_count {
            return Err(Error::corrupt(place, "entry leads to no inode"));
        }
        Ok((dirent.ino, self.file_type(dirent.file_type)))
    }

    fn list_blocks(
        &self,
        dir: &Inode,
        at: u64,
        listing: &mut Listing<'_>,
    ) -> Result<ControlFlow<()>> {
        let block_size_bytes = u64::from(self.superblock().block_size_bytes());
        let mut blocks = DirBlocks::new(self, *dir, at / block_size_bytes);
        while let Some((index, block)) = blocks.next() {
            let start = index * block_size_bytes;
            match block {
                Ok((fs_block, block)) => {
                    let place = Place::Block(fs_block, dir.ino());
                    let flow = listing.offer_part(&block, start, at, place);
                    if flow.is_break() {
                        return Ok(flow);
                    }
                }
                Err(error) => listing.note_damage(error),
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The block `index` of the directory `dir`; `None` if it is a hole.
    pub(crate) fn dir_block(
        &self,
        dir: &Inode,
        index: u32,
        verify: impl FnOnce(&[u8], Place) -> Result<()>,
    ) -> Result<Option<(FsBlock, Buffer<'_>)>> {
        match self.map(dir, FileBlock(index), 1)?.kind {
            MappingKind::Written(block) => {
                let place = Place::Block(block, dir.ino());
                let buffer = self.metadata_block(block, dir.ino(), |bytes| verify(bytes, place))?;
                Ok(Some((block, buffer)))
            }
            MappingKind::Hole | MappingKind::Unwritten(_) => Ok(None),
        }
    }

    /// Checks the checksum of a block of `dir`, which may be a node of its hash tree.
    pub(crate) fn verify_dir_block(&self, dir: &Inode, block: &[u8], place: Place) -> Result<()> {
        let sb = self.superblock();
        if !sb.has_metadata_checksums() {
            return Ok(());
        }
        let node = match DxShape::of(block) {
            DxShape::Root => DxNode::root(block, true),
            DxShape::Node => DxNode::node(block, true),
            DxShape::Leaf => {
                let Some((covered, checksum)) = split_tail(block) else {
                    return Err(Error::corrupt(place, "directory block has no checksum"));
                };
                let seed = sb.inode_checksum_seed(dir.ino(), dir.generation());
                return check(seed.bytes(covered), checksum, place);
            }
        };
        let node = node.map_err(|what| Error::corrupt(place, what))?;
        self.verify_dx_node(dir, &node, place)
    }

    /// Checks the checksum and the order of a node of `dir`'s hash tree.
    pub(crate) fn verify_dx_node(
        &self,
        dir: &Inode,
        node: &DxNode<'_>,
        place: Place,
    ) -> Result<()> {
        let sb = self.superblock();
        if sb.has_metadata_checksums() {
            let Some(parts) = node.checksum() else {
                return Err(Error::corrupt(
                    place,
                    "node of the hash tree has no checksum",
                ));
            };
            let seed = sb.inode_checksum_seed(dir.ino(), dir.generation());
            let computed = seed.bytes(parts.head).bytes(parts.tail).u32(0);
            check(computed, parts.checksum, place)?;
        }
        if !node.is_sorted() {
            return Err(Error::corrupt(
                place,
                "hashes of the hash tree are out of order",
            ));
        }
        Ok(())
    }
}

fn check(computed: Crc32c, stored: u32, place: Place) -> Result<()> {
    if computed.0 == stored {
        Ok(())
    } else {
        Err(Error::corrupt(
            place,
            "checksum of the directory block is wrong",
        ))
    }
}

/// A listing under way: filters entries and remembers damage.
pub(crate) struct Listing<'l> {
    fs: &'l Filesystem,
    dir: Ino,
    emit: &'l mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    damage: Option<Error>,
    had_damage: bool,
}

impl Listing<'_> {
    /// Keeps the first error of the listing.
    pub(crate) fn note_damage(&mut self, error: Error) {
        self.damage.get_or_insert(error);
        self.had_damage = true;
    }

    /// Offers one entry that the file system itself has. `next` is the position
    /// behind it.
    pub(crate) fn offer(&mut self, name: &[u8], target: Target, next: u64) -> ControlFlow<()> {
        let overlay = self.fs.overlay();
        if overlay.is_some_and(|overlay| overlay.entry(self.dir, name).is_some()) {
            return ControlFlow::Continue(());
        }
        self.emit(name, target, next)
    }

    fn emit(&mut self, name: &[u8], target: Target, next: u64) -> ControlFlow<()> {
        let damage = if self.had_damage { COOKIE_DAMAGE } else { 0 };
        (self.emit)(DirEntry {
            name,
            ino: target.0,
            file_type: target.1,
            next_cookie: next | damage,
        })
    }

    /// Offers those entries of `bytes`, which lie at position `start` of the
    /// directory and at `place` of the image, that are at or behind position `at`.
    pub(crate) fn offer_part(
        &mut self,
        bytes: &[u8],
        start: u64,
        at: u64,
        place: Place,
    ) -> ControlFlow<()> {
        for dirent in Dirents::new(bytes) {
            let dirent = match dirent {
                Ok(dirent) if !dirent.has_legal_name() => {
                    self.note_damage(Error::corrupt(
                        place,
                        "name contains a slash or a zero byte",
                    ));
                    continue;
                }
                Ok(dirent) => dirent,
                Err(what) => {
                    self.note_damage(Error::corrupt(place, what));
                    break;
                }
            };
            if start + dirent.offset as u64 >= at {
                match self.fs.target(&dirent, place) {
                    Ok(target) => {
                        self.offer(dirent.name, target, start + dirent.end as u64)?;
                    }
                    Err(error) => self.note_damage(error),
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Offers the entries that fast commits added, from number `first` on.
    fn offer_overlay(&mut self, first: u64) -> ControlFlow<()> {
        let (fs, dir) = (self.fs, self.dir);
        let entries = fs.overlay().into_iter().flat_map(|o| o.entries(dir));
        for (number, (name, entry)) in (0_u64..).zip(entries) {
            if number >= first {
                let target = (entry.ino, fs.file_type(entry.file_type));
                self.emit(name, target, COOKIE_OVERLAY | (number + 1))?;
            }
        }
        ControlFlow::Continue(())
    }
}

/// The blocks of a directory in their order, without its holes, read ahead.
///
/// Ends after an error of the mapping, which says nothing of what follows; goes
/// on after an error of a block.
struct DirBlocks<'f> {
    fs: &'f Filesystem,
    dir: Inode,
    next: u64,
    end: u64,
    /// What is known of the mapping: blocks of the directory from `next` on, and
    /// where they lie.
    run: Option<(u32, FsBlock)>,
    /// Blocks from `next` on that were read ahead, and how many to ask for next.
    ahead: u32,
    ahead_window: u32,
}

impl<'f> DirBlocks<'f> {
    fn new(fs: &'f Filesystem, dir: Inode, first: u64) -> Self {
        let block_size_bytes = u64::from(fs.superblock().block_size_bytes());
        Self {
            fs,
            dir,
            next: first,
            end: dir.size_bytes().div_ceil(block_size_bytes),
            run: None,
            ahead: 0,
            ahead_window: FIRST_READAHEAD_BLOCKS,
        }
    }

    /// Moves to the next block that is no hole, if there is one.
    fn find_run(&mut self) -> Result<Option<(u32, FsBlock)>> {
        while self.next < self.end {
            if let Some(run) = self.run {
                return Ok(Some(run));
            }
            let Ok(start) = u32::try_from(self.next) else {
                break;
            };
            let left = u32::try_from(self.end - self.next).unwrap_or(u32::MAX);
            let mapping = self.fs.map(&self.dir, FileBlock(start), left)?;
            match mapping.kind {
                MappingKind::Written(block) => {
                    self.run = Some((mapping.blocks, block));
                    self.ahead = 0;
                }
                MappingKind::Hole | MappingKind::Unwritten(_) => {
                    self.next += u64::from(mapping.blocks.max(1));
                }
            }
        }
        Ok(None)
    }

    /// The next block: its number in the directory, and where it lies and what it holds.
    #[expect(clippy::type_complexity, reason = "a name would say no more")]
    fn next(&mut self) -> Option<(u64, Result<(FsBlock, Buffer<'f>)>)> {
        let index = self.next;
        let (blocks, block) = match self.find_run() {
            Ok(Some(run)) => run,
            Ok(None) => return None,
            Err(error) => {
                self.next = self.end;
                return Some((index, Err(error)));
            }
        };
        let index = self.next;
        if self.ahead == 0 {
            self.ahead = blocks.min(self.ahead_window);
            self.ahead_window = (self.ahead_window * 2).min(MAX_READAHEAD_BLOCKS);
            if self.ahead > 1 {
                self.fs.buffers().prefetch(block.0, self.ahead);
            }
        }
        self.ahead -= 1;
        self.next += 1;
        self.run = (blocks > 1).then(|| (blocks - 1, FsBlock(block.0 + 1)));
        let (fs, dir) = (self.fs, self.dir);
        let buffer = fs.metadata_block(block, dir.ino(), |bytes| {
            fs.verify_dir_block(&dir, bytes, Place::Block(block, dir.ino()))
        });
        Some((index, buffer.map(|buffer| (block, buffer))))
    }
}
