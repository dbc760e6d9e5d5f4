//! Content: from the page cache, and into it.
//!
//! Model: `filemap_read`. A page that is cached is pinned, copied and
//! released. On a miss, the pages that the reader waits for are inserted
//! locked, the readahead policy is asked for a window, what it wants beyond
//! them is handed to the readahead threads, and only then are the reader's own
//! pages read: nobody waits for what he did not ask for.
//!
//! Locking: a reader never waits for a page while it holds locked pages of its
//! own, so that no two readers wait for each other.

use crate::fill::fill;
use crate::readahead::{Job, Queue, Streams};
use crate::{Error, FileKind, Result};
use larder_block::{BlockDevice, CountingDevice};
use larder_cache::Caches;
use larder_cache::page::{Entry, NewPage, Page, PageKey};
use larder_ext4::ondisk::inode::InodeFlags;
use larder_ext4::{Filesystem, Ino, Inode};
use larder_readahead::{PageIndex, Read, Residency, Trigger, Window, Windows};
use std::ops::{DerefMut, Range};
use std::sync::Arc;

/// The most pages that one reader reads at once.
const BATCH_PAGES: u64 = 256;

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
    pub(crate) streams: Streams,
    pub(crate) queue: Queue,
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
struct Request {
    pages: Range<u64>,
    file_pages: u64,
    /// Up to here the request brought its pages in itself, and uses them for the
    /// first time.
    brought_in_until: u64,
}

impl Reader {
    fn page_bytes(&self) -> u64 {
        self.caches.pages.page_bytes() as u64
    }

    /// Fills `buf` from `offset_bytes` of the file; less only at its end.
    pub(crate) fn read_at(
        &self,
        inode: &Inode,
        buf: &mut [u8],
        offset_bytes: u64,
        keep: Keep,
    ) -> Result<usize> {
        let buf = content_within(inode, buf, offset_bytes)?;
        if buf.is_empty() {
            return Ok(0);
        }
        if inode.has_inline_data() {
            return self.read_inline(inode, buf, offset_bytes);
        }
        self.read_pages(inode, buf, offset_bytes, keep)?;
        Ok(buf.len())
    }

    /// As [`Reader::read_at`], but from the first page on that is not cached, all
    /// is read into `buf` in one go, and not kept.
    pub(crate) fn read_past_cache(
        &self,
        inode: &Inode,
        buf: &mut [u8],
        offset_bytes: u64,
    ) -> Result<usize> {
        let buf = content_within(inode, buf, offset_bytes)?;
        if inode.has_inline_data() {
            return self.read_inline(inode, buf, offset_bytes);
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
            || at.is_multiple_of(block_bytes) && self.fill(inode, at, &mut [&mut *rest]).is_ok();
        if !is_read {
            // Page by page, what is damaged is told from what is not.
            self.read_pages(inode, rest, at, Keep::UsedAgain)?;
        }
        Ok(buf.len())
    }

    fn fill<P: DerefMut<Target = [u8]>>(
        &self,
        inode: &Inode,
        start_bytes: u64,
        pages: &mut [P],
    ) -> Result<()> {
        fill(&self.fs, &*self.device, inode, start_bytes, pages)
    }

    fn read_inline(&self, inode: &Inode, buf: &mut [u8], offset_bytes: u64) -> Result<usize> {
        let data = self.fs.inline_data(inode)?;
        let start = usize::try_from(offset_bytes).unwrap_or(usize::MAX);
        // The part of the file behind what is stored reads as zeros.
        buf.fill(0);
        if let Some(stored) = data.get(start..) {
            let len = stored.len().min(buf.len());
            buf[..len].copy_from_slice(&stored[..len]);
        }
        Ok(buf.len())
    }

    fn read_pages(
        &self,
        inode: &Inode,
        buf: &mut [u8],
        offset_bytes: u64,
        keep: Keep,
    ) -> Result<()> {
        let page_bytes = self.page_bytes();
        let end = offset_bytes + buf.len() as u64;
        let mut request = Request {
            pages: offset_bytes / page_bytes..end.div_ceil(page_bytes),
            file_pages: inode.size_bytes().div_ceil(page_bytes),
            brought_in_until: 0,
        };
        let mut rest = buf;
        for index in request.pages.clone() {
            let from =
                usize::try_from(offset_bytes.saturating_sub(index * page_bytes)).unwrap_or(0);
            let len = rest.len().min(self.caches.pages.page_bytes() - from);
            let (part, behind) = rest.split_at_mut(len);
            rest = behind;
            match self.page(inode, index, &mut request)? {
                Some(page) => {
                    part.copy_from_slice(&page[from..from + len]);
                    let end_bytes = index * page_bytes + (from + len) as u64;
                    let is_whole =
                        from == 0 && (len == page.len() || end_bytes == inode.size_bytes());
                    let is_first_use = index < request.brought_in_until || !page.is_referenced();
                    if keep == Keep::UsedAgain && is_whole && is_first_use {
                        drop(page);
                        self.caches.pages.remove(key(inode.ino(), index));
                    }
                }
                None => self.read_uncached(inode, index, part, from)?,
            }
        }
        self.streams.end_read(inode.ino(), request.pages.end - 1);
        Ok(())
    }

    /// The page `index`, cached or brought in; `None` if there is no room for it.
    #[inline]
    fn page(&self, inode: &Inode, index: u64, request: &mut Request) -> Result<Option<Page<'_>>> {
        let page = match self.caches.pages.get(key(inode.ino(), index)) {
            Some(page) => Some(page),
            None => self.bring_in(inode, index, request)?,
        };
        if let Some(page) = &page
            && page.take_marker()
        {
            self.read_ahead(inode, index, request);
        }
        Ok(page)
    }

