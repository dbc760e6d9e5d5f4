//! Filling pages from the device.
//!
//! Model: `mpage_readahead`. The file's block mapping divides a run of consecutive pages into
//! segments. A segment that is contiguous on the device is read with one scatter read into the
//! pages. Segments for holes, for unwritten extents and for blocks past the end of the file are
//! filled with zeros, without a read. The last block of the file is read as a whole. On a volume
//! that is open for writing, the bytes of this block past the end of the file are then replaced by
//! zeros.

use crate::Result;
use crate::live::Inodes;
use larder_block::BlockDevice;
use larder_cache::page::PageCache;
use larder_ext4::{Error, FileBlock, Filesystem, FsBlock, Inode, MappingKind, Place};
use std::io::IoSliceMut;
use std::ops::{DerefMut, Range};
use std::sync::Arc;

/// Fills pages from the device.
#[derive(Clone, Debug)]
pub(crate) struct PageFiller {
    pub(crate) inodes: Arc<Inodes>,
    pub(crate) device: Arc<dyn BlockDevice>,
}

impl PageFiller {
    pub(crate) fn new(inodes: &Arc<Inodes>, device: &Arc<dyn BlockDevice>) -> Self {
        Self {
            inodes: Arc::clone(inodes),
            device: Arc::clone(device),
        }
    }

    /// Returns the page cache.
    #[inline]
    pub(crate) fn pages(&self) -> &PageCache {
        &self.inodes.caches.pages
    }

    /// Fills `pages` with the content of `inode`, starting at `start_bytes`, which must be the
    /// start of a block. All pages must have the same size, except that the last may be shorter.
    ///
    /// On a volume that is open for writing, `inode` must be the present state, and its mapping must not
    /// change during the call ([`Inodes::with_mapping`]).
    ///
    /// # Errors
    /// The first error. The contents of the pages are then unspecified.
    pub(crate) fn fill<P: DerefMut<Target = [u8]>>(
        &self,
        inode: &Inode,
        start_bytes: u64,
        pages: &mut [P],
    ) -> Result<()> {
        let len = pages.iter().map(|page| page.len()).sum();
        for segment in segments(&self.inodes.fs, inode, start_bytes, len)? {
            match segment.offset_bytes {
                None => slices(pages, segment.bytes).for_each(|slice| slice.fill(0)),
                Some(offset_bytes) => self.fill_from(offset_bytes, inode, segment.bytes, pages)?,
            }
        }
        self.zero_past_end(inode, start_bytes, pages);
        Ok(())
    }

    /// Fills `bytes` of `pages` from `offset_bytes` of the device.
    fn fill_from<P: DerefMut<Target = [u8]>>(
        &self,
        offset_bytes: u64,
        inode: &Inode,
        bytes: Range<usize>,
        pages: &mut [P],
    ) -> Result<()> {
        let uncheckpointed =
            UncheckpointedBlocks::find(&self.inodes.fs, bytes.clone(), offset_bytes);
        let mut buffers: Vec<_> = slices(pages, bytes).map(IoSliceMut::new).collect();
        let read = self.device.read_vectored_at(&mut buffers, offset_bytes);
        read.map_err(|source| self.unreadable(offset_bytes, inode, source))?;
        uncheckpointed.copy_to(pages);
        Ok(())
    }

    /// Returns the error for a read of `inode` that failed at `offset_bytes` of the device because
    /// of `source`.
    pub(crate) fn unreadable(
        &self,
        offset_bytes: u64,
        inode: &Inode,
        source: larder_block::Error,
    ) -> crate::Error {
        let block = FsBlock(offset_bytes >> self.inodes.block_size_log2());
        let place = Place::Block(block, inode.ino());
        Error::Unreadable { place, source }.into()
    }

    /// Fills the bytes of `pages` after the end of the file with zeros, if the volume is open for
    /// writing.
    pub(crate) fn zero_past_end<P: DerefMut<Target = [u8]>>(
        &self,
        inode: &Inode,
        start_bytes: u64,
        pages: &mut [P],
    ) {
        if self.inodes.live.is_some() {
            zero_past(pages, inode.size_bytes().saturating_sub(start_bytes));
        }
    }
}

/// Fills `pages` with zeros, starting `len_bytes` after the start of the first page.
fn zero_past<P: DerefMut<Target = [u8]>>(pages: &mut [P], len_bytes: u64) {
    let mut left = usize::try_from(len_bytes).unwrap_or(usize::MAX);
    for page in pages {
        let kept = left.min(page.len());
        page[kept..].fill(0);
        left -= kept;
    }
}

/// A range of bytes in the pages that is filled from one contiguous device range, or with zeros.
/// `bytes` is relative to the start of the first page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) bytes: Range<usize>,
    /// The offset on the device, or `None` if the bytes are zeros.
    pub(crate) offset_bytes: Option<u64>,
}

/// Blocks of content that are newer in memory than on the device, because no checkpoint has written
/// them to their final location yet. Content is in this state only with `data=journal`.
///
/// These blocks must be found before the device is read. At any time, a checkpoint can write the newer
/// contents to the device and drop them from memory. If that happened between a read of the device
/// and a later search in memory, the newer contents would be missed in both places.
#[derive(Debug)]
pub(crate) struct UncheckpointedBlocks {
    /// The contents of each block, and the offset of its first byte in the pages.
    blocks: Vec<(usize, Arc<[u8]>)>,
    /// The end of the bytes that the read fills, relative to the start of the first page.
    end: usize,
}

