//! Multiple-mount protection: while a host uses the file system, it updates a block of the file
//! system at regular intervals, so that other hosts detect the use.
//!
//! Model: the kernel's `ext4_multi_mount_protect` and the kernel thread `kmmpd`. Unlike in the
//! kernel, the block is read before each write. A host that was suspended while another host
//! acquired the file system therefore detects this at its next update.
//!
//! # Protocol
//! 1. A host that wants to mount the file system reads the sequence number in the block:
//!    - *clean*: the host continues with step 2.
//!    - the number that e2fsck writes: the mount is refused.
//!    - any other number: the host waits. If the block has changed meanwhile, another host is or
//!      was active, and the mount is refused.
//! 2. The host writes a random number of its own, and waits. If the block then contains another
//!    number, the mount is refused.
//! 3. While the file system is mounted, the host writes the next number at each interval. If the
//!    block no longer has the contents that the host wrote last, another host has acquired the file
//!    system.
//! 4. After unmounting, the host writes *clean*, unless the device may still perform a write that timed out.

use crate::error::{DamageAt, Place};
use crate::ondisk::checksum::Crc32c;
use crate::ondisk::features::Incompat;
use crate::ondisk::mmp::{MMP_BYTES, MmpBlock, Sequence};
use crate::ondisk::superblock::Superblock;
use crate::{Error, FsBlock, Ino, Result};
use larder_block::BlockDevice;
use parking_lot::Mutex;
use std::fmt::Debug;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

/// The interval in seconds between updates if the superblock does not specify one.
const INTERVAL_SECONDS: u16 = 5;
/// The minimum check interval in seconds.
const MIN_CHECK_SECONDS: u16 = 5;
/// The maximum number of seconds to wait in addition to the check interval.
const MAX_MORE_SECONDS: u64 = 60;

/// The environment of the protection: the time, and the names that other hosts see.
pub trait MmpHost: Debug {
    /// Returns the seconds since 1970.
    fn now_seconds(&self) -> u64;
    /// Sleeps for `time`.
    fn wait(&self, time: Duration);
    /// Returns the name of the machine.
    fn node(&self) -> Vec<u8>;
    /// Returns the name of the image.
    fn device(&self) -> Vec<u8>;
}

/// The multiple-mount protection of a file system that this mount has acquired.
#[derive(Debug)]
pub struct Mmp {
    place: MmpPlace,
    interval: Duration,
    own: Mutex<Own>,
}

/// The contents that the block has, unless another host has written it.
#[derive(Debug)]
struct Own {
    /// The contents that this host has written.
    stored: MmpBlock,
    /// The contents of a later write that failed. The device may have performed it, or a part of it, or may still do
    /// so.
    attempted: Option<MmpBlock>,
}

/// The location of the block, and the seed of its checksum.
#[derive(Debug)]
struct MmpPlace {
    device: Arc<dyn BlockDevice>,
    block: FsBlock,
    offset_bytes: u64,
    seed: Option<Crc32c>,
}

impl MmpPlace {
    fn new(sb: &Superblock, device: Arc<dyn BlockDevice>) -> Result<Self> {
        let block = sb.mmp_block;
        if !sb.contains_blocks(block, 1) {
            return Err(Place::Superblock
                .corrupt("block for multiple-mount protection (MMP) is outside the file system"));
        }
        Ok(Self {
            device,
            block,
            offset_bytes: block.0 << sb.block_size_log2,
            seed: sb.has_metadata_checksums().then_some(sb.checksum_seed),
        })
    }

    /// Reads the bytes of the block.
    fn read_bytes(&self) -> Result<[u8; MMP_BYTES]> {
        let mut bytes = [0; MMP_BYTES];
        self.device.read_at(&mut bytes, self.offset_bytes)?;
        Ok(bytes)
    }

    /// Reads the contents of the block.
    fn read(&self) -> Result<MmpBlock> {
        let block = MmpBlock::parse(&self.read_bytes()?, self.seed);
        block.at(self.error_place())
    }

    /// Returns the place of damage of the block.
    fn error_place(&self) -> Place {
        Place::Block(self.block, Ino(0))
    }

    /// Returns the bytes of the block. They must have the contents `stored` or `attempted`, where `attempted` are
    /// those of a failed write.
    fn read_own(&self, stored: &MmpBlock, attempted: Option<&MmpBlock>) -> Result<[u8; MMP_BYTES]> {
        let bytes = self.read_bytes()?;
        let is_own = |found: &MmpBlock| found == stored || Some(found) == attempted;
        match MmpBlock::parse(&bytes, self.seed) {
            Ok(found) if is_own(&found) => Ok(bytes),
            Ok(found) => Err(in_use(&found)),
            Err(damage) => {
                // A failed write can have changed only some sectors. The first sector contains all values, and the last
                // one contains the checksum.
                let is_torn = attempted.is_some()
                    && MmpBlock::parse(&bytes, None).is_ok_and(|found| is_own(&found));
                if is_torn {
                    Ok(bytes)
                } else {
                    Err(self.error_place().corrupt(damage))
                }
            }
        }
    }

    /// Replaces the contents of the block, which are `bytes`, with `new`, and flushes the device.
    fn write(&self, bytes: &mut [u8; MMP_BYTES], new: &MmpBlock) -> Result<()> {
        new.write(bytes, self.seed);
        self.device.write_at(bytes, self.offset_bytes)?;
        Ok(self.device.flush()?)
    }
}

