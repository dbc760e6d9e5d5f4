//! Content: from the page cache, and into it.
//!
//! Model: `filemap_read`. A page that is cached is pinned, copied and released, with no lock. What
//! a miss and a readahead marker set off is in [`crate::bring_in`].

use crate::clock::Clock;
use crate::dirty::DirtyLimits;
use crate::fill::fill;
use crate::live::{Inodes, LiveInodes, check_same_file, key};
use crate::queue::Queue;
use crate::stream::{End, StreamRef, Streams};
use crate::wakeup::FlusherWakeup;
use crate::{Error, ErrorsMode, FileKind, Result};
use larder_block::{BlockDevice, CountingDevice};
use larder_cache::tables::Tables;
use larder_cache::tape::Tape;
use larder_ext4::Inode;
use larder_ext4::ondisk::inode::InodeFlags;
use larder_readahead::PageIndex;
use larder_readahead::driver::Request;
use std::ops::DerefMut;
use std::sync::Arc;

/// What reads and writes the content of a volume's files. Shared with the readahead threads.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) inodes: Inodes,
    /// The image, with what its journal holds in place.
    pub(crate) device: Arc<dyn BlockDevice>,
    /// The image below, as it is.
    pub(crate) counting: Arc<CountingDevice>,
    pub(crate) cache_size_bytes: u64,
    pub(crate) tables: Tables,
    /// Who is told what the caches are asked, if anybody is.
    pub(crate) tape: Option<Arc<dyn Tape>>,
    pub(crate) streams: Streams,
    pub(crate) queue: Queue,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: DirtyLimits,
    /// What happens when the image turns out to be damaged.
    pub(crate) errors: ErrorsMode,
    /// Whether content goes through the journal: `data=journal`.
    pub(crate) journals_content: bool,
    pub(crate) flusher_wakeup: FlusherWakeup,
}

/// Which pages stay cached after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// All, until their memory is needed.
    All,
    /// Not those that were handed over whole, at their first use: whoever reads
    /// keeps them, and their frames, still in the processor's cache, are the
    /// next to be filled.
    UsedAgain,
}

impl Reader {
    /// Fills `buf` from `offset_bytes` of the file; less only at its end.
    pub(crate) fn read_at(
        &self,
        inode: &Inode,
        stream: StreamRef<'_>,
        buf: &mut [u8],
        offset_bytes: u64,
        keep: Keep,
    ) -> Result<usize> {
        let buf = content_within(inode, buf, offset_bytes)?;
        if buf.is_empty() || self.read_inline(inode, buf, offset_bytes)? {
            return Ok(buf.len());
        }
        self.read_pages(inode, stream, buf, offset_bytes, keep)?;
        Ok(buf.len())
    }

    /// As [`Reader::read_at`], but from the first page on that is not cached, all
    /// is read into `buf` in one go, and not kept.
    pub(crate) fn read_past_cache(
        &self,
        inode: &Inode,
        stream: StreamRef<'_>,
        buf: &mut [u8],
        offset_bytes: u64,
    ) -> Result<usize> {
        let buf = content_within(inode, buf, offset_bytes)?;
        if buf.is_empty() || self.read_inline(inode, buf, offset_bytes)? {
            return Ok(buf.len());
        }
        let (page_bytes, mut done) = (self.inodes.page_bytes(), 0);
        while done < buf.len() {
            let at = offset_bytes + done as u64;
            let Some(page) = self
                .inodes
                .caches
                .pages
                .get(key(inode.ino(), at / page_bytes))
            else {
                break;
            };
            let from = usize::try_from(at % page_bytes).unwrap_or(0);
            let len = (buf.len() - done).min(page.len() - from);
            buf[done..done + len].copy_from_slice(&page[from..from + len]);
            done += len;
        }
        let (at, rest) = (offset_bytes + done as u64, &mut buf[done..]);
        let block_bytes = u64::from(self.inodes.fs.superblock().block_size_bytes());
        let is_read = rest.is_empty()
            || at.is_multiple_of(block_bytes) && self.fill_past_cache(inode, at, rest);
        if !is_read {
            // Page by page, what is damaged is told from what is not.
            self.read_pages(inode, stream, rest, at, Keep::UsedAgain)?;
        }
        Ok(buf.len())
    }

    /// Fills `pages` with the content of `inode` from `start_bytes` on, as it is mapped just now.
    /// On a volume that is written to, what lies behind the end of the file becomes zeros, and
    /// `inode` is as [`Inodes::with_mapping`] has it.
    pub(crate) fn fill<P: DerefMut<Target = [u8]>>(
        &self,
        inode: &Inode,
        start_bytes: u64,
        pages: &mut [P],
    ) -> Result<()> {
        let (fs, device) = (&self.inodes.fs, &*self.device);
        fill(fs, device, inode, start_bytes, pages, self.journals_content)?;
        if self.inodes.live.is_some() {
            zero_behind(pages, inode.size_bytes().saturating_sub(start_bytes));
        }
        Ok(())
    }

