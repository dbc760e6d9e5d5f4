//! The state in the superblock: in use, or cleanly unmounted.

use crate::ondisk::features::{Compat, RoCompat};
use crate::ondisk::superblock::State;
use crate::ondisk::time::Timestamp;
use crate::{Filesystem, Result};
use larder_block::BlockDevice;

impl Filesystem {
    /// Marks the image as in use: counts a mount, and marks it as needing recovery (with a journal)
    /// or as not valid (without one). As in the kernel, the orphan file is marked as having orphans
    /// until [`Filesystem::mark_closed`]. The mark of the orphan file is written directly, too. If
    /// it were part of a transaction, the image would be inconsistent until the journal is
    /// replayed, and e2fsck checks the image before it replays the journal.
    ///
    /// # Errors
    /// As [`Filesystem::update_superblock`].
    pub fn mark_opened(&self, device: &dyn BlockDevice, now: Timestamp) -> Result<()> {
        let has_journal = self.superblock().compat.contains(Compat::HAS_JOURNAL);
        let has_orphan_file = self.has_orphan_file();
        self.write_superblock(device, |superblock| {
            superblock.count_mount(now);
            superblock.set_written(now);
            if has_orphan_file {
                superblock.set_ro_compat(RoCompat::ORPHAN_PRESENT, true);
            }
            if has_journal {
                superblock.set_needs_recovery(true);
            } else {
                superblock.set_state(superblock.state() - State::VALID);
            }
        })
    }

    /// Marks the image as cleanly unmounted. Everything must already be written. Afterwards, the
    /// superblock contains the given free counts, and states that
    /// - no recovery is needed;
    /// - the file system is valid, if it was valid when it was opened;
    /// - the orphan file has no orphans, if the file is empty.
    ///
    /// # Errors
    /// As [`Filesystem::update_superblock`].
    pub fn mark_closed(
        &self,
        device: &dyn BlockDevice,
        now: Timestamp,
        free_blocks: u64,
        free_inodes: u32,
    ) -> Result<()> {
        let was_valid = self.superblock().state & State::VALID;
        // If the orphan file cannot be read, its mark remains, and e2fsck checks the file.
        let has_no_orphans = self.has_orphan_file() && self.is_orphan_file_empty().unwrap_or(false);
        self.write_superblock(device, |superblock| {
            superblock.set_needs_recovery(false);
            if has_no_orphans {
                superblock.set_ro_compat(RoCompat::ORPHAN_PRESENT, false);
            }
            superblock.set_state(superblock.state() | was_valid);
            superblock.set_free_counts(free_blocks, free_inodes);
            superblock.set_written(now);
        })
    }
}
