//! The content of small files of an archive, which is written in batches: all files with content in the same chunk.

use super::tree::of_volume;
use larder::{ContentQueue, Ino, Volume};
use larder_console::Result;
use std::ops::Range;
use std::sync::Arc;

/// Files, and their contents as parts of a chunk.
type Files = Vec<(Ino, Range<usize>)>;

/// The content of small files that is not in the image yet.
#[derive(Debug)]
pub(super) struct Contents<'v> {
    queue: ContentQueue<'v>,
    chunk: Arc<Vec<u8>>,
    /// The files with content in `chunk`.
    files: Files,
    /// The files of an earlier chunk.
    complete: Option<(Arc<Vec<u8>>, Files)>,
}

impl<'v> Contents<'v> {
    /// Returns the contents for `volume`; `None` if content must be written file by file.
    pub(super) fn new(volume: &'v Volume) -> Result<Option<Self>> {
        let queue = volume.content_queue().map_err(|error| of_volume(&error))?;
        Ok(queue.map(|queue| Self {
            queue,
            chunk: Arc::default(),
            files: Vec::new(),
            complete: None,
        }))
    }

    /// Adds the content of the new file `ino`: a part of `chunk`. The caller must then call [`Contents::write_complete`].
    pub(super) fn add(&mut self, ino: Ino, chunk: Arc<Vec<u8>>, content: Range<usize>) {
        if !Arc::ptr_eq(&self.chunk, &chunk) {
            let chunk = std::mem::replace(&mut self.chunk, chunk);
            let files = std::mem::take(&mut self.files);
            self.complete = (!files.is_empty()).then_some((chunk, files));
        }
        self.files.push((ino, content));
    }

    /// Writes the content of the files of an earlier chunk.
    pub(super) fn write_complete(&mut self) -> Result<()> {
        match self.complete.take() {
            Some((chunk, files)) => {
                let pushed = self.queue.push(chunk, files);
                pushed.map_err(|error| of_volume(&error))
            }
            None => Ok(()),
        }
    }

    /// Writes the content of all files, and returns when it is in the image.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.write_complete()?;
        let chunk = std::mem::take(&mut self.chunk);
        let files = std::mem::take(&mut self.files);
        let pushed = self.queue.push(chunk, files);
        let finished = pushed.and_then(|()| self.queue.finish());
        finished.map_err(|error| of_volume(&error))
    }
}
