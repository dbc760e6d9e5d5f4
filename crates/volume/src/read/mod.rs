//! Reads content through the page cache.
//!
//! Model: `filemap_read`. A cached page is pinned, copied and released, normally without a lock. [`stream`]
//! describes when a hit takes a lock. [`streamed_file`] handles misses and readahead markers.

mod in_flight;
mod measured;
mod runs;
mod share;
mod stream;
mod streamed_file;

use crate::fill::PageFiller;
use crate::live::{Inodes, LiveInodes, check_same_file, key};
use crate::stats::ReadaheadStats;
use crate::{Advice, Error, FileKind, Result};
use larder_cache::tape::{CallerScope, ReadEvent, Tape};
use larder_ext4::Inode;
use larder_ext4::ondisk::inode::InodeFlags;
use larder_readahead::driver::{Driver, Request};
use larder_readahead::{Off, PageIndex, PolicyName, pages_inside, pages_touched};
use runs::Runs;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;
use stream::Streams;
pub(crate) use stream::{Limits, Stream, StreamRef};
use streamed_file::{BATCH_PAGES, StreamedFile};

/// Reads the content of files. If no page is free, reads without the cache. A read never writes
/// back dirty pages to free a page.
#[derive(Debug)]
pub(crate) struct Reader {
    inodes: Arc<Inodes>,
    filler: PageFiller,
    streams: Streams,
    runs: Runs,
    /// The tape that records reads, if there is one.
    tape: Option<Arc<dyn Tape>>,
}

/// Which pages stay cached after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// All pages stay cached until their memory is needed.
    All,
    /// A page is evicted if the read returned all of its content and the page was not used before.
    /// This is for callers that cache the content themselves. The next page can then use the same
    /// frame, which is still in the cache of the processor.
    UsedAgain,
    /// The read adds no pages to the cache: starting with the first page that is not cached,
    /// everything is read directly into the buffer. If this is not possible, the rest is read as
    /// with [`Keep::UsedAgain`].
    Cached,
}

impl Reader {
    /// Creates a reader, whose readahead windows are limited by `limits`. `tape` records its reads.
    pub(crate) fn new(
        inodes: &Arc<Inodes>,
        filler: PageFiller,
        policy: PolicyName,
        limits: Limits,
        tape: Option<Arc<dyn Tape>>,
    ) -> Self {
        let cache_pages = inodes.caches.pages.frames().capacity();
        let most = usize::try_from(cache_pages).unwrap_or(usize::MAX);
        let streams = Streams::new(
            policy.policy(),
            limits,
            BATCH_PAGES,
            cache_pages,
            &filler.device,
        );
        let runs = Runs::new(filler.clone(), most, streams.balance().cloned());
        Self {
            inodes: Arc::clone(inodes),
            streams,
            runs,
            filler,
            tape: tape.filter(|tape| tape.records_reads()),
        }
    }

    /// Returns the readahead policy, and the streams of files that are read by inode number.
    pub(crate) fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Returns the readahead statistics.
    pub(crate) fn stats(&self) -> ReadaheadStats {
        let counts = self.filler.pages().readahead_counts();
        ReadaheadStats {
            policy: self.streams.policy_name(),
            max_bytes: u64::from(self.streams.max_pages()) * self.inodes.page_bytes(),
            exact: self.streams.is_exact(),
            windows: self.streams.windows(),
            pages_ahead: counts.pages_ahead,
            pages_used: counts.pages_used,
            pages_wasted: counts.pages_wasted,
        }
    }

    /// Returns the readahead driver. Its policy is that of the streams or, if the device does not want
    /// readahead, `off`.
    fn driver(&self) -> Driver {
        if self.filler.device.wants_readahead() {
            self.streams.driver()
        } else {
            Driver::new(&Off)
        }
    }

