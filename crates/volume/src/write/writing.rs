//! A write of a buffer to a file, in progress: the bytes that are left, and their offset.

use larder_ext4::Privilege;

/// A write of a buffer to a file, and its progress. Bytes are written in order.
#[derive(Debug)]
pub(crate) struct Writing<'b> {
    buf: &'b [u8],
    offset_bytes: u64,
    /// Whether `offset_bytes` is set to the end of the file when the write begins.
    appends: bool,
    done: usize,
    privilege: Privilege,
}

impl<'b> Writing<'b> {
    /// Creates a write of `buf` at `offset_bytes` of a file.
    pub(crate) fn new(buf: &'b [u8], offset_bytes: u64) -> Self {
        Self {
            buf,
            offset_bytes,
            appends: false,
            done: 0,
            privilege: Privilege::Ordinary,
        }
    }

    /// Creates a write of `buf` at the end of a file. The end is determined when the write begins.
    pub(crate) fn append(buf: &'b [u8]) -> Self {
        Self {
            appends: true,
            ..Self::new(buf, 0)
        }
    }

    /// Creates a write of content that a cache above the volume, such as the kernel's page cache,
    /// accepted earlier. The write may use the free space that
    /// [`Volume::set_aside`](crate::Volume::set_aside) keeps for such content.
    pub(crate) fn accepted(buf: &'b [u8], offset_bytes: u64) -> Self {
        Self {
            privilege: Privilege::Accepted,
            ..Self::new(buf, offset_bytes)
        }
    }

    /// Sets the offset of an append to `end_bytes`, the end of the file, unless the append has
    /// already begun.
    pub(super) fn begin(&mut self, end_bytes: u64) {
        if self.appends && self.done == 0 {
            self.offset_bytes = end_bytes;
        }
    }

    /// Returns the privilege with which space is reserved.
    pub(super) fn privilege(&self) -> Privilege {
        self.privilege
    }

    /// Returns whether all bytes have been written.
    pub(crate) fn is_done(&self) -> bool {
        self.done == self.buf.len()
    }

    /// Returns the file offset at which the write began.
    pub(crate) fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    /// Returns the number of bytes that have been written.
    pub(crate) fn done(&self) -> usize {
        self.done
    }

    /// Returns the file offset of the first byte that has not been written yet.
    pub(super) fn at(&self) -> u64 {
        self.offset_bytes.saturating_add(self.done as u64)
    }

    /// Returns the bytes that have not been written yet, up to the file offset `until`.
    pub(super) fn left(&self, until: u64) -> &'b [u8] {
        let left = &self.buf[self.done..];
        let len = usize::try_from(until.saturating_sub(self.at()));
        &left[..len.map_or(left.len(), |len| len.min(left.len()))]
    }

    /// Records that all bytes before the file offset `at` have been written.
    pub(super) fn advance_to(&mut self, at: u64) {
        self.done += self.left(at).len();
    }
}
