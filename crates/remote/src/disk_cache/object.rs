//! An open object of the cache.

use super::directory::{Directory, UNIT_COST_BYTES, Wait, end_use, is_only_user, read_record};
use super::error::{Error, Result};
use super::identity::{Digest, Identity};
use super::record::{Content, Record};
use super::units::{Outcome, UNIT_BYTES, Units};
use parking_lot::Mutex;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

/// The number of units of the image that are not stored after an allowance was refused: 16 MiB. Then the object requests
/// an allowance again. For each unit of a pack, it requests one at once.
const REFUSED_UNITS: usize = (16 << 20) / UNIT_BYTES;

/// One version of an object, of which some units are cached. While this exists, the cache file is not evicted.
///
/// Threads can share it, and processes can open the same object.
#[derive(Debug)]
pub struct CachedObject {
    units: Units<File>,
    directory: Arc<Directory>,
    identity: Owned,
    room: Mutex<Room>,
    /// True after a write failed and its error was returned.
    has_failed: AtomicBool,
    /// True after the lock of the directory was not free in time for a unit of a pack, and the error was returned.
    is_locked_out: AtomicBool,
    damaged_units: AtomicU64,
}

/// The fields of an [`Identity`].
#[derive(Debug)]
struct Owned {
    location: String,
    version: String,
    credentials: String,
}

impl Owned {
    fn identity(&self) -> Identity<'_> {
        Identity {
            location: &self.location,
            version: &self.version,
            credentials: &self.credentials,
        }
    }
}

/// What an object may still write.
#[derive(Debug, Default)]
struct Room {
    allowance_bytes: u64,
    /// The number of units that were not stored since an allowance was last refused.
    refused_units: usize,
}

impl CachedObject {
    pub(super) fn new(
        units: Units<File>,
        directory: Arc<Directory>,
        identity: &Identity<'_>,
    ) -> Self {
        Self {
            units,
            directory,
            identity: Owned {
                location: identity.location.to_owned(),
                version: identity.version.to_owned(),
                credentials: identity.credentials.to_owned(),
            },
            room: Mutex::default(),
            has_failed: AtomicBool::new(false),
            is_locked_out: AtomicBool::new(false),
            damaged_units: AtomicU64::new(0),
        }
    }

