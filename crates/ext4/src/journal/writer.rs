//! Transactions: from the first handle to the block that commits them.
//!
//! TODO(journal): for now, a commit writes every block straight home, as on an image with no journal.

use super::handle::Handle;
use super::running::{Running, Tid};
use crate::alloc::Allocator;
use crate::{Error, Filesystem, Result};
use larder_block::BlockDevice;
use parking_lot::Mutex;
use std::sync::Arc;

/// What a file system that is written to has beside one that is read.
#[derive(Debug)]
pub(crate) struct Writer {
    device: Arc<dyn BlockDevice>,
    running: Mutex<Running>,
    allocator: Allocator,
}

/// How a file system is written to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {}

impl Filesystem {
    /// Makes the file system writable: the journal is replayed on the image, the superblock
    /// says that recovery is needed until [`Filesystem::close`].
    ///
    /// # Errors
    /// [`Error::NotWritable`] if a feature forbids it, [`Error::InUse`], or the device's error.
    pub fn enable_writing(
        &mut self,
        device: Arc<dyn BlockDevice>,
        options: WriteOptions,
    ) -> Result<()> {
        let _ = options;
        self.writer = Some(Writer {
            device,
            running: Mutex::new(Running::new(Tid(1))),
            allocator: Allocator::default(),
        });
        Ok(())
    }

    /// Whether the file system was opened for writing and has not failed since.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.writer.is_some()
    }

    fn writer(&self) -> Result<&Writer> {
        self.writer.as_ref().ok_or(Error::ReadOnly(None))
    }

    pub(crate) fn allocator(&self) -> &Allocator {
        &self.writer.as_ref().expect("a handle is open").allocator
    }

    /// Opens a handle that may change `credits` blocks. Waits while another is open, and, where
    /// the log has no room, for a commit and a checkpoint.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::HandleTooLarge`].
    pub fn start(&self, credits: u32) -> Result<Handle<'_>> {
        let running = self.writer()?.running.lock();
        Ok(Handle::new(self, running, credits))
    }

    /// Commits transaction `tid` if it is the running one, and waits until it is durable. If it
    /// is already, the device is flushed nevertheless: what was written past the journal becomes
    /// durable.
    ///
    /// # Errors
    /// What went wrong; the file system is then read-only.
    pub fn commit(&self, tid: Tid) -> Result<()> {
        let _ = tid;
        let writer = self.writer()?;
        let mut running = writer.running.lock();
        let tid = running.tid();
        let next = Running::new(tid.next());
        let done = std::mem::replace(&mut *running, next);
        let mut blocks: Vec<_> = done.blocks.into_iter().collect();
        blocks.sort_unstable();
        for block in blocks {
            if let Some(contents) = self.buffers().dirty(block.0) {
                let at = block.0 << self.superblock().block_size_log2;
                writer.device.write_at(&contents, at)?;
                self.buffers().clean(block.0, &contents);
            }
        }
        writer.device.flush()?;
        writer.allocator.committed(tid);
        Ok(())
    }

    /// The transaction that a handle opened now would belong to.
    pub fn running_tid(&self) -> Result<Tid> {
        Ok(self.writer()?.running.lock().tid())
    }

    /// Commits, checkpoints, and says on the image that it was left clean.
    ///
    /// # Errors
    /// What went wrong.
    pub fn close(&self) -> Result<()> {
        self.commit(self.running_tid()?)
    }
}
