//! Content: from the page cache, and into it.
//!
//! Model: `filemap_read`. A page that is cached is pinned, copied and released, with no lock. What
//! a miss and a readahead marker set off is in [`crate::bring_in`].

use crate::clock::Clock;
use crate::dirty::DirtyFiles;
use crate::fill::fill;
use crate::flusher::{DirtyLimits, FlusherWakeup};
use crate::live::{Live, LiveInodes};
use crate::readahead::Queue;
use crate::stream::{StreamRef, Streams};
use crate::{Error, ErrorsMode, FileKind, Result};
use larder_block::{BlockDevice, CountingDevice};
use larder_cache::Caches;
use larder_cache::page::{Page, PageKey};
use larder_cache::tables::Tables;
use larder_cache::tape::Tape;
use larder_ext4::ondisk::inode::InodeFlags;
use larder_ext4::ondisk::superblock::Superblock;
use larder_ext4::{Filesystem, Ino, Inode, Place};
use larder_readahead::{PageIndex, Read, Trigger};
use std::ops::{DerefMut, Range};
use std::sync::Arc;

/// The caches of a volume and what fills them. Shared with the readahead threads.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) fs: Filesystem,
    /// The image, with what its journal holds in place.
    pub(crate) device: Arc<dyn BlockDevice>,
    /// The image below, as it is.
    pub(crate) counting: Arc<CountingDevice>,
    pub(crate) caches: Caches,
    pub(crate) cache_size_bytes: u64,
    pub(crate) tables: Tables,
    /// Who is told what the caches are asked, if anybody is.
    pub(crate) tape: Option<Arc<dyn Tape>>,
    pub(crate) streams: Streams,
    pub(crate) queue: Queue,
    /// The inodes in use, if the volume was opened for writing.
    pub(crate) live: Option<LiveInodes>,
    pub(crate) dirty_files: DirtyFiles,
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

/// One reader's request, in pages.
pub(crate) struct Request<'a> {
    pub(crate) inode: &'a Inode,
    pub(crate) stream: StreamRef<'a>,
    pub(crate) pages: Range<u64>,
    ends_inside_page: bool,
    file_pages: u64,
}

impl Request<'_> {
    /// Page `index` of it, as a policy sees it.
    pub(crate) fn read(&self, trigger: Trigger, index: u64, congested: bool) -> Read {
        let pages = self.pages.end - self.pages.start;
        Read {
            trigger,
            index: PageIndex(index),
            request_start: PageIndex(self.pages.start),
            request_pages: u32::try_from(pages).unwrap_or(u32::MAX),
            ends_inside_page: self.ends_inside_page,
            by_fault: false,
            file_pages: self.file_pages,
            congested,
        }
    }
}

