//! Opening a file system for writing: the checks of the image, and the mark that it is in use.

use super::checkpoint::Logged;
use super::file::JournalFile;
use super::log_writer::LogWriter;
use super::running::Tid;
use super::writer::{Journal, WriteOptions, Writer};
use super::{JOURNAL, read_superblock};
use crate::alloc::{Space, check_geometry};
use crate::ondisk::features::{Compat, Incompat, RoCompat};
use crate::ondisk::jbd2::{Features, JournalSuperblock, SUPERBLOCK_BYTES};
use crate::ondisk::superblock::{State, Superblock};
use crate::xattr::Sharing;
use crate::{Error, Filesystem, Ino, Result};
use larder_block::BlockDevice;
use std::sync::Arc;

/// The read-only compatible features that Larder maintains when it writes.
const WRITABLE: RoCompat = RoCompat::SPARSE_SUPER
    .union(RoCompat::LARGE_FILE)
    .union(RoCompat::HUGE_FILE)
    .union(RoCompat::GDT_CSUM)
    .union(RoCompat::DIR_NLINK)
    .union(RoCompat::EXTRA_ISIZE)
    .union(RoCompat::BIGALLOC)
    .union(RoCompat::METADATA_CSUM)
    .union(RoCompat::PROJECT)
    .union(RoCompat::ORPHAN_PRESENT);

/// Returns an error that names the reason if the file system cannot be written to.
fn check_writable(sb: &Superblock) -> Result<()> {
    let unknown = RoCompat::from_bits_retain(sb.ro_compat.bits() & !WRITABLE.bits());
    if !unknown.is_empty() {
        let names: Vec<String> = unknown.names().collect();
        return Err(Error::NotWritable(format!("feature {}", names.join(", "))));
    }
    if sb.quota_inos.iter().any(|ino| ino.0 != 0) {
        return Err(Error::NotWritable("it has quota files".to_owned()));
    }
    if sb.compat.contains(Compat::HAS_JOURNAL) && sb.journal_ino == Ino(0) {
        let reason = "the journal is on another device";
        return Err(Error::NotWritable(reason.to_owned()));
    }
    Ok(())
}

impl Filesystem {
    /// Makes the file system writable, after replaying the journal onto the image. From then until
    /// [`Filesystem::close`], the superblock marks the image as in use
    /// ([`Filesystem::mark_opened`]). The file system must have been created without an overlay, and
    /// `device` must be the device that the buffer cache reads.
    ///
    /// # Errors
    /// [`Error::NotWritable`] if Larder does not support writing to this file system;
    /// [`Error::ReadOnly`] if the device is read-only; [`Error::Corrupt`] if the journal is
    /// damaged; or the device's error.
    pub fn enable_writing(
        &mut self,
        device: Arc<dyn BlockDevice>,
        options: WriteOptions,
    ) -> Result<()> {
        let WriteOptions {
            journals_content,
            dirty_metadata_bytes,
            repair,
            attributes,
            examines_full_attributes,
            now,
        } = options;
        check_writable(self.superblock())?;
        check_geometry(self.superblock(), device.size_bytes())?;
        if !device.is_writable() {
            return Err(Error::ReadOnly(None));
        }
        if let Some(repair) = repair {
            repair.write(&*device)?;
        }
        let needs_recovery = self.superblock().incompat.contains(Incompat::RECOVER);
        let (journal, tid) = if self.superblock().compat.contains(Compat::HAS_JOURNAL) {
            let (journal, tid) = self.open_journal(&device)?;
            (Some(journal), tid)
        } else {
            (None, Tid(1))
        };
        // The replay may have changed the features.
        check_writable(self.superblock())?;
        self.mark_opened(&*device, now.get())?;
        if let Some(Journal { log, .. }) = &journal {
            // If the start in the journal's superblock were still 0, e2fsck would report a
            // transaction in the log as corruption.
            log.write_tail(log.ring().first, tid)?;
        }
        let block_size_bytes = self.superblock().block_size_bytes();
        let allocator = Space::new(self.superblock(), !needs_recovery);
        let mut writer = Writer::new(device, block_size_bytes, journal, allocator, tid);
        writer.journals_content = journals_content;
        writer.now = now;
        if let Some(bytes) = dirty_metadata_bytes {
            // If content is journaled, a handle changes at most two clusters of content: one in part,
            // and one as a whole.
            let content_blocks = if journals_content {
                2 << self.superblock().cluster_blocks_log2
            } else {
                0
            };
            writer.bound_dirty(bytes / u64::from(block_size_bytes), content_blocks);
        }
        self.writer = Some(writer);
        self.sharing = Sharing::new(attributes, examines_full_attributes, self.superblock());
        self.count_free_unless_known();
        Ok(())
    }

    /// Opens the journal, and recovers the image from it if necessary. Returns the journal, whose
    /// log is then empty, and the number of the next transaction.
    fn open_journal(&mut self, device: &Arc<dyn BlockDevice>) -> Result<(Journal, Tid)> {
        let inode = self.inode(self.superblock().journal_ino)?;
        let first_block = JournalFile::map(self, Arc::clone(device), &inode, 1)?;
        let mut superblock = read_superblock(&first_block, self.superblock())?;
        let file = JournalFile::map(self, Arc::clone(device), &inode, superblock.length_blocks)?;
        if file.extent().overlaps_itself() {
            return Err(JOURNAL.corrupt("the journal maps a block twice"));
        }
        if superblock.start != 0 && self.superblock().incompat.contains(Incompat::RECOVER) {
            self.recovered = self.recover_home(device, &file, &mut superblock)?;
        }
        // A journal of version 1 cannot have features.
        superblock.version = 2;
        superblock.features = features(&superblock, self.superblock());
        superblock.has_commit_crc32 = false;
        if superblock.errno != 0 {
            self.write_superblock(&**device, |sb| sb.set_state(sb.state() | State::ERROR))?;
            superblock.errno = 0;
        }
        let mut bytes = Box::new([0; SUPERBLOCK_BYTES]);
        file.read(0, &mut *bytes)?;
        let (first, tid) = (superblock.first, superblock.sequence);
        let log = LogWriter::new(file, bytes, superblock);
        let logged = Logged::new(log.ring(), first, first, tid);
        Ok((Journal { log, logged }, tid))
    }
}

/// Returns the journal features for the transactions that are written from now on: those that the
/// kernel would set.
fn features(journal: &JournalSuperblock, sb: &Superblock) -> Features {
    let mut features = journal.features | Features::REVOKE;
    features.remove(Features::ASYNC_COMMIT);
    features.set(Features::BIT64, sb.incompat.contains(Incompat::BIT64));
    if sb.has_metadata_checksums() && !features.contains(Features::CSUM_V2) {
        features.insert(Features::CSUM_V3);
    }
    features
}