    /// Reads page `index` and those behind it that the request misses as well.
    #[cold]
    fn bring_in(
        &self,
        inode: &Inode,
        index: u64,
        request: &mut Request,
    ) -> Result<Option<Page<'_>>> {
        let pages = &self.caches.pages;
        let mut own = loop {
            match pages.get_or_insert(key(inode.ino(), index)) {
                Entry::Uptodate(page) => return Ok(Some(page)),
                Entry::Busy(wait) => {
                    if let Some(page) = wait.wait() {
                        return Ok(Some(page));
                    }
                    // Whoever read it failed: it is gone, and ours to try.
                }
                Entry::New(page) => break vec![page],
                Entry::Full => return Ok(None),
            }
        };
        let last = request.pages.end.min(index + BATCH_PAGES);
        own.extend((index + 1..last).map_while(|next| pages.insert_absent(key(inode.ino(), next))));
        request.brought_in_until = index + own.len() as u64;
        let windows = self.decide(inode, Trigger::Miss, index, request);
        // Without an asynchronous part, a window is the request, which is taken care of.
        for window in windows.into_iter().filter(|window| window.async_size > 0) {
            let place = |page: PageIndex| usize::try_from(page.0.checked_sub(index)?).ok();
            let marked = window.marker().and_then(place);
            if let Some(page) = marked.filter(|at| *at > 0).and_then(|at| own.get_mut(at)) {
                page.set_marker();
            }
            self.queue_window(inode, window);
            if marked == Some(0) {
                // The request fills its window: the next one goes before the wait for this one.
                self.read_ahead(inode, index, request);
            }
        }
        let first = self.fill_each(inode, index, own)?;
        Ok(Some(self.caches.pages.complete(first)))
    }

    /// Sets off the window that a read of page `index` calls for.
    #[cold]
    fn read_ahead(&self, inode: &Inode, index: u64, request: &Request) {
        for window in self.decide(inode, Trigger::Marker, index, request) {
            self.queue_window(inode, window);
        }
    }

    fn decide(&self, inode: &Inode, trigger: Trigger, index: u64, request: &Request) -> Windows {
        let read = Read {
            trigger,
            index: PageIndex(index),
            request_start: PageIndex(request.pages.start),
            request_pages: u32::try_from(request.pages.end - request.pages.start)
                .unwrap_or(u32::MAX),
            ends_inside_page: false,
            by_fault: false,
            file_pages: request.file_pages,
            congested: self.queue.is_congested(),
        };
        let resident = CachedPages {
            reader: self,
            ino: inode.ino(),
        };
        self.streams.decide(inode.ino(), &read, &resident)
    }

    /// Queues those pages of `window` that are neither cached nor being read.
    fn queue_window(&self, inode: &Inode, window: Window) {
        let mut run: Vec<NewPage> = Vec::new();
        let mut is_counted = false;
        for index in window.start.0..window.end().0 {
            if let Some(mut page) = self.caches.pages.insert_absent(key(inode.ino(), index)) {
                page.set_readahead();
                if !is_counted {
                    is_counted = true;
                    self.streams.count_window();
                }
                if window.marker() == Some(PageIndex(index)) {
                    page.set_marker();
                }
                run.push(page);
            } else {
                self.queue_run(inode, index, &mut run);
            }
        }
        self.queue_run(inode, window.end().0, &mut run);
    }

    /// Queues the pages of `run`, which end before page `end`.
    fn queue_run(&self, inode: &Inode, end: u64, run: &mut Vec<NewPage>) {
        if !run.is_empty() {
            self.queue.push(Job {
                inode: *inode,
                first: end - run.len() as u64,
                pages: std::mem::take(run),
            });
        }
    }

    /// Does what was queued. An error is for whoever asks for the page.
    pub(crate) fn run(&self, job: Job) {
        let ino = job.inode.ino();
        match self.fill_each(&job.inode, job.first, job.pages) {
            Ok(first) => first.complete(),
            Err(error) => tracing::debug!(%ino, %error, "readahead failed"),
        }
    }

    /// Fills contiguous pages, together if possible, else one by one, so that
    /// a damaged block costs only its own page. Completes all but the first,
    /// which it returns: whoever waits for a page finds it with no pin of ours.
    fn fill_each(&self, inode: &Inode, index: u64, mut pages: Vec<NewPage>) -> Result<NewPage> {
        let page_bytes = self.page_bytes();
        let together = self.fill(inode, index * page_bytes, &mut pages).is_ok();
        let mut filled = (index..).zip(pages).map(|(index, mut page)| {
            if !together {
                let alone = std::slice::from_mut(&mut page);
                self.fill(inode, index * page_bytes, alone)?;
            }
            Ok(page)
        });
        let first = filled.next().expect("a batch has at least one page");
        filled.flatten().for_each(NewPage::complete);
        first
    }

    /// Reads a part of page `index` past the cache.
    fn read_uncached(&self, inode: &Inode, index: u64, part: &mut [u8], from: usize) -> Result<()> {
        let mut page = vec![0; self.caches.pages.page_bytes()];
        self.fill(
            inode,
            index * self.page_bytes(),
            std::slice::from_mut(&mut page),
        )?;
        part.copy_from_slice(&page[from..from + part.len()]);
        Ok(())
    }
}

/// The part of `buf` that content at `offset_bytes` can fill.
fn content_within<'b>(inode: &Inode, buf: &'b mut [u8], offset_bytes: u64) -> Result<&'b mut [u8]> {
    match inode.kind() {
        FileKind::Regular => {}
        FileKind::Directory => return Err(Error::IsDirectory(inode.ino())),
        _ => return Err(Error::NotRegular(inode.ino())),
    }
    if inode.flags().contains(InodeFlags::ENCRYPT) {
        return Err(larder_ext4::Error::Encrypted(inode.ino()).into());
    }
    let left = inode.size_bytes().saturating_sub(offset_bytes);
    let len = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
    Ok(&mut buf[..len])
}

/// The pages of one file that are cached or being read.
struct CachedPages<'a> {
    reader: &'a Reader,
    ino: Ino,
}

impl Residency for CachedPages<'_> {
    fn is_resident(&self, page: PageIndex) -> bool {
        self.reader.caches.pages.contains(key(self.ino, page.0))
    }
}

fn key(ino: Ino, index: u64) -> PageKey {
    PageKey {
        ino: ino.0.into(),
        index,
    }
}
