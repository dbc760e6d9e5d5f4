//! Closing a file system.

use super::writer::{Journal, Writer};
use crate::{Filesystem, Result};

impl Filesystem {
    /// Commits, checkpoints, and marks the image as clean. Nothing can be written afterwards.
    ///
    /// # Errors
    /// The error of the commit, the checkpoint or the device, or [`Aborted`](crate::Error::Aborted) if
    /// writing failed earlier.
    pub fn close(&self) -> Result<()> {
        let writer = self.writer()?;
        writer.progress.check()?;
        let tid = {
            let mut running = writer.running.lock();
            if std::mem::replace(&mut running.is_closed, true) {
                return Ok(());
            }
            running.tid()
        };
        self.commit(tid)?;
        self.checkpoint()?;
        self.abort_on_error(self.mark_clean(writer))
    }

    /// Empties the journal, and marks the image as cleanly unmounted.
    fn mark_clean(&self, writer: &Writer) -> Result<()> {
        if let Some(Journal { log, logged }) = &writer.journal {
            log.write_tail(0, logged.head().1)?;
            writer.device.flush()?;
        }
        let (free_blocks, free_inodes) = self.free_counts()?;
        self.mark_closed(&*writer.device, writer.now.get(), free_blocks, free_inodes)
    }
}