    /// Records that a server has just said that this is the current version of the object.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn confirm(&self) -> Result<()> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now_ns = now.map_or(1, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        self.change_record(|record| record.confirmed_ns = now_ns)
    }

    /// Returns the SHA-256 of the content, if it was [recorded](Self::set_content).
    #[must_use]
    pub fn content(&self) -> Option<[u8; 32]> {
        match self.recorded_content() {
            Some(Content::Checked(digest)) => Some(digest),
            _ => None,
        }
    }

    /// Returns whether a check of the content [has begun](Self::begin_check), or has ended. If a check has begun and no
    /// other object of the cache file is open, the check was interrupted: this removes its mark, and returns false.
    #[must_use]
    pub fn is_checked(&self) -> bool {
        if self.recorded_content() == Some(Content::BeingChecked) {
            let ended = self.change_record(|record| {
                if record.content == Content::BeingChecked && is_only_user(self.units.storage()) {
                    record.content = Content::Unknown;
                }
            });
            if let Err(error) = ended {
                tracing::debug!("cannot remove the mark of a check of the content: {error}");
            }
        }
        let content = self.recorded_content();
        content.is_some_and(|content| content != Content::Unknown)
    }

    fn recorded_content(&self) -> Option<Content> {
        let record = read_record(self.units.storage())?;
        let is_own = record.is_for(&self.identity.identity());
        is_own.then_some(record.content)
    }

    /// Records that a check of the content begins. From now on, [units of packs](Self::write_pack_unit) are not stored,
    /// also by other processes.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn begin_check(&self) -> Result<()> {
        self.change_record(|record| {
            if record.content == Content::Unknown {
                record.content = Content::BeingChecked;
            }
        })
    }

    /// Records the SHA-256 of the content.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn set_content(&self, digest: Digest) -> Result<()> {
        self.change_record(|record| record.content = Content::Checked(digest))
    }

    fn change_record(&self, change: impl FnOnce(&mut Record)) -> Result<()> {
        let file = self.units.storage();
        let identity = self.identity.identity();
        self.directory.change_record(file, &identity, change)
    }

    /// Reads `unit` into `buf`. Returns false if the unit is absent or damaged; the content of `buf` is then
    /// unspecified. A damaged unit is removed, so that it can be stored again.
    ///
    /// # Panics
    /// If `buf` is not as long as the unit: [`UNIT_BYTES`], or less for the last unit.
    #[must_use]
    pub fn read_unit(&self, unit: u64, buf: &mut [u8]) -> bool {
        let outcome = self.units.read(unit, buf);
        if outcome == Outcome::Damaged {
            self.damaged_units.fetch_add(1, Ordering::Relaxed);
        }
        outcome == Outcome::Read
    }

    /// Stores `bytes` as `unit`, if the cache has room and no earlier write failed.
    ///
    /// # Errors
    /// The first error of this object. After this error, the object stores nothing more, and returns no
    /// further error.
    ///
    /// # Panics
    /// As [`CachedObject::read_unit`].
    pub fn write_unit(&self, unit: u64, bytes: &[u8]) -> Result<()> {
        self.first_error(self.try_write(Wait::Skip, || self.write(unit, bytes)))
    }

    fn write(&self, unit: u64, bytes: &[u8]) -> Result<()> {
        let written = self.units.write(unit, bytes);
        written.map_err(|source| Error::Write { unit, source })
    }

    /// Stores `bytes`, which are from a pack, as [`CachedObject::write_unit`] does. Stores nothing if a
    /// [check](Self::begin_check) of the content has begun. If another process holds the lock of the directory, waits
    /// until the lock is free. Meanwhile, other writes of the object can wait, too.
    ///
    /// # Errors
    /// As [`CachedObject::write_unit`], and [`Error::Locked`] if the lock is held for too long. After this error, the
    /// object stores no more units of packs.
    ///
    /// # Panics
    /// As [`CachedObject::read_unit`].
    pub fn write_pack_unit(&self, unit: u64, bytes: &[u8]) -> Result<()> {
        if self.is_locked_out.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.first_error(self.try_write(Wait::Block, || {
            let _lock = self.directory.lock(Wait::Block)?;
            match self.recorded_content() {
                Some(Content::Unknown) => self.write(unit, bytes),
                _ => Ok(()),
            }
        }))
    }

    /// Returns `result`, unless an earlier write has failed in the same way.
    fn first_error(&self, result: Result<()>) -> Result<()> {
        let has_failed = match &result {
            Ok(()) => return result,
            // Units of the image do not need the lock.
            Err(Error::Locked { .. }) => &self.is_locked_out,
            Err(_) => &self.has_failed,
        };
        if has_failed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        result
    }

    fn try_write(&self, wait: Wait, write: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.has_failed.load(Ordering::Relaxed) || !self.take_room(wait)? {
            return Ok(());
        }
        write()
    }

    /// Returns the number of further units for which the cache has room, if it evicts objects that are not in use.
    #[must_use]
    pub fn room_units(&self) -> usize {
        // If the directory cannot be listed, the cache probably stores nothing.
        let room_bytes = self.directory.room_bytes().unwrap_or(0);
        usize::try_from(room_bytes / UNIT_COST_BYTES).unwrap_or(usize::MAX)
    }

    /// Returns false if the cache has no room for a unit. `wait` is for the lock of the directory, which is needed to
    /// evict a file.
    fn take_room(&self, wait: Wait) -> Result<bool> {
        let mut room = self.room.lock();
        if wait == Wait::Skip && (1..REFUSED_UNITS).contains(&room.refused_units) {
            room.refused_units += 1;
            return Ok(false);
        }
        if room.allowance_bytes < UNIT_COST_BYTES {
            room.allowance_bytes = self.directory.allowance_bytes(self.units.storage(), wait)?;
        }
        let Some(left_bytes) = room.allowance_bytes.checked_sub(UNIT_COST_BYTES) else {
            room.refused_units = 1;
            return Ok(false);
        };
        *room = Room {
            allowance_bytes: left_bytes,
            refused_units: 0,
        };
        Ok(true)
    }

    /// Returns true if `unit` is stored. Does not read the unit, so it may be damaged.
    #[must_use]
    pub fn contains_unit(&self, unit: u64) -> bool {
        self.units.contains(unit)
    }

    /// Counts the stored units, by reading the map. Some of them may be damaged.
    ///
    /// Hidden because it serves the tests of the crate: it reads the whole map, and the count can be out of
    /// date at once, as other processes use the cache.
    #[doc(hidden)]
    #[must_use]
    pub fn present_units(&self) -> u64 {
        self.units.entries().filter(|&entry| entry != 0).count() as u64
    }

    /// Returns true if every unit is stored. Some of them may be damaged.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.units.entries().all(|entry| entry != 0)
    }

    /// Returns the number of units that were found damaged.
    #[must_use]
    pub fn damaged_units(&self) -> u64 {
        self.damaged_units.load(Ordering::Relaxed)
    }

    /// Returns true if the most recent call of [`CachedObject::write_unit`] stored nothing because the cache had
    /// no room, and nothing could be evicted.
    ///
    /// Hidden because it serves the tests of the crate. A device does not depend on it: a unit that is not
    /// stored is requested again.
    #[doc(hidden)]
    #[must_use]
    pub fn is_out_of_room(&self) -> bool {
        self.room.lock().refused_units > 0
    }
}

impl Drop for CachedObject {
    fn drop(&mut self) {
        end_use(self.units.storage());
    }
}
