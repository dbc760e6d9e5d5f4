//! Assigns device blocks to dirty content, and maps them after the content has been written.
//!
//! Model: `mpage_map_one_extent` and `ext4_end_io`. Unlike in the kernel, content is written to the
//! device before its blocks are mapped. Therefore no commit exposes the previous contents of a
//! block, and no commit has to wait for content.

use super::retry::retry_after_commit;
use crate::Result;
use crate::live::{Inodes, Live};
use larder_cache::page::OwnedPage;
use larder_ext4::{
    Claim, FileBlock, Filesystem, FsBlock, Handle, Inode, MappingKind, Place, Reservation,
};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// The maximum credits of a handle that maps several pieces. A piece that needs more credits is
/// mapped by a handle of its own. The limit is far below the size of a transaction in the smallest
/// journal.
const HANDLE_CREDITS: u32 = 128;

/// The maximum number of blocks in a piece whose content is written through the journal, before the
/// piece is extended to the end of a cluster.
const JOURNAL_BLOCKS: u64 = 16;

/// A run of a file's blocks that is contiguous on the device.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// The blocks of the file.
    pub(crate) blocks: Range<u64>,
    target: Target,
}

#[derive(Clone, Debug)]
enum Target {
    /// The blocks are mapped as written. The content is overwritten in place, and the mapping does
    /// not change.
    Written(FsBlock),
    /// The blocks are mapped as unwritten.
    Unwritten(FsBlock),
    /// The blocks are not mapped. Free device blocks are assigned to them in memory.
    Claimed(Claim),
}

impl Piece {
    /// Returns the first block on the device.
    pub(crate) fn start(&self) -> FsBlock {
        match &self.target {
            Target::Written(block) | Target::Unwritten(block) => *block,
            Target::Claimed(claim) => claim.start(),
        }
    }

    /// Returns whether the content overwrites blocks that are mapped as written, so that the mapping does not change.
    pub(crate) fn is_overwrite(&self) -> bool {
        matches!(self.target, Target::Written(_))
    }

    fn len(&self) -> u32 {
        u32::try_from(self.blocks.end - self.blocks.start).unwrap_or(u32::MAX)
    }
}

/// The part of a file that must be mapped. Its content is already on the device, or is written
/// through the journal by the same handles.
#[derive(Debug)]
pub(crate) struct Written<'r> {
    pub(crate) live: &'r Live<'r>,
    pub(crate) pieces: VecDeque<Piece>,
    /// The size that the file on the image gets when all pieces are mapped, unless it is already
    /// longer.
    pub(crate) size_bytes: u64,
    /// The pages with the content, by index, if content is written through the journal. Otherwise
    /// `None`.
    pub(crate) content: Option<&'r BTreeMap<u64, Arc<OwnedPage>>>,
}

/// The change that one handle makes to a file.
struct Change<'r> {
    live: &'r Live<'r>,
    inode: Inode,
    mapped: Vec<Range<u64>>,
    /// The number of pieces that were mapped. If `left` is set, the last of them was mapped only in
    /// part.
    pieces: usize,
    /// The part of the last piece that was not mapped.
    left: Option<Piece>,
    is_complete: bool,
}

/// Divides `blocks` of the file into pieces: runs that `inode` already maps, and runs for which
/// free device blocks are claimed. If there is a `reservation`, the claims take their space from
/// it. The caller must hold `writeback`.
pub(crate) fn place(
    inodes: &Inodes,
    inode: &Inode,
    blocks: Range<u64>,
    mut reservation: Option<&mut Reservation>,
) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut at = blocks.start;
    while at < blocks.end {
        let until = piece_end(inodes, at, blocks.end);
        let mapping = inodes.mapping(inode, at..until)?;
        let (target, len) = match mapping.kind {
            MappingKind::Written(block) => (Target::Written(block), mapping.blocks),
            MappingKind::Unwritten(block) => (Target::Unwritten(block), mapping.blocks),
            MappingKind::Hole => {
                let start = FileBlock(mapping.start.0);
                let claim = retry_after_commit(&inodes.fs, || {
                    let reservation = reservation.as_deref_mut();
                    let (fs, blocks) = (&inodes.fs, mapping.blocks);
                    Ok(fs.claim_for(inode, start, blocks, reservation)?)
                })?;
                let len = claim.blocks().min(mapping.blocks);
                (Target::Claimed(claim), len)
            }
        };
        let end = (at + u64::from(len.max(1))).min(until);
        let piece = Piece {
            blocks: at..end,
            target,
        };
        check_place(inodes, inode, &piece)?;
        pieces.push(piece);
        at = end;
    }
    Ok(pieces)
}

