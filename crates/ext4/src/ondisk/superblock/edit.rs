//! In-place modification of fields of a superblock and of its checksum.

use super::decoded::{SUPERBLOCK_BYTES, State};
use super::raw::RawSuperblock;
use crate::error::Place;
use crate::ondisk::checksum::Crc32c;
use crate::ondisk::features::{Compat, Incompat, RoCompat};
use crate::ondisk::fields::halves32;
use crate::ondisk::time::Timestamp;
use crate::{FsBlock, Ino, Result};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

/// The length of a label in bytes.
pub const LABEL_BYTES: usize = 16;

/// The length in bytes of a function name in an error record.
const FUNCTION_BYTES: usize = 32;

/// The first inode that is not reserved in revision 0. Later revisions store it in a field.
const FIXED_FIRST_INO: u32 = 11;
const FIXED_INODE_BYTES: u16 = 128;

/// The kind of an error in a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// The device reported an error.
    Device,
    /// A checksum was wrong.
    Checksum,
    /// A structure contradicts itself or another structure.
    Corrupt,
    /// Any other error.
    Other,
}

impl ErrorCode {
    fn number(self) -> u8 {
        match self {
            Self::Other => 1,
            Self::Device => 2,
            Self::Checksum => 4,
            Self::Corrupt => 5,
        }
    }
}

/// An error in the file system, as recorded in the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorRecord<'a> {
    /// The time at which it was found.
    pub time: Timestamp,
    /// The function that found it, truncated to 32 bytes.
    pub function: &'a str,
    /// The affected inode.
    pub ino: Option<Ino>,
    /// The affected block.
    pub block: Option<FsBlock>,
    /// The kind of error.
    pub code: ErrorCode,
}

/// A superblock that is being modified. [`SuperblockEdit::finish`] sets its checksum.
#[derive(Debug)]
pub struct SuperblockEdit<'a> {
    raw: &'a mut RawSuperblock,
}

impl<'a> SuperblockEdit<'a> {
    /// Creates an edit of the superblock in `bytes`.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] if `bytes` is not a superblock.
    pub fn new(bytes: &'a mut [u8]) -> Result<Self> {
        let damage = || Place::Superblock.corrupt("magic number is wrong or missing");
        let raw = bytes
            .get_mut(..SUPERBLOCK_BYTES)
            .and_then(|bytes| RawSuperblock::mut_from_bytes(bytes).ok())
            .filter(|raw| raw.s_magic.get() == super::raw::MAGIC)
            .ok_or_else(damage)?;
        Ok(Self { raw })
    }

    /// Sets the checksum, if the file system has one.
    pub fn finish(self) {
        let (_, _, ro_compat) = self.raw.features();
        if ro_compat.contains(RoCompat::METADATA_CSUM) {
            let checked = &self.raw.as_bytes()[..super::raw::CHECKSUMMED_BYTES];
            let checksum = Crc32c::START.bytes(checked);
            self.raw.s_checksum.set(checksum.0);
        }
    }

    /// Returns the state of the file system.
    #[must_use]
    pub fn state(&self) -> State {
        State::from_bits_retain(self.raw.s_state.get())
    }

    /// Sets the state of the file system.
    pub fn set_state(&mut self, state: State) {
        self.raw.s_state.set(state.bits());
    }

    /// Records a mount at `now`.
    pub fn count_mount(&mut self, now: Timestamp) {
        let raw = &mut *self.raw;
        raw.s_mnt_count.set(raw.s_mnt_count.get().saturating_add(1));
        (raw.s_mtime, raw.s_mtime_hi) = stored(now);
    }

    /// Sets the time of the last write.
    pub fn set_written(&mut self, now: Timestamp) {
        (self.raw.s_wtime, self.raw.s_wtime_hi) = stored(now);
    }

    /// Sets the numbers of free blocks and free inodes.
    pub fn set_free_counts(&mut self, blocks: u64, inodes: u32) {
        let raw = &mut *self.raw;
        let (low, high) = halves32(blocks);
        raw.s_free_blocks_count_lo = low;
        if raw.features().1.contains(Incompat::BIT64) {
            raw.s_free_blocks_count_hi = high;
        }
        raw.s_free_inodes_count.set(inodes);
    }