    /// Returns the object through which the readahead driver reads the file of `inode`. Its readahead
    /// state is `stream`.
    fn streamed_file<'r>(&'r self, inode: &'r Inode, stream: StreamRef<'r>) -> StreamedFile<'r> {
        StreamedFile::new(
            inode,
            stream,
            &self.streams,
            self.filler.pages(),
            &self.runs,
        )
    }

    /// Applies `advice` to the stream, or to the pages of `range`.
    ///
    /// Model: `posix_fadvise(2)` on Linux. `Normal`, `Sequential` and `Random` change how the
    /// stream reads ahead from now on. `WillNeed` starts to read pages of `range`, and `DontNeed`
    /// evicts pages. These two do not change the stream.
    pub(crate) fn advise(
        &self,
        inode: &Inode,
        stream: StreamRef<'_>,
        range: Range<u64>,
        advice: Advice,
    ) {
        self.streams.advise(stream, advice);
        let page_bytes = self.inodes.page_bytes();
        let size_bytes = inode.size_bytes();
        let len_bytes = range.end.saturating_sub(range.start);
        // For this function, a length of 0 means an empty range. For `pages_touched` and
        // `pages_inside`, it would mean a range to the end of the file.
        if len_bytes == 0 || inode.has_inline_data() {
            return;
        }
        match advice {
            Advice::WillNeed => {
                let pages = pages_touched(range.start, len_bytes, page_bytes);
                let mut file = self.streamed_file(inode, stream);
                let windows = self
                    .streams
                    .lock(stream)
                    .will_need(pages, size_bytes.div_ceil(page_bytes));
                for window in windows {
                    file.start_window(window);
                }
            }
            Advice::DontNeed => {
                let pages = pages_inside(range.start, len_bytes, size_bytes, page_bytes);
                let ino = inode.ino().0.into();
                self.filler.pages().remove_range(ino, pages);
            }
            Advice::Normal | Advice::Sequential | Advice::Random => {}
        }
    }

    /// Reads from `offset_bytes` of the file into `buf`. Returns the number of bytes read, which is
    /// less than the length of `buf` only at the end of the file.
    pub(crate) fn read(
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
        let began = self.tape.as_ref().map(|tape| (tape, Instant::now()));
        if keep == Keep::Cached {
            self.read_past_cache(inode, stream, buf, offset_bytes)?;
        } else {
            self.read_pages(inode, stream, buf, offset_bytes, keep)?;
        }
        if let Some((tape, began)) = began {
            tape.record_read(&ReadEvent {
                ino: inode.ino().0.into(),
                offset_bytes,
                len_bytes: buf.len(),
                file_bytes: inode.size_bytes(),
                stream: stream.number(),
                thread: CallerScope::thread(),
                duration: began.elapsed(),
            });
        }
        Ok(buf.len())
    }

    /// Copies cached pages into `buf` up to the first page that is not cached. Reads everything after
    /// that from the device into `buf` or, if this is not possible, page by page through the cache.
    fn read_past_cache(
        &self,
        inode: &Inode,
        stream: StreamRef<'_>,
        buf: &mut [u8],
        offset_bytes: u64,
    ) -> Result<()> {
        let (pages, page_bytes) = (self.filler.pages(), self.inodes.page_bytes());
        let mut done = 0;
        while done < buf.len() {
            let at = offset_bytes + done as u64;
            let Some(page) = pages.get(key(inode.ino(), at / page_bytes)) else {
                break;
            };
            let from = usize::try_from(at % page_bytes).unwrap_or(0);
            let len = (buf.len() - done).min(page.len() - from);
            buf[done..done + len].copy_from_slice(&page[from..from + len]);
            done += len;
        }
        let (at, rest) = (offset_bytes + done as u64, &mut buf[done..]);
        let is_read = rest.is_empty()
            || at.is_multiple_of(self.inodes.block_bytes())
                && self.fill_past_cache(inode, at, rest)?;
        if is_read {
            return Ok(());
        }
        // Read the remaining bytes page by page, so that an unreadable block affects only its own
        // page.
        self.read_pages(inode, stream, rest, at, Keep::UsedAgain)
    }

    /// Reads from the device into `buf`. Returns false if the read failed, or if the page cache has
    /// newer content.
    ///
    /// # Errors
    /// The device did not answer within its timeout. The caller must then not try another read, which
    /// would wait as long again.
    fn fill_past_cache(&self, inode: &Inode, at_bytes: u64, buf: &mut [u8]) -> Result<bool> {
        let bytes = at_bytes..at_bytes + buf.len() as u64;
        let is_dirty =
            |table: &LiveInodes| self.inodes.in_use(table, inode.ino()).is_dirty_in(bytes);
        if self.inodes.live.as_ref().is_some_and(is_dirty) {
            return Ok(false);
        }
        let fill = |inode: &Inode| self.filler.fill(inode, at_bytes, &mut [buf]);
        match self.inodes.with_mapping(inode, fill) {
            Err(error) if error.is_deadline() => Err(error),
            filled => Ok(filled.is_ok()),
        }
    }

    /// Reads content that is stored in the inode (inline data). Returns false if the content is not
    /// stored in the inode.
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
            // A write may have moved the content out of the inode since `inode` was loaded.
            if present.has_inline_data() {
                self.copy_inline(present, buf, offset_bytes)?;
            }
            Ok(present.has_inline_data())
        })
    }

    fn copy_inline(&self, inode: &Inode, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        let data = self.inodes.fs.inline_data(inode)?;
        let start = usize::try_from(offset_bytes).unwrap_or(usize::MAX);
        // The part of the file after the stored content reads as zeros.
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
        let mut file = self.streamed_file(inode, stream);
        file.copy_state();
        let done = self.read_request(inode, &mut file, &request, buf, offset_bytes, keep);
        file.store_state();
        done
    }

    /// Copies the pages of `request` to `buf`, and reads the pages that are not cached.
    fn read_request(
        &self,
        inode: &Inode,
        file: &mut StreamedFile<'_>,
        request: &Request,
        buf: &mut [u8],
        offset_bytes: u64,
        keep: Keep,
    ) -> Result<()> {
        let page_bytes = self.inodes.page_bytes();
        let driver = self.driver();
        let mut rest = buf;
        for index in request.pages.clone() {
            let from =
                usize::try_from(offset_bytes.saturating_sub(index * page_bytes)).unwrap_or(0);
            let len = rest.len().min(self.filler.pages().page_bytes() - from);
            let (part, next) = rest.split_at_mut(len);
            rest = next;
            match driver.page(file, request, PageIndex(index))? {
                Some(page) => {
                    part.copy_from_slice(&page[from..from + len]);
                    let end_bytes = index * page_bytes + (from + len) as u64;
                    let is_whole =
                        from == 0 && (len == page.len() || end_bytes == inode.size_bytes());
                    if keep == Keep::UsedAgain && is_whole && !page.is_referenced() {
                        drop(page);
                        self.filler.pages().remove(key(inode.ino(), index));
                    }
                }
                None => self.read_uncached(inode, index, part, from)?,
            }
        }
        file.end_read(request);
        Ok(())
    }

    /// Reads a part of page `index` without the cache. The part starts at byte `from` of the page.
    fn read_uncached(&self, inode: &Inode, index: u64, part: &mut [u8], from: usize) -> Result<()> {
        let mut page = vec![0; self.filler.pages().page_bytes()];
        let start_bytes = index * self.inodes.page_bytes();
        self.inodes.with_mapping(inode, |inode| {
            self.filler
                .fill(inode, start_bytes, std::slice::from_mut(&mut page))
        })?;
        part.copy_from_slice(&page[from..from + part.len()]);
        Ok(())
    }
}

/// Checks that the inode is a regular file that is not encrypted.
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

/// Returns the start of `buf`, truncated to the number of bytes between `offset_bytes` and the end of
/// the file.
fn content_within<'b>(inode: &Inode, buf: &'b mut [u8], offset_bytes: u64) -> Result<&'b mut [u8]> {
    check_content(inode)?;
    let left = inode.size_bytes().saturating_sub(offset_bytes);
    let len = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
    Ok(&mut buf[..len])
}