/// Checks that the device blocks of `piece` may hold content, and that a claim has exactly as many
/// blocks as the piece.
fn check_place(inodes: &Inodes, inode: &Inode, piece: &Piece) -> Result<()> {
    let (start, blocks) = (piece.start(), piece.blocks.end - piece.blocks.start);
    let may_hold = inodes.fs.may_hold_content(start, blocks);
    if let Target::Claimed(claim) = &piece.target {
        let is_whole = u64::from(claim.blocks()) == blocks;
        let what = "a claim does not match the blocks to write";
        inodes.fs.ensure(is_whole, what)?;
        if claim.takes_blocks() {
            let what = "a claim contains metadata blocks";
            return Ok(inodes.fs.ensure(may_hold, what)?);
        }
    }
    if may_hold {
        return Ok(());
    }
    // The mapping comes from the image, so the error is corruption, not a bug.
    let place = Place::Block(start, inode.ino());
    let what = "content is mapped to file-system metadata";
    Err(place.corrupt(what).into())
}

/// Returns the upper limit for the end of a piece that starts with block `at`. If content is
/// written through the journal, the limit is `JOURNAL_BLOCKS` blocks after `at`, rounded up to the end
/// of a cluster. The limit does not divide a cluster, because a claim in a cluster must be mapped
/// before the next claim in the same cluster.
fn piece_end(inodes: &Inodes, at: u64, end: u64) -> u64 {
    if !inodes.fs.journals_content() {
        return end;
    }
    let cluster_blocks = 1 << inodes.fs.superblock().cluster_blocks_log2;
    end.min((at + JOURNAL_BLOCKS).next_multiple_of(cluster_blocks))
}

/// Maps the pieces of `files`, in as few handles as the credits allow, and updates the sizes of the
/// files. After each handle stops, calls `done` for each file with the blocks that the handle
/// mapped. The caller must hold `map` and `writeback` of each file exclusively.
pub(crate) fn map_written<'r>(
    inodes: &Inodes,
    mut files: VecDeque<Written<'r>>,
    mut done: impl FnMut(&Live<'r>, &[Range<u64>]),
) -> Result<()> {
    while !files.is_empty() {
        let credits = credits_for(&inodes.fs, &files)?;
        let (handle, changes) = inodes.fs.change(credits, |handle| -> Result<_> {
            let mut changes: Vec<Change<'r>> = Vec::new();
            for file in &files {
                let Some(change) = map_some(inodes, handle, file)? else {
                    break;
                };
                let is_complete = change.is_complete;
                changes.push(change);
                if !is_complete {
                    break;
                }
            }
            Ok(changes)
        })?;
        for change in &changes {
            let live = change.live;
            live.publish_written_back(&handle, &change.inode, &change.mapped);
        }
        handle.stop();
        for change in changes {
            done(change.live, &change.mapped);
            if change.is_complete {
                files.pop_front();
            } else if let Some(file) = files.front_mut() {
                file.pieces.drain(..change.pieces);
                if let Some(left) = change.left {
                    file.pieces.push_front(left);
                }
            }
        }
    }
    Ok(())
}

/// Returns the credits of the next handle: for as many files from the front of `files` as fit into
/// [`HANDLE_CREDITS`], and at least for one piece.
fn credits_for(fs: &Filesystem, files: &VecDeque<Written<'_>>) -> Result<u32> {
    let mut credits = 0;
    for file in files {
        let inode = file.live.inode()?;
        // The superblock changes when the image gets its first large file.
        let mut needed = fs.map_credits(&inode, 1) + 1;
        for piece in &file.pieces {
            needed = needed.saturating_add(piece_credits(fs, file, &inode, piece));
            if needed > HANDLE_CREDITS {
                break;
            }
        }
        if credits > 0 && credits + needed > HANDLE_CREDITS {
            break;
        }
        credits += needed;
    }
    Ok(credits)
}

/// Returns the credits for mapping `piece` and, if content is written through the journal, for its
/// content.
fn piece_credits(fs: &Filesystem, file: &Written<'_>, inode: &Inode, piece: &Piece) -> u32 {
    let content = file.content.map_or(0, |_| piece.len());
    fs.map_credits(inode, piece.len()).saturating_add(content)
}

