//! A batch of new files: blocks for their content, the write of this content, and its mapping. The steps are those of
//! [`ContentQueue`](crate::ContentQueue).

use super::Writer;
use crate::dirty::BlockSet;
use crate::live::{Inodes, Live, lock_exclusively};
use crate::need::need_of;
use crate::write_back::WriteBack;
use crate::write_back::place::{Piece, Written, map_written, place};
use crate::{Ino, Result};
use larder_ext4::{Error, Inode, MappingKind, MappingReservation, Privilege};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

/// Zeros that fill the last block of a file after the end of the content. A longer rest of the block is filled in
/// several parts.
static ZEROS: [u8; 4096] = [0; 4096];

/// Files whose content is written together.
#[derive(Debug)]
pub(crate) struct Batch {
    buffer: Arc<Vec<u8>>,
    /// The files, in the order of their inode numbers.
    files: Vec<Placed>,
    /// The space that the mapping needs in the worst case.
    _for_mapping: MappingReservation,
}

/// A file that has claims for all of its content.
#[derive(Debug)]
struct Placed {
    ino: Ino,
    generation: u32,
    /// The content, as a part of the buffer.
    content: Range<usize>,
    pieces: VecDeque<Piece>,
}

impl Writer {
    /// Claims blocks for the content of `files`, which must be in the order of their inode numbers.
    pub(crate) fn place_batch(
        &self,
        buffer: Arc<Vec<u8>>,
        files: Vec<(Ino, Range<usize>)>,
    ) -> Result<Batch> {
        let (fs, mut clusters, mut for_mapping) = (self.fs(), 0, 0);
        let mut last = None;
        let mut new = Vec::with_capacity(files.len());
        for (ino, content) in files {
            let is_repeated = last.replace(ino) == Some(ino);
            if is_repeated || buffer.get(content.clone()).is_none() {
                return Err(Error::Invalid(ino, "the content of new files is not valid").into());
            }
            let live = self.inodes.live(ino)?;
            let blocks = self.inodes.blocks_touched(&(0..content.len() as u64));
            let inode = check_empty(&self.inodes, &live, blocks.clone())?;
            let mut set = BlockSet::default();
            set.insert(blocks.clone());
            let need = need_of(fs, &inode, &set, None);
            clusters += need.content;
            for_mapping += need.mapping;
            new.push((inode, content, blocks));
        }
        let (mut reservation, for_mapping) = self.write_back.retry_after_write_back(|| {
            let content = fs.reserve(clusters, Privilege::Ordinary)?;
            let mapping = fs.reserve_for_mapping(for_mapping, Privilege::Ordinary)?;
            Ok((content, mapping))
        })?;
        let mut files = Vec::with_capacity(new.len());
        for (inode, content, blocks) in new {
            let pieces = place(&self.inodes, &inode, blocks, Some(&mut reservation))?;
            files.push(Placed {
                ino: inode.ino(),
                generation: inode.generation(),
                content,
                pieces: pieces.into(),
            });
        }
        Ok(Batch {
            buffer,
            files,
            _for_mapping: for_mapping,
        })
    }
}

/// Returns the inode of an empty regular file.
///
/// # Errors
/// [`Error::Invalid`] if the file has content, or if one of `blocks` is mapped.
fn check_empty(inodes: &Inodes, live: &Live<'_>, blocks: Range<u64>) -> Result<Inode> {
    let inode = live.peek()?;
    let is_empty = inode.kind() == larder_ext4::FileKind::Regular
        && inode.size_bytes() == 0
        && inode.links() > 0
        && live.state().dirty.is_empty();
    if is_empty && !blocks.is_empty() {
        let len = blocks.end - blocks.start;
        let mapping = inodes.mapping(&inode, blocks)?;
        if mapping.kind == MappingKind::Hole && u64::from(mapping.blocks) >= len {
            return Ok(inode);
        }
    } else if is_empty {
        return Ok(inode);
    }
    Err(Error::Invalid(live.ino(), "the file is not new and empty").into())
}

/// Writes the content of `batch` to the device. Pieces that are adjacent on the device are written with one device
/// write.
pub(crate) fn write_content(write_back: &WriteBack, batch: &Batch) -> Result<()> {
    let block_bytes = write_back.block_bytes();
    let mut parts = Vec::with_capacity(batch.files.len());
    for file in &batch.files {
        let content = batch.buffer.get(file.content.clone()).unwrap_or_default();
        for piece in &file.pieces {
            let at = |block: u64| usize::try_from(block * block_bytes).unwrap_or(usize::MAX);
            let (start, end) = (at(piece.blocks.start), at(piece.blocks.end));
            let part = content
                .get(start..end.min(content.len()))
                .unwrap_or_default();
            parts.push((piece.start().0 * block_bytes, part, end - start));
        }
    }
    parts.sort_unstable_by_key(|(offset_bytes, ..)| *offset_bytes);
    let mut slices = Vec::with_capacity(2 * parts.len());
    let (mut start_bytes, mut end_bytes) = (0, 0);
    for (offset_bytes, part, len) in parts {
        if offset_bytes != end_bytes && !slices.is_empty() {
            write_back.write_vectored_to_device(&slices, start_bytes)?;
            slices.clear();
        }
        if slices.is_empty() {
            start_bytes = offset_bytes;
        }
        end_bytes = offset_bytes + len as u64;
        slices.push(IoSlice::new(part));
        let mut padding = len - part.len();
        while padding > 0 {
            let zeros = ZEROS.get(..padding).unwrap_or(&ZEROS);
            slices.push(IoSlice::new(zeros));
            padding -= zeros.len();
        }
    }
    if slices.is_empty() {
        return Ok(());
    }
    write_back.write_vectored_to_device(&slices, start_bytes)
}

/// Maps the content of `batch`, which is on the device, and sets the sizes of its files.
pub(crate) fn map_batch(inodes: &Inodes, batch: Batch) -> Result<()> {
    let lives: Vec<_> = batch
        .files
        .iter()
        .map(|file| inodes.live(file.ino))
        .collect::<Result<_>>()?;
    let _changing = lock_exclusively(&lives)?;
    let _exclusive: Vec<_> = lives.iter().map(|live| live.writeback.lock()).collect();
    let mut mapping = Vec::with_capacity(lives.len());
    let mut to_map = VecDeque::with_capacity(lives.len());
    for (live, file) in lives.iter().zip(batch.files) {
        let blocks = inodes.blocks_touched(&(0..file.content.len() as u64));
        if check_empty(inodes, live, blocks)?.generation() != file.generation {
            return Err(Error::StaleInode(file.ino).into());
        }
        mapping.push(live.change_mapping()?);
        to_map.push_back(Written {
            live,
            pieces: file.pieces,
            size_bytes: file.content.len() as u64,
            content: None,
        });
    }
    let per_page = inodes.blocks_per_page();
    map_written(inodes, to_map, |live, mapped| {
        // A read of the empty file may have cached pages of zeros.
        for blocks in mapped {
            live.discard_pages(blocks.start / per_page..blocks.end.div_ceil(per_page));
        }
    })
}