impl Mmp {
    /// Acquires the file system on `device` for this mount. Waits at least 11 seconds, and twice as
    /// long if the last host did not release the file system; longer intervals in the image lengthen
    /// the wait. Returns `None` if the file system does not use the protection.
    ///
    /// # Errors
    /// [`Error::InUse`] if another host uses the file system or has used it during the wait,
    /// [`Error::Corrupt`] if the block is damaged, or the device's error.
    pub fn acquire(
        sb: &Superblock,
        device: Arc<dyn BlockDevice>,
        host: &dyn MmpHost,
    ) -> Result<Option<Self>> {
        if !sb.incompat.contains(Incompat::MMP) {
            return Ok(None);
        }
        let place = MmpPlace::new(sb, device)?;
        let found = place.read()?;
        let interval_seconds = match sb.mmp_interval_seconds {
            0 => INTERVAL_SECONDS,
            seconds => seconds,
        };
        let check_seconds = interval_seconds
            .max(found.check_interval_seconds)
            .max(MIN_CHECK_SECONDS);
        let wait = wait_time(check_seconds);
        match found.sequence {
            Sequence::Clean => {}
            Sequence::Checking => return Err(in_use(&found)),
            Sequence::Mounted(_) => {
                log_wait(&found, wait);
                host.wait(wait);
            }
        }
        let own = MmpBlock {
            sequence: Sequence::Mounted(random_number()),
            time_seconds: host.now_seconds(),
            node: host.node(),
            device: host.device(),
            check_interval_seconds: interval_seconds.saturating_mul(2).max(MIN_CHECK_SECONDS),
        };
        let mut bytes = place.read_own(&found, None)?;
        place.write(&mut bytes, &own)?;
        // Another host that checked at the same time may also have written the block. After the
        // wait, one of the two hosts finds the number of the other host.
        host.wait(wait);
        let own_stored = place.read()?;
        if own_stored.sequence != own.sequence {
            return Err(in_use(&own_stored));
        }
        Ok(Some(Self {
            place,
            interval: Duration::from_secs(interval_seconds.into()),
            own: Mutex::new(Own {
                stored: own_stored,
                attempted: None,
            }),
        }))
    }

    /// Returns the interval at which [`Mmp::tick`] must be called.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Updates the block to show that this mount is active.
    ///
    /// # Errors
    /// [`Error::InUse`] if another host has acquired the file system, after which nothing more may
    /// be written to it; or the device's error.
    pub fn tick(&self, host: &dyn MmpHost) -> Result<()> {
        let mut own = self.own.lock();
        let sequence = match own.stored.sequence {
            Sequence::Mounted(number) if number < Sequence::MAX => Sequence::Mounted(number + 1),
            Sequence::Mounted(_) => Sequence::Mounted(1),
            // The file system was released, so no update is needed.
            Sequence::Clean | Sequence::Checking => return Ok(()),
        };
        self.write(&mut own, sequence, host)
    }

    /// Releases the file system. Nothing may be written afterwards.
    ///
    /// If the device may still perform a write that timed out, the file system is not released: another host could
    /// acquire it, and the late write would then damage the data of that host. The block is not changed, as after a
    /// crash of this host.
    ///
    /// # Errors
    /// As [`Mmp::tick`]; also [`larder_block::Error::Deadline`] if a write that timed out can still be in flight.
    pub fn release(&self, host: &dyn MmpHost) -> Result<()> {
        let device = &self.place.device;
        if device.has_late_writes() {
            let timeout = device.timeout().unwrap_or_default();
            return Err(larder_block::Error::Deadline(timeout).into());
        }
        self.write(&mut self.own.lock(), Sequence::Clean, host)
    }

    fn write(&self, own: &mut Own, sequence: Sequence, host: &dyn MmpHost) -> Result<()> {
        let next = match &own.attempted {
            // Writes the same contents again. Even after many failed writes, the block then has one of two contents.
            Some(attempted) if attempted.sequence == sequence => attempted.clone(),
            _ => MmpBlock {
                sequence,
                time_seconds: host.now_seconds(),
                ..own.stored.clone()
            },
        };
        let mut bytes = self.place.read_own(&own.stored, own.attempted.as_ref())?;
        let written = self.place.write(&mut bytes, &next);
        if written.is_ok() {
            own.stored = next;
            own.attempted = None;
        } else {
            own.attempted = Some(next);
        }
        written
    }
}

/// Returns how long to wait for a change of the sequence number before its host is considered dead.
/// `check_seconds` is the check interval, which is at least the interval between updates.
fn wait_time(check_seconds: u16) -> Duration {
    let check_seconds = u64::from(check_seconds);
    Duration::from_secs((check_seconds * 2 + 1).min(check_seconds + MAX_MORE_SECONDS))
}

fn log_wait(found: &MmpBlock, wait: Duration) {
    tracing::info!(
        node = %String::from_utf8_lossy(&found.node),
        seconds = wait.as_secs(),
        "the last host that used the image did not release it; waiting to see whether it is still active"
    );
}

/// Returns a random number for this mount.
fn random_number() -> u32 {
    let random = RandomState::new().build_hasher().finish();
    u32::try_from(random % u64::from(Sequence::MAX)).unwrap_or(0) + 1
}

/// Returns the error for a block with the contents `found`, which this mount has not written.
fn in_use(found: &MmpBlock) -> Error {
    let node = String::from_utf8_lossy(&found.node);
    let device = String::from_utf8_lossy(&found.device);
    Error::InUse(match found.sequence {
        Sequence::Checking => format!(
            "e2fsck is checking the image (node {node}, device {device}), or was interrupted; \
             if it is not running, run tune2fs -f -E clear_mmp"
        ),
        Sequence::Mounted(_) => {
            format!("the image is mounted on node {node} (device {device})")
        }
        Sequence::Clean => format!(
            "another host has meanwhile used the image and released it (node {node}, device {device})"
        ),
    })
}