impl UncheckpointedBlocks {
    /// Finds the uncheckpointed blocks for a read that fills `bytes` of the pages from `offset_bytes`
    /// of the device.
    pub(crate) fn find(fs: &Filesystem, bytes: Range<usize>, offset_bytes: u64) -> Self {
        let end = bytes.end;
        let buffers = fs.buffers();
        if !fs.journals_content() || buffers.dirty_count() == 0 {
            let blocks = Vec::new();
            return Self { blocks, end };
        }
        let first = offset_bytes >> fs.superblock().block_size_log2;
        let blocks = (first..)
            .zip(bytes.step_by(buffers.block_size_bytes()))
            .filter_map(|(block, start)| Some((start, buffers.dirty(block)?)))
            .collect();
        Self { blocks, end }
    }

    /// Copies the newer contents to `pages`.
    pub(crate) fn copy_to<P: DerefMut<Target = [u8]>>(&self, pages: &mut [P]) {
        for (start, contents) in &self.blocks {
            let mut rest = &contents[..];
            let end = self.end.min(start.saturating_add(contents.len()));
            for slice in slices(pages, *start..end) {
                let (part, next) = rest.split_at(slice.len().min(rest.len()));
                slice[..part.len()].copy_from_slice(part);
                rest = next;
            }
        }
    }
}

/// Divides pages of `len` bytes in total into segments, in the order of their bytes. `start_bytes` is the
/// offset of the first page in the file.
pub(crate) fn segments(
    fs: &Filesystem,
    inode: &Inode,
    start_bytes: u64,
    len: usize,
) -> Result<Vec<Segment>> {
    let block_bytes = u64::from(fs.superblock().block_size_bytes());
    // Preallocated blocks past the end of the file are not read.
    let left = inode.size_bytes().saturating_sub(start_bytes);
    let left = usize::try_from(left).unwrap_or(usize::MAX);
    let end = left
        .next_multiple_of(usize::try_from(block_bytes).unwrap_or(1))
        .min(len);

    let mut segments = Vec::new();
    let mut at = 0;
    while at < end {
        let too_large =
            || Place::Inode(inode.ino()).corrupt("size exceeds the maximum number of blocks");
        let block =
            u32::try_from((start_bytes + at as u64) / block_bytes).map_err(|_| too_large())?;
        let blocks_left = ((end - at) as u64).div_ceil(block_bytes);
        let mapping = fs.map(
            inode,
            FileBlock(block),
            u32::try_from(blocks_left).unwrap_or(u32::MAX),
        )?;
        let run_bytes = u64::from(mapping.blocks.max(1)) * block_bytes;
        let until =
            usize::try_from(run_bytes).map_or(end, |bytes| end.min(at.saturating_add(bytes)));
        let offset_bytes = match mapping.kind {
            MappingKind::Hole | MappingKind::Unwritten(_) => None,
            MappingKind::Written(block) => Some(block.0 * block_bytes),
        };
        push(&mut segments, at..until, offset_bytes);
        at = until;
    }
    if end < len {
        push(&mut segments, end..len, None);
    }
    Ok(segments)
}

/// Appends a segment, or extends the last segment if both are contiguous on the device or both are
/// zeros.
fn push(segments: &mut Vec<Segment>, bytes: Range<usize>, offset_bytes: Option<u64>) {
    if let Some(last) = segments.last_mut() {
        let last_end = last.offset_bytes.map(|at| at + last.bytes.len() as u64);
        if last_end == offset_bytes {
            last.bytes.end = bytes.end;
            return;
        }
    }
    segments.push(Segment {
        bytes,
        offset_bytes,
    });
}

/// Returns the parts of `pages` that cover `bytes`. `bytes` is relative to the start of the first
/// page.
pub(crate) fn slices<P: DerefMut<Target = [u8]>>(
    pages: &mut [P],
    bytes: Range<usize>,
) -> impl Iterator<Item = &mut [u8]> {
    let page_bytes = pages.first().map_or(1, |page| page.len());
    pages
        .iter_mut()
        .enumerate()
        .skip(bytes.start / page_bytes)
        .take_while({
            let end = bytes.end;
            move |(index, _)| index * page_bytes < end
        })
        .map(move |(index, page)| {
            let base = index * page_bytes;
            let from = bytes.start.saturating_sub(base);
            let to = page.len().min(bytes.end - base);
            &mut page[from..to]
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_cover_exactly_the_range() {
        let mut pages: Vec<Vec<u8>> = vec![vec![0; 4]; 3];
        let cut: Vec<usize> = slices(&mut pages, 3..9).map(|slice| slice.len()).collect();
        assert_eq!(cut, [1, 4, 1]);
        slices(&mut pages, 3..9).for_each(|slice| slice.fill(7));
        assert_eq!(pages.concat(), [0, 0, 0, 7, 7, 7, 7, 7, 7, 0, 0, 0]);
        assert_eq!(slices(&mut pages, 4..8).count(), 1);
        assert_eq!(
            slices(&mut pages, 5..5)
                .map(|slice| slice.len())
                .sum::<usize>(),
            0
        );
    }

    #[test]
    fn only_contiguous_segments_are_merged() {
        let mut segments = Vec::new();
        push(&mut segments, 0..4, Some(100));
        push(&mut segments, 4..8, Some(104));
        push(&mut segments, 8..12, Some(200));
        push(&mut segments, 12..16, None);
        push(&mut segments, 16..20, None);
        let got: Vec<_> = segments
            .iter()
            .map(|s| (s.bytes.clone(), s.offset_bytes))
            .collect();
        assert_eq!(got, [(0..8, Some(100)), (8..12, Some(200)), (12..20, None)]);
    }
}
