//! Advice on how a file will be used.
//!
//! Model: `posix_fadvise(2)` on Linux. The modes are the stream's; `WillNeed` and `DontNeed` act on
//! the page cache at once.

use crate::read::Reader;
use crate::stream::StreamRef;
use larder_ext4::Inode;
use larder_readahead::{Advice, pages_inside, pages_touched};
use std::ops::Range;

impl Reader {
    /// Takes `advice` on the bytes of `range`.
    pub(crate) fn advise(
        &self,
        inode: &Inode,
        stream: StreamRef<'_>,
        range: Range<u64>,
        advice: Advice,
    ) {
        let state = self.streams.advise(stream, advice);
        let page_bytes = self.inodes.page_bytes();
        let size_bytes = inode.size_bytes();
        let len_bytes = range.end.saturating_sub(range.start);
        // Empty, as the range is; to `pages_touched` and `pages_inside`, 0 is all of the file.
        if len_bytes == 0 || inode.has_inline_data() {
            return;
        }
        match advice {
            Advice::WillNeed => {
                let pages = pages_touched(range.start, len_bytes, page_bytes);
                let mut file = self.streamed_file(inode, stream);
                for window in state.will_need(pages, size_bytes.div_ceil(page_bytes)) {
                    file.queue(window.start.0..window.end().0, window.marker());
                }
            }
            Advice::DontNeed => {
                let pages = pages_inside(range.start, len_bytes, size_bytes, page_bytes);
                let ino = inode.ino().0.into();
                self.inodes.caches.pages.remove_range(ino, pages);
            }
            Advice::Normal | Advice::Sequential | Advice::Random => {}
        }
    }
}