/// Writes the content of `piece`, which is in `pages`, through the journal.
fn journal_content(
    inodes: &Inodes,
    handle: &mut Handle<'_>,
    inode: &Inode,
    pages: &BTreeMap<u64, Arc<OwnedPage>>,
    piece: &Piece,
) -> Result<()> {
    let (block_bytes, page_bytes) = (inodes.block_bytes(), inodes.page_bytes());
    for (block, target) in piece.blocks.clone().zip(piece.start().0..) {
        let at = block * block_bytes;
        let start = usize::try_from(at % page_bytes).unwrap_or(0);
        let page = pages.get(&(at / page_bytes));
        let content = page.and_then(|page| page.get(start..)).unwrap_or_default();
        handle.create(FsBlock(target), inode.ino(), |bytes| {
            let len = bytes.len().min(content.len());
            bytes[..len].copy_from_slice(&content[..len]);
            Ok(())
        })?;
    }
    Ok(())
}

/// Maps as many pieces of `file` as the handle has credits for, and writes the inode. Returns `None`
/// if the credits do not suffice for the inode.
fn map_some<'r>(
    inodes: &Inodes,
    handle: &mut Handle<'_>,
    file: &Written<'r>,
) -> Result<Option<Change<'r>>> {
    let mut inode = file.live.inode()?;
    // The inode and the superblock are written last. Keep credits for them until then.
    let kept = inodes.fs.map_credits(&inode, 1) + 1;
    if handle.credits() < kept {
        return Ok(None);
    }
    let mut mapped = Vec::new();
    let mut size_bytes = 0;
    let mut left = None;
    for piece in &file.pieces {
        let needed = piece_credits(&inodes.fs, file, &inode, piece);
        let is_first = mapped.is_empty();
        if !is_first && handle.credits() < kept.saturating_add(needed) {
            break;
        }
        if let Some(pages) = file.content {
            journal_content(inodes, handle, &inode, pages, piece)?;
        }
        let Range { start, end } = piece.blocks.clone();
        left = map_piece(inodes, handle, &mut inode, piece.clone())?;
        let until = left.as_ref().map_or(end, |left| left.blocks.start);
        if until == start {
            return Err(larder_ext4::Error::HandleTooLarge.into());
        }
        mapped.push(start..until);
        size_bytes = until * inodes.block_bytes();
        if left.is_some() {
            break;
        }
    }
    let pieces = mapped.len();
    let is_complete = left.is_none() && pieces == file.pieces.len();
    if is_complete {
        size_bytes = u64::MAX;
    }
    let size_bytes = size_bytes.min(file.size_bytes);
    if size_bytes > inode.size_bytes() {
        let written_to = mapped.last().map_or(0, |last: &Range<u64>| last.end);
        let known = file.live.peek()?.size_bytes();
        let is_known = size_bytes <= known.max(written_to * inodes.block_bytes());
        let what = "the size to write exceeds the size of the file";
        inodes.fs.ensure(is_known, what)?;
        inodes.fs.allow_file_size(handle, size_bytes)?;
        inode.set_size_bytes(size_bytes);
    }
    inodes.fs.write_inode(handle, &inode)?;
    Ok(Some(Change {
        live: file.live,
        inode,
        mapped,
        pieces,
        left,
        is_complete,
    }))
}

/// Maps `piece`, or as much of its start as the handle has credits for. Returns the part that is
/// not mapped.
fn map_piece(
    inodes: &Inodes,
    handle: &mut Handle<'_>,
    inode: &mut Inode,
    piece: Piece,
) -> Result<Option<Piece>> {
    let Piece { blocks, target } = piece;
    match target {
        Target::Written(_) => Ok(None),
        Target::Unwritten(first) => {
            let left = inodes.fs.set_written(handle, inode, blocks.clone(), true)?;
            Ok((!left.is_empty()).then(|| Piece {
                target: Target::Unwritten(FsBlock(first.0 + (left.start - blocks.start))),
                blocks: left,
            }))
        }
        Target::Claimed(claim) => {
            let too_large = |_| larder_ext4::Error::FileTooLarge(inode.ino());
            let start = FileBlock(u32::try_from(blocks.start).map_err(too_large)?);
            let (first, len) = (claim.start(), claim.blocks());
            let is_whole = u64::from(len) == blocks.end - blocks.start;
            let what = "the blocks to map do not match the blocks that were written";
            inodes.fs.ensure(is_whole, what)?;
            inodes.fs.map_claim(handle, inode, start, claim, true)?;
            let mapping = inodes.mapping(inode, blocks)?;
            let is_mapped = mapping.kind == MappingKind::Written(first);
            let what = "the new mapping does not match the blocks that were written";
            inodes.fs.ensure(is_mapped, what)?;
            Ok(None)
        }
    }
}
