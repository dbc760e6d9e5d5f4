//! Listing in hash order, for directories that may change during the listing.
//!
//! Model: the kernel's `ext4_dx_readdir`. Adding a name to a hash tree moves other names within a
//! block and between blocks. A listing by position could return some names twice and miss others; a
//! listing by hash does not depend on their positions. If the file system supports hash trees,
//! directories that fit in a block or an inode are also listed by hash, because they may get a tree
//! during a listing.
//!
//! On a read-only file system, listings are by position ([`crate::dir`]), because consecutive
//! entries then more often have adjacent inodes.
//!
//! Positions: "." has the position 0, and ".." the position 1. The position of any other name is 2
//! plus a number of 60 bits. Its high 31 bits are the hash of the name without the lowest bit, and
//! its low 29 bits are a second hash, which distinguishes names with the same hash.

use super::Search;
use crate::dir::Listing;
use crate::error::Place;
use crate::ondisk::checksum::Crc32c;
use crate::ondisk::dir::{Dirent, Dirents, FileTypeByte};
use crate::ondisk::features::Compat;
use crate::ondisk::hash::HashVersion;
use crate::{Error, Filesystem, FsBlock, Inode, MemoryOnly, Result};
use larder_cache::buffer::Buffer;
use std::ops::ControlFlow;

/// The position of the first name after "." and "..".
const FIRST_NAME: u64 = 2;

/// The number of low bits of a position that hold the second hash.
const MINOR_BITS: u32 = 29;

/// The maximum number of leaves whose names are sorted together. Names with the same hash occupy more leaves
/// than this only in a damaged tree.
const MAX_LEAVES: usize = 64;

/// Leaves whose names are sorted together. There is more than one leaf if names with the same hash
/// are in several leaves.
type Leaves<'f> = Vec<Result<(FsBlock, Buffer<'f>)>>;

/// The order of the names of a directory.
#[derive(Clone, Copy, Debug)]
struct Order {
    version: HashVersion,
    seed: [u32; 4],
}

impl Order {
    fn position(self, name: &[u8]) -> u64 {
        let hash = u64::from(self.version.hash(self.seed, name) >> 1);
        let minor = u64::from(Crc32c::START.bytes(name).0 >> (u32::BITS - MINOR_BITS));
        FIRST_NAME + (hash << MINOR_BITS | minor)
    }
}

/// Returns the hash in a position, with a lowest bit of 0.
fn hash_at(position: u64) -> u32 {
    let hash = position.saturating_sub(FIRST_NAME) >> MINOR_BITS;
    u32::try_from(hash << 1).unwrap_or(u32::MAX - 1)
}

impl Filesystem {
    /// Returns whether listings of `dir` are by hash.
    fn lists_by_hash(&self, dir: &Inode) -> bool {
        let block_size_bytes = u64::from(self.superblock().block_size_bytes());
        self.writer.is_some()
            && self.superblock().compat.contains(Compat::DIR_INDEX)
            && (self.is_indexed(dir)
                || dir.has_inline_data()
                || dir.size_bytes() == block_size_bytes)
    }

