//! The content of many new files, which is written to the device while the caller creates more files.
//!
//! Content that is written file by file passes through the page cache: it is copied there, and each page is found,
//! pinned, written, and released. For a small file, this takes longer than the creation of the file. A [`ContentQueue`]
//! leaves the page cache out, and writes the content of many files with one device write.
//!
//! # Steps
//! 1. [`ContentQueue::push`] claims blocks for a batch of files, in memory.
//! 2. The thread of the queue writes the content to the device. Claims of files that are pushed together are mostly
//!    adjacent, so that their content is one device write.
//! 3. A later `push`, or [`ContentQueue::finish`], maps the blocks and sets the sizes of the files. One handle does this
//!    for several files.
//!
//! If a step fails, files of the queue can stay empty. Every later call then returns an error, so that the caller
//! notices the loss. For example, if a change finds no space, a caller may call [`ContentQueue::finish`] to release
//! space, and then repeat the change. If `finish` succeeded, the caller would not notice that earlier files are empty.
//!
//! As in all writes, blocks are mapped only after their content is on the device. Until then, the files are empty. The
//! thread of the caller performs the steps 1 and 3, at points that depend only on the calls. So the same calls lead to the
//! same allocation of blocks.
//!
//! # Locking
//! No lock is held between the steps. Step 3 locks `rw`, `writeback` and `map` of all files of the batch, and fails if a
//! file is not empty any more.

use crate::write::content_batch::{Batch, map_batch, write_content};
use crate::{Errno, Ino, Result, Volume, background};
use larder_ext4::ondisk::features::Incompat;
use larder_ext4::{Error, MemoryOnly};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// The maximum number of batches that have passed step 1, but not step 3.
const BATCHES_IN_FLIGHT: usize = 2;

/// The inode numbers of new files, and their contents as parts of a buffer.
type Files = Vec<(Ino, Range<usize>)>;

/// A queue of the content of new files. See [`Volume::content_queue`].
#[derive(Debug)]
pub struct ContentQueue<'v> {
    volume: &'v Volume,
    thread: ContentThread,
    in_flight: usize,
    /// The errno of the first failure.
    failed: Option<Errno>,
}

/// The thread that writes content to the device. It owns no reference to a volume.
#[derive(Debug)]
struct ContentThread {
    /// `None` after the end of the queue.
    to_write: Option<Sender<Batch>>,
    written: Receiver<(Batch, Result<()>)>,
    thread: Option<JoinHandle<()>>,
}

impl Volume {
    /// Returns a queue for the content of new files, and starts its thread. Returns `None` if content must be written
    /// file by file, because small files are stored in their inodes (feature `inline_data`), or content is journaled.
    ///
    /// # Errors
    /// `EROFS`, or an error of the thread.
    pub fn content_queue(&self) -> Result<Option<ContentQueue<'_>>> {
        let fs = self.fs();
        if fs.journals_content() || fs.superblock().incompat.contains(Incompat::INLINE_DATA) {
            return Ok(None);
        }
        if !fs.is_writable() {
            return Err(Error::ReadOnly(fs.failure()).into());
        }
        let (to_write, batches) = channel::<Batch>();
        let (done, written) = channel();
        let write_back = Arc::clone(self.writer.write_back());
        let panicked = "the thread that writes the content of new files panicked";
        let thread = background::spawn(&self.inodes, "larder-content", panicked, move || {
            for batch in batches {
                let result = write_content(&write_back, &batch);
                if done.send((batch, result)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Some(ContentQueue {
            volume: self,
            thread: ContentThread {
                to_write: Some(to_write),
                written,
                thread: Some(thread),
            },
            in_flight: 0,
            failed: None,
        }))
    }
}

impl ContentQueue<'_> {
    /// Adds the content of `files`: for each, its inode number, and its content as a part of `buffer`. The files must be
    /// regular, empty, and different from each other. Until [`ContentQueue::finish`] returns, no other operation may
    /// change or delete them.
    ///
    /// The times of the files do not change.
    ///
    /// # Errors
    /// `ENOSPC`, `EINVAL` if a file is not empty, `EROFS`, …, or an error of the image, also for files that were added
    /// earlier. After an error, files of the queue can stay empty, and all later calls fail with the same errno.
    pub fn push(
        &mut self,
        buffer: Arc<Vec<u8>>,
        mut files: Vec<(Ino, Range<usize>)>,
    ) -> Result<()> {
        files.sort_unstable_by_key(|(ino, _)| *ino);
        self.unless_failed(|queue| queue.push_sorted(buffer, files))
    }

    /// Performs `step`, unless an earlier one has failed.
    fn unless_failed(&mut self, step: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        match self.failed {
            None => step(self).inspect_err(|error| self.failed = Some(error.errno())),
            Some(Errno::NOSPC) => Err(Error::NoSpace.into()),
            Some(errno) => Err(crate::Error::Errno(errno)),
        }
    }

    /// Adds files in the order of their inode numbers, as one batch, or as several batches if space is short. Until a
    /// batch is mapped, it reserves the space that its mapping needs in the worst case.
    fn push_sorted(&mut self, buffer: Arc<Vec<u8>>, mut files: Files) -> Result<()> {
        while self.in_flight >= BATCHES_IN_FLIGHT {
            self.map_next()?;
        }
        let writer = &self.volume.writer;
        let place = || writer.place_batch(Arc::clone(&buffer), files.clone());
        let batch = match writer.change_once(place) {
            Err(error) if error.is_no_space() && self.in_flight > 0 => {
                self.map_all()?;
                return self.push_sorted(buffer, files);
            }
            Err(error) if error.is_no_space() && files.len() > 1 => {
                let others = files.split_off(files.len() / 2);
                self.push_sorted(Arc::clone(&buffer), files)?;
                return self.push_sorted(buffer, others);
            }
            placed => placed?,
        };
        let queue = self.thread.to_write.as_ref();
        let sent = queue.map(|queue| queue.send(batch));
        if !matches!(sent, Some(Ok(()))) {
            return Err(self.lost_thread());
        }
        self.in_flight += 1;
        Ok(())
    }

    /// Returns when all files that were added have their content.
    ///
    /// # Errors
    /// The same as for [`ContentQueue::push`].
    pub fn finish(&mut self) -> Result<()> {
        self.unless_failed(Self::map_all)
    }

    fn map_all(&mut self) -> Result<()> {
        while self.in_flight > 0 {
            self.map_next()?;
        }
        Ok(())
    }

    /// Waits until the content of the oldest batch is on the device, and maps it.
    fn map_next(&mut self) -> Result<()> {
        MemoryOnly::check_may_wait()?;
        let (batch, written) = self.thread.written.recv().map_err(|_| self.lost_thread())?;
        self.in_flight -= 1;
        written?;
        let writer = &self.volume.writer;
        writer.change_once(|| map_batch(writer.inodes(), batch))
    }

    fn lost_thread(&self) -> crate::Error {
        let what = "the thread that writes the content of new files has ended";
        self.volume.fs().broken(what).into()
    }
}

impl Drop for ContentThread {
    /// Waits until the thread has ended. The thread drops a batch only after it has written the content, because other
    /// files may use the blocks of a dropped batch.
    fn drop(&mut self) {
        self.to_write = None;
        if let Some(thread) = self.thread.take() {
            // A panic was caught and logged in the thread.
            let _ = thread.join();
        }
    }
}