    /// Reads into `buf` from the device. False if that failed, or the cache knows better.
    fn fill_past_cache(&self, inode: &Inode, at_bytes: u64, buf: &mut [u8]) -> bool {
        let bytes = at_bytes..at_bytes + buf.len() as u64;
        let is_dirty =
            |table: &LiveInodes| self.inodes.in_use(table, inode.ino()).is_dirty_in(bytes);
        !self.inodes.live.as_ref().is_some_and(is_dirty)
            && self
                .inodes
                .with_mapping(inode, |inode| self.fill(inode, at_bytes, &mut [buf]))
                .is_ok()
    }

    /// Reads content that lies in the inode; false if it does not.
    fn read_inline(&self, inode: &Inode, buf: &mut [u8], offset_bytes: u64) -> Result<bool> {
        if !inode.has_inline_data() {
            return Ok(false);
        }
        if self.inodes.live.is_none() {
            self.copy_inline(inode, buf, offset_bytes)?;
            return Ok(true);
        }
        self.inodes.with_inode(inode.ino(), |present| {
            check_same_file(inode, present)?;
            // It may have outgrown the inode since.
            if present.has_inline_data() {
                self.copy_inline(present, buf, offset_bytes)?;
            }
            Ok(present.has_inline_data())
        })
    }

    fn copy_inline(&self, inode: &Inode, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        let data = self.inodes.fs.inline_data(inode)?;
        let start = usize::try_from(offset_bytes).unwrap_or(usize::MAX);
        // The part of the file behind what is stored reads as zeros.
        buf.fill(0);
        if let Some(stored) = data.get(start..) {
            let len = stored.len().min(buf.len());
            buf[..len].copy_from_slice(&stored[..len]);
        }
        Ok(())
    }

    fn read_pages(
        &self,
        inode: &Inode,
        stream: StreamRef<'_>,
        buf: &mut [u8],
        offset_bytes: u64,
        keep: Keep,
    ) -> Result<()> {
        let page_bytes = self.inodes.page_bytes();
        let end = offset_bytes + buf.len() as u64;
        let request = Request {
            pages: offset_bytes / page_bytes..end.div_ceil(page_bytes),
            ends_inside_page: !end.is_multiple_of(page_bytes),
            by_fault: false,
            file_pages: inode.size_bytes().div_ceil(page_bytes),
        };
        let driver = self.streams.driver();
        let mut file = self.streamed_file(inode, stream);
        let mut rest = buf;
        for index in request.pages.clone() {
            let from =
                usize::try_from(offset_bytes.saturating_sub(index * page_bytes)).unwrap_or(0);
            let len = rest.len().min(self.inodes.caches.pages.page_bytes() - from);
            let (part, behind) = rest.split_at_mut(len);
            rest = behind;
            match driver.page(&mut file, &request, PageIndex(index))? {
                Some(page) => {
                    part.copy_from_slice(&page[from..from + len]);
                    let end_bytes = index * page_bytes + (from + len) as u64;
                    let is_whole =
                        from == 0 && (len == page.len() || end_bytes == inode.size_bytes());
                    if keep == Keep::UsedAgain && is_whole && !page.is_referenced() {
                        drop(page);
                        self.inodes.caches.pages.remove(key(inode.ino(), index));
                    }
                }
                None => self.read_uncached(inode, index, part, from)?,
            }
        }
        if driver.wants_every_page(false) {
            driver.end_read(&mut file, &request);
        } else {
            let end = End {
                page: PageIndex(request.pages.end - 1),
                is_inside: request.ends_inside_page,
            };
            stream.set_end(end);
        }
        Ok(())
    }

    /// Reads a part of page `index` past the cache.
    fn read_uncached(&self, inode: &Inode, index: u64, part: &mut [u8], from: usize) -> Result<()> {
        let mut page = vec![0; self.inodes.caches.pages.page_bytes()];
        let start_bytes = index * self.inodes.page_bytes();
        self.inodes.with_mapping(inode, |inode| {
            self.fill(inode, start_bytes, std::slice::from_mut(&mut page))
        })?;
        part.copy_from_slice(&page[from..from + part.len()]);
        Ok(())
    }
}

/// Makes zeros of all that lies `len_bytes` or more behind the start of `pages`.
fn zero_behind<P: DerefMut<Target = [u8]>>(pages: &mut [P], len_bytes: u64) {
    let mut left = usize::try_from(len_bytes).unwrap_or(usize::MAX);
    for page in pages {
        let kept = left.min(page.len());
        page[kept..].fill(0);
        left -= kept;
    }
}

/// That the file has content, and content that can be read.
pub(crate) fn check_content(inode: &Inode) -> Result<()> {
    match inode.kind() {
        FileKind::Regular => {}
        FileKind::Directory => return Err(Error::IsDirectory(inode.ino())),
        _ => return Err(Error::NotRegular(inode.ino())),
    }
    if inode.flags().contains(InodeFlags::ENCRYPT) {
        return Err(larder_ext4::Error::Encrypted(inode.ino()).into());
    }
    Ok(())
}

/// The part of `buf` that content at `offset_bytes` can fill.
fn content_within<'b>(inode: &Inode, buf: &'b mut [u8], offset_bytes: u64) -> Result<&'b mut [u8]> {
    check_content(inode)?;
    let left = inode.size_bytes().saturating_sub(offset_bytes);
    let len = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
    Ok(&mut buf[..len])
}