    /// Emits the names of `dir` from position `at` on, in hash order. Returns `None`, and emits
    /// nothing, if the directory must be listed by position instead.
    pub(crate) fn list_by_hash(
        &self,
        dir: &Inode,
        at: u64,
        listing: &mut Listing<'_>,
    ) -> Result<Option<ControlFlow<()>>> {
        if !self.lists_by_hash(dir) {
            return Ok(None);
        }
        if !self.is_indexed(dir) {
            let flow = self.list_unindexed(dir, at, listing)?;
            return Ok(Some(flow));
        }
        let search = match self.search_hash(dir, |_| hash_at(at)) {
            Ok(Some(search)) => search,
            Ok(None) | Err(Error::Corrupt(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let order = self.order(search.version);
        let mut flow = self.list_dots(dir, at, listing);
        if flow.is_continue() {
            flow = self.list_leaves(search, order, at, listing);
        }
        Ok(Some(flow))
    }

    fn order(&self, version: HashVersion) -> Order {
        Order {
            version,
            seed: self.superblock().hash_seed,
        }
    }

    /// Lists a directory without a hash tree in the order in which a hash tree would list it.
    fn list_unindexed(
        &self,
        dir: &Inode,
        at: u64,
        listing: &mut Listing<'_>,
    ) -> Result<ControlFlow<()>> {
        let order = self.order(self.new_hash_version().1);
        if self.list_dots(dir, at, listing).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if dir.has_inline_data() {
            let place = dir.place();
            let chains = self.inline_chains(dir)?;
            let chains = chains.iter().map(|chain| (&**chain, place));
            return Ok(offer_sorted(chains, order, at, listing));
        }
        let block = self.checked_dir_block(dir, 0);
        let leaves: Leaves<'_> = block.transpose().into_iter().collect();
        Ok(offer_leaves(leaves, dir, order, at, listing))
    }

    fn list_dots(&self, dir: &Inode, at: u64, listing: &mut Listing<'_>) -> ControlFlow<()> {
        let file_type = self.file_type(FileTypeByte::DIRECTORY.0);
        if at == 0 {
            listing.offer(b".", (dir.ino(), file_type), 1)?;
        }
        if at <= 1 {
            match self.lookup(dir, b"..") {
                Ok(Some(parent)) => listing.offer(b"..", parent, FIRST_NAME)?,
                Ok(None) => {}
                Err(error) => listing.note_damage(error),
            }
        }
        ControlFlow::Continue(())
    }

    /// Visits the leaves of a hash tree, starting from the position of `search`.
    fn list_leaves(
        &self,
        mut search: Search<'_>,
        order: Order,
        at: u64,
        listing: &mut Listing<'_>,
    ) -> ControlFlow<()> {
        let dir = search.dir;
        let block_size_bytes = u64::from(self.superblock().block_size_bytes());
        let mut leaves = Leaves::new();
        for _ in 0..dir.size_bytes().div_ceil(block_size_bytes) {
            let number = match search.leaf() {
                Ok(number) => number,
                Err(error) => {
                    listing.note_damage(error);
                    break;
                }
            };
            leaves.push(self.index_leaf(&dir, number));
            match search.next_leaf() {
                Ok(Some(hash)) if hash & 1 != 0 && leaves.len() < MAX_LEAVES => continue,
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => {
                    listing.note_damage(error);
                    break;
                }
            }
            offer_leaves(std::mem::take(&mut leaves), &dir, order, at, listing)?;
            // The caller discards the listing, or needs only the entries that are in memory.
            if MemoryOnly::has_missed() {
                break;
            }
        }
        offer_leaves(leaves, &dir, order, at, listing)
    }
}

/// Emits the names in `leaves`, which are leaves of `dir`, that are at or after position `at`, in
/// hash order.
fn offer_leaves(
    leaves: Leaves<'_>,
    dir: &Inode,
    order: Order,
    at: u64,
    listing: &mut Listing<'_>,
) -> ControlFlow<()> {
    let mut read = Vec::with_capacity(leaves.len());
    for leaf in leaves {
        match leaf {
            Ok((block, buffer)) => read.push((Place::Block(block, dir.ino()), buffer)),
            Err(error) => listing.note_damage(error),
        }
    }
    let chains = read.iter().map(|(place, buffer)| (&**buffer, *place));
    offer_sorted(chains, order, at, listing)
}

/// Emits the names in `chains` that are at or after position `at`, in hash order, except for "."
/// and "..". Each element has a chain of entries and the place of the chain on the image.
fn offer_sorted<'b>(
    chains: impl Iterator<Item = (&'b [u8], Place)>,
    order: Order,
    at: u64,
    listing: &mut Listing<'_>,
) -> ControlFlow<()> {
    let mut names: Vec<(u64, Dirent<'b>, Place)> = Vec::new();
    for (chain, place) in chains {
        for dirent in Dirents::new(chain) {
            let dirent = match dirent {
                Ok(dirent) => dirent,
                Err(what) => {
                    listing.note_damage(place.corrupt(what));
                    break;
                }
            };
            let position = order.position(dirent.name);
            if position >= at && !matches!(dirent.name, b"." | b"..") {
                names.push((position, dirent, place));
            }
        }
    }
    names.sort_by_key(|(position, ..)| *position);
    for (position, dirent, place) in names {
        listing.offer_dirent(&dirent, position + 1, place)?;
    }
    ControlFlow::Continue(())
}
