//! Decides whether the kernel collects written data, and sets aside the space that this data may need.
//!
//! With its write-back cache, the kernel accepts a write(2) without a request to the server. It sends the data
//! on close(2), on fsync(2), and by itself after a while. The server therefore cannot refuse a write when the
//! image is full. But Linux limits the unwritten data of a mount. If the limit is strict, it applies even when the
//! system as a whole has little unwritten data. The server makes the limit strict, and sets aside twice the space
//! that data up to the limit needs. Any other operation fails rather than use the space that is set aside,
//! unless it only needs space to map content whose blocks are already allocated.
//!
//! There are two reasons for the factor of two. Linux stores the limit as a share of the available memory, so its
//! value in bytes changes. And Linux checks the limit only after a program has written a number of pages. It counts
//! a program's pages on all file systems together, so a program that also writes to another file system can exceed
//! the limit. docs/semantics.md says what is promised.

use crate::options::WriteBack;
use crate::{MountEntry, MountOptions};
use larder::Volume;
use std::fs;
use std::path::PathBuf;

/// The highest limit that the server sets if it runs as root, in bytes. A higher limit makes nothing faster.
const LIMIT_MAX_BYTES: u64 = 32 << 20;
/// The lowest limit that makes collecting data efficient, in bytes.
const LIMIT_MIN_BYTES: u64 = 4 << 20;
/// A server that runs as root sets the limit such that unwritten data up to the limit needs at most the available
/// space divided by this number. The limit is never lower than [`LIMIT_MIN_BYTES`].
const LIMIT_PART: u64 = 32;
/// The space that is set aside, as a multiple of the limit.
const SET_ASIDE_FACTOR: u64 = 2;
/// The space that is set aside is at most the available space divided by this number.
const SET_ASIDE_PART: u64 = 8;

/// Decides whether the kernel collects written data of the mount `entry`. If so, sets aside space. With
/// [`WriteBack::On`], the kernel collects the data even if too little space can be set aside.
pub(crate) fn choose(volume: &Volume, entry: &MountEntry, options: &MountOptions) -> bool {
    if !options.read_write || options.direct_io || options.write_back == WriteBack::Off {
        return false;
    }
    let is_automatic = options.write_back == WriteBack::Auto;
    let available_bytes = volume.available_bytes();
    let most_bytes = available_bytes / SET_ASIDE_PART;
    let needed = |limit_bytes| {
        volume
            .space_for_pages(limit_bytes)
            .saturating_mul(SET_ASIDE_FACTOR)
    };
    if is_automatic && (options.sync || needed(LIMIT_MIN_BYTES) > most_bytes) {
        return false;
    }
    let limit_bytes = Limit::of(entry).and_then(|limit| {
        let expansion = volume.space_for_pages(LIMIT_MIN_BYTES) / LIMIT_MIN_BYTES;
        let wanted_bytes = available_bytes / LIMIT_PART / expansion;
        limit.set_bytes(wanted_bytes.clamp(LIMIT_MIN_BYTES, LIMIT_MAX_BYTES));
        limit.bytes()
    });
    let needed_bytes = limit_bytes.map_or(u64::MAX, needed);
    tracing::debug!(?limit_bytes, needed_bytes, available_bytes, "write-back");
    if needed_bytes > most_bytes {
        if is_automatic {
            return false;
        }
        tracing::warn!("too little space is set aside for all data that the kernel may collect");
    }
    let set_aside = volume.set_aside(needed_bytes.min(most_bytes));
    if let Err(error) = &set_aside {
        tracing::warn!("cannot set space aside: {error}");
    }
    set_aside.is_ok() || !is_automatic
}

/// The kernel's limit on the unwritten data of a mount: files in `/sys/class/bdi`.
struct Limit(PathBuf);

impl Limit {
    /// Makes the limit of `entry` strict, if possible, and returns it. Returns `None` if the limit is not strict, or
    /// if Linux is older than 6.2 and has no such files.
    fn of(entry: &MountEntry) -> Option<Self> {
        let (major, minor) = (entry.device_major, entry.device_minor);
        let limit = Self(PathBuf::from(format!("/sys/class/bdi/{major}:{minor}")));
        limit.write("strict_limit", 1);
        (limit.read("strict_limit") == Some(1)).then_some(limit)
    }

    /// Sets the limit. This has an effect only if this process may write the file, which requires root.
    fn set_bytes(&self, bytes: u64) {
        self.write("max_bytes", bytes);
    }

    /// Returns the present limit.
    fn bytes(&self) -> Option<u64> {
        self.read("max_bytes")
    }

    fn read(&self, name: &str) -> Option<u64> {
        fs::read_to_string(self.0.join(name))
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    fn write(&self, name: &str, value: u64) {
        if let Err(error) = fs::write(self.0.join(name), value.to_string()) {
            tracing::debug!("cannot write {name} of {}: {error}", self.0.display());
        }
    }
}