    /// Sets the label, truncated to [`LABEL_BYTES`].
    pub fn set_label(&mut self, label: &[u8]) {
        self.raw.s_volume_name = padded(label);
    }

    /// Sets the first inode of the list of orphans.
    pub fn set_last_orphan(&mut self, ino: Option<Ino>) {
        self.raw.s_last_orphan.set(ino.map_or(0, |ino| ino.0));
    }

    /// Returns the current features.
    #[must_use]
    pub fn features(&self) -> (Compat, Incompat, RoCompat) {
        self.raw.features()
    }

    /// Sets whether the journal needs recovery.
    pub fn set_needs_recovery(&mut self, needs: bool) {
        let (_, mut incompat, _) = self.raw.features();
        incompat.set(Incompat::RECOVER, needs);
        self.raw.s_feature_incompat.set(incompat.bits());
    }

    /// Sets compatible features.
    pub fn set_compat(&mut self, features: Compat) {
        let (mut compat, _, _) = self.raw.features();
        compat.insert(features);
        self.raw.s_feature_compat.set(compat.bits());
        self.leave_revision_0();
    }

    /// Sets or clears read-only compatible features.
    pub fn set_ro_compat(&mut self, features: RoCompat, present: bool) {
        let (_, _, mut ro_compat) = self.raw.features();
        ro_compat.set(features, present);
        self.raw.s_feature_ro_compat.set(ro_compat.bits());
        if present {
            self.leave_revision_0();
        }
    }

    /// Upgrades to revision 1, which has features, and sets the fields that are constant in
    /// revision 0.
    fn leave_revision_0(&mut self) {
        let raw = &mut *self.raw;
        if raw.s_rev_level.get() == 0 {
            raw.s_rev_level.set(1);
            raw.s_first_ino.set(FIXED_FIRST_INO);
            raw.s_inode_size.set(FIXED_INODE_BYTES);
        }
    }

    /// Records an error as the last error. If no error was recorded since the last check, also
    /// records it as the first error.
    pub fn record_error(&mut self, error: &ErrorRecord<'_>) {
        let raw = &mut *self.raw;
        raw.s_state.set(raw.s_state.get() | State::ERROR.bits());
        let [first_code, last_code] = &mut raw.s_error_codes;
        if raw.s_error_count.get() == 0 || raw.s_first_error_time.get() == 0 {
            // Inode (4), block (8), function (32), line (4).
            raw.s_first_error = stored_error(error, 4, 12);
            (raw.s_first_error_time, raw.s_first_error_time_hi) = stored(error.time);
            *first_code = error.code.number();
        }
        // Inode (4), line (4), block (8), function (32).
        raw.s_last_error = stored_error(error, 8, 16);
        (raw.s_last_error_time, raw.s_last_error_time_hi) = stored(error.time);
        *last_code = error.code.number();
        let count = raw.s_error_count.get().saturating_add(1);
        raw.s_error_count.set(count);
    }
}

/// Encodes a time for a superblock, which cannot store times before 1970.
fn stored(time: Timestamp) -> (U32, u8) {
    let [a, b, c, d, high, ..] = time.seconds.max(0).to_le_bytes();
    (U32::from_bytes([a, b, c, d]), high)
}

/// Encodes the location of an error, with the block and the function at these offsets.
fn stored_error(error: &ErrorRecord<'_>, block_at: usize, function_at: usize) -> [u8; 48] {
    let ino = error.ino.map_or(0, |ino| ino.0).to_le_bytes();
    let block = error.block.map_or(0, |block| block.0).to_le_bytes();
    let function: [u8; FUNCTION_BYTES] = padded(error.function.as_bytes());
    let mut bytes = [0; 48];
    bytes[..4].copy_from_slice(&ino);
    bytes[block_at..block_at + 8].copy_from_slice(&block);
    bytes[function_at..function_at + FUNCTION_BYTES].copy_from_slice(&function);
    bytes
}

/// Returns `text`, truncated or padded with zeros.
fn padded<const N: usize>(text: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    let len = text.len().min(N);
    bytes[..len].copy_from_slice(&text[..len]);
    bytes
}
