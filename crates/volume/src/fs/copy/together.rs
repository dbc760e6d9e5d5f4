//! Small files of the host, whose content is written together.

use super::content::{has_zero_block, read_full_at};
use super::error::CopyError;
use super::source::Source;
use crate::{ContentBuffers, ContentQueue, Ino, Volume};
use std::ops::Range;
use std::sync::Arc;

/// The size of a buffer for the content of several files, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// The maximum number of files in a batch.
const MAX_FILES: usize = 1024;

/// The maximum size of a file whose content is written together with that of others, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// Small files that were copied, and whose content is not in the image yet.
#[derive(Debug)]
pub(super) struct Together<'v> {
    volume: &'v Volume,
    queue: ContentQueue<'v>,
    buffers: ContentBuffers,
    buffer: Arc<Vec<u8>>,
    /// The files with content in `buffer`.
    files: Vec<(Ino, Range<usize>)>,
    /// The end of the content in `buffer`.
    end: usize,
}

impl<'v> Together<'v> {
    /// Returns `None` if `volume` writes content file by file.
    pub(super) fn new(volume: &'v Volume) -> crate::Result<Option<Self>> {
        let mut buffers = ContentBuffers::new(BUFFER_BYTES);
        let queue = volume.content_queue()?;
        Ok(queue.map(|queue| Self {
            volume,
            queue,
            buffer: buffers.take(),
            buffers,
            files: Vec::new(),
            end: 0,
        }))
    }

    /// Reads the content of `source` for the new file `ino`. Returns the length of the content. Returns `None` if the
    /// content must be copied on its own, because the file is large, has a block of zeros, or has grown.
    pub(super) fn add(&mut self, ino: Ino, source: &Source) -> Result<Option<u64>, CopyError> {
        let size_bytes = source.metadata.len();
        if size_bytes > MAX_FILE_BYTES {
            return Ok(None);
        }
        let size = usize::try_from(size_bytes).unwrap_or(usize::MAX);
        if BUFFER_BYTES - self.end <= size || self.files.len() >= MAX_FILES {
            self.push().map_err(CopyError::copy)?;
        }
        let buffer = Arc::get_mut(&mut self.buffer)
            .map(Vec::as_mut_slice)
            .unwrap_or_default();
        // One more byte shows whether the file has grown, or has content although its size is 0, as in /proc.
        let room = buffer
            .get_mut(self.end..)
            .and_then(|room| room.get_mut(..=size));
        let Some(room) = room else {
            return Ok(None);
        };
        let len = read_full_at(&source.file, room, 0).map_err(CopyError::source)?;
        if len > size || has_zero_block(self.volume, room.get(..len).unwrap_or_default()) {
            return Ok(None);
        }
        if len == 0 {
            return Ok(Some(0));
        }
        self.files.push((ino, self.end..self.end + len));
        self.end += len;
        Ok(Some(len as u64))
    }

    /// Returns when the content of all files is in the image.
    pub(super) fn finish(&mut self) -> crate::Result<()> {
        self.push()?;
        self.queue.finish()
    }

    fn push(&mut self) -> crate::Result<()> {
        let next = self.buffers.take();
        let buffer = std::mem::replace(&mut self.buffer, next);
        self.buffers.keep(Arc::clone(&buffer));
        self.end = 0;
        self.queue.push(buffer, std::mem::take(&mut self.files))
    }
}