impl Reader {
    /// The inode `ino`, to be changed.
    pub(crate) fn live(&self, ino: Ino) -> Result<Live<'_>> {
        let table = self.live.as_ref();
        let table = table.ok_or(larder_ext4::Error::ReadOnly(None))?;
        if belongs_to_file_system(self.fs.superblock(), ino) {
            let what = "a name leads to it, but it belongs to the file system itself";
            return Err(larder_ext4::Error::corrupt(Place::Inode(ino), what).into());
        }
        Ok(table.get(self, ino))
    }

    /// The inode `ino` as it is now.
    pub(crate) fn inode(&self, ino: Ino) -> Result<Inode> {
        let inodes = &self.caches.inodes;
        if let Some(words) = inodes.get(ino.0) {
            return Ok(Inode::from_words(ino, words));
        }
        if let Some(table) = &self.live {
            return table.get(self, ino).present();
        }
        let inode = self.fs.inode(ino)?;
        inodes.insert(ino.0, &inode.words());
        Ok(inode)
    }

    pub(crate) fn page_bytes(&self) -> u64 {
        self.caches.pages.page_bytes() as u64
    }

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
        let (page_bytes, mut done) = (self.page_bytes(), 0);
        while done < buf.len() {
            let at = offset_bytes + done as u64;
            let Some(page) = self.caches.pages.get(key(inode.ino(), at / page_bytes)) else {
                break;
            };
            let from = usize::try_from(at % page_bytes).unwrap_or(0);
            let len = (buf.len() - done).min(page.len() - from);
            buf[done..done + len].copy_from_slice(&page[from..from + len]);
            done += len;
        }
        let (at, rest) = (offset_bytes + done as u64, &mut buf[done..]);
        let block_bytes = u64::from(self.fs.superblock().block_size_bytes());
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
    /// `inode` is as [`Reader::with_mapping`] has it.
    pub(crate) fn fill<P: DerefMut<Target = [u8]>>(
        &self,
        inode: &Inode,
        start_bytes: u64,
        pages: &mut [P],
    ) -> Result<()> {
        let (fs, device) = (&self.fs, &*self.device);
        fill(fs, device, inode, start_bytes, pages, self.journals_content)?;
        if self.live.is_some() {
            zero_behind(pages, inode.size_bytes().saturating_sub(start_bytes));
        }
        Ok(())
    }

    /// Calls `run` with the present state of `inode`, whose mapping does not change meanwhile. Pages
    /// that are filled by it must be complete when `run` returns.
    pub(crate) fn with_mapping<R>(
        &self,
        inode: &Inode,
        run: impl FnOnce(&Inode) -> Result<R>,
    ) -> Result<R> {
        let Some(table) = &self.live else {
            return run(inode);
        };
        table.get(self, inode.ino()).with_mapping(|present| {
            check_same_file(inode, present)?;
            run(present)
        })
    }

    /// Reads into `buf` from the device. False if that failed, or the cache knows better.
    fn fill_past_cache(&self, inode: &Inode, at_bytes: u64, buf: &mut [u8]) -> bool {
        let bytes = at_bytes..at_bytes + buf.len() as u64;
        let is_dirty = |table: &LiveInodes| table.get(self, inode.ino()).is_dirty_in(bytes);
        !self.live.as_ref().is_some_and(is_dirty)
            && self
                .with_mapping(inode, |inode| self.fill(inode, at_bytes, &mut [buf]))
                .is_ok()
    }

    /// Calls `run` with the present state of inode `ino`, and on a volume that is written to with
    /// its `rw` shared: names, attributes and links stay as they are meanwhile.
    pub(crate) fn with_inode<R>(
        &self,
        ino: Ino,
        run: impl FnOnce(&Inode) -> Result<R>,
    ) -> Result<R> {
        let Some(table) = &self.live else {
            return run(&self.inode(ino)?);
        };
        let live = table.get(self, ino);
        let _stays = live.rw.read();
        run(&live.peek()?)
    }

    /// Reads content that lies in the inode; false if it does not.
    fn read_inline(&self, inode: &Inode, buf: &mut [u8], offset_bytes: u64) -> Result<bool> {
        if !inode.has_inline_data() {
            return Ok(false);
        }
        if self.live.is_none() {
            self.copy_inline(inode, buf, offset_bytes)?;
            return Ok(true);
        }
        self.with_inode(inode.ino(), |present| {
            check_same_file(inode, present)?;
            // It may have outgrown the inode since.
            if present.has_inline_data() {
                self.copy_inline(present, buf, offset_bytes)?;
            }
            Ok(present.has_inline_data())
        })
    }

    fn copy_inline(&self, inode: &Inode, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        let data = self.fs.inline_data(inode)?;
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
        let page_bytes = self.page_bytes();
        let end = offset_bytes + buf.len() as u64;
        let request = Request {
            inode,
            stream,
            pages: offset_bytes / page_bytes..end.div_ceil(page_bytes),
            ends_inside_page: !end.is_multiple_of(page_bytes),
            file_pages: inode.size_bytes().div_ceil(page_bytes),
        };
        let mut rest = buf;
        for index in request.pages.clone() {
            let from =
                usize::try_from(offset_bytes.saturating_sub(index * page_bytes)).unwrap_or(0);
            let len = rest.len().min(self.caches.pages.page_bytes() - from);
            let (part, behind) = rest.split_at_mut(len);
            rest = behind;
            match self.page(&request, index)? {
                Some(page) => {
                    part.copy_from_slice(&page[from..from + len]);
                    let end_bytes = index * page_bytes + (from + len) as u64;
                    let is_whole =
                        from == 0 && (len == page.len() || end_bytes == inode.size_bytes());
                    if keep == Keep::UsedAgain && is_whole && !page.is_referenced() {
                        drop(page);
                        self.caches.pages.remove(key(inode.ino(), index));
                    }
                }
                None => self.read_uncached(inode, index, part, from)?,
            }
        }
        let read = request.read(Trigger::Access, request.pages.end - 1, false);
        self.streams.end_read(stream, &read);
        Ok(())
    }

    /// The page `index`, cached or brought in; `None` if there is no room for it.
    #[inline]
    fn page(&self, request: &Request<'_>, index: u64) -> Result<Option<Page<'_>>> {
        if self.streams.wants_every_page() {
            self.access(request, index);
        }
        let page = match self.caches.pages.get(key(request.inode.ino(), index)) {
            Some(page) => Some(page),
            None => self.bring_in(request, index)?,
        };
        if let Some(page) = &page
            && page.take_marker()
        {
            self.read_ahead(request, index);
        }
        Ok(page)
    }

    /// Reads a part of page `index` past the cache.
    fn read_uncached(&self, inode: &Inode, index: u64, part: &mut [u8], from: usize) -> Result<()> {
        let mut page = vec![0; self.caches.pages.page_bytes()];
        let start_bytes = index * self.page_bytes();
        self.with_mapping(inode, |inode| {
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

/// Whether no name may lead to an inode: who wrote to the journal as to a file would destroy it.
fn belongs_to_file_system(sb: &Superblock, ino: Ino) -> bool {
    let is_reserved = ino.0 < sb.first_ino.0 && ino != Ino::ROOT;
    is_reserved
        || [sb.journal_ino, sb.orphan_file_ino].contains(&ino)
        || sb.quota_inos.contains(&ino)
}

/// That `present` is the file that had its number when `before` was read.
pub(crate) fn check_same_file(before: &Inode, present: &Inode) -> Result<()> {
    if before.generation() != present.generation() {
        return Err(larder_ext4::Error::StaleInode(before.ino()).into());
    }
    Ok(())
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

pub(crate) fn key(ino: Ino, index: u64) -> PageKey {
    PageKey {
        ino: ino.0.into(),
        index,
    }
}
