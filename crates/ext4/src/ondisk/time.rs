//! Time stamps: a word of 32 bits holds the seconds. In inodes, a second word extends the seconds
//! to 34 bits and holds the nanoseconds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The number of nanoseconds in a second.
const NANOSECONDS: u32 = 1_000_000_000;

/// A point in time: the seconds since 1970, which are negative for earlier times, and the
/// nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// The seconds since the start of 1970, UTC.
    pub seconds: i64,
    /// The nanoseconds to add to `seconds`, less than 1,000,000,000.
    pub nanoseconds: u32,
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let seconds = |since: Duration| i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self {
                seconds: seconds(after),
                nanoseconds: after.subsec_nanos(),
            },
            Err(error) => {
                let before = error.duration();
                let nanoseconds = before.subsec_nanos();
                let borrowed = i64::from(nanoseconds > 0);
                Self {
                    seconds: -seconds(before) - borrowed,
                    nanoseconds: (NANOSECONDS - nanoseconds) % NANOSECONDS,
                }
            }
        }
    }
}

impl Timestamp {
    /// Returns the time as a [`SystemTime`], or `None` if the type cannot represent it. Programs that use
    /// the library call this to compare times in an image with those of the host:
    ///
    /// ```
    /// use larder_ext4::ondisk::time::Timestamp;
    /// use std::time::{Duration, UNIX_EPOCH};
    ///
    /// let time = Timestamp { seconds: 1, nanoseconds: 5 };
    /// assert_eq!(time.to_system_time(), Some(UNIX_EPOCH + Duration::new(1, 5)));
    /// ```
    #[must_use]
    pub fn to_system_time(self) -> Option<SystemTime> {
        let seconds = Duration::from_secs(self.seconds.unsigned_abs());
        let whole = if self.seconds < 0 {
            UNIX_EPOCH.checked_sub(seconds)
        } else {
            UNIX_EPOCH.checked_add(seconds)
        };
        whole?.checked_add(Duration::from_nanos(self.nanoseconds.into()))
    }

    /// Decodes the time in an inode: signed `seconds`, with the two low bits of `extra` as bits 32
    /// and 33, and its other bits as nanoseconds.
    pub(crate) fn from_inode(seconds: u32, extra: u32) -> Self {
        Self {
            seconds: i64::from(seconds.cast_signed()) + (i64::from(extra & 3) << 32),
            nanoseconds: (extra >> 2).min(999_999_999),
        }
    }

    /// Encodes this time as the two words that [`Timestamp::from_inode`] decodes. A time outside
    /// the range from 1901 to 2446 is replaced by the nearest time in that range.
    pub(crate) fn to_inode(self) -> (u32, u32) {
        const FIRST: i64 = -(1 << 31);
        const LAST: i64 = (1 << 31) - 1 + (3 << 32);
        let seconds = self.seconds.clamp(FIRST, LAST);
        let [a, b, c, d, ..] = seconds.to_le_bytes();
        let low = u32::from_le_bytes([a, b, c, d]);
        let high = (seconds - i64::from(low.cast_signed())) >> 32;
        let nanoseconds = self.nanoseconds.min(999_999_999);
        (low, (nanoseconds << 2) | u32::try_from(high).unwrap_or(0))
    }

    /// Decodes the time in a superblock, which is unsigned and has 8 additional high bits.
    pub(crate) fn from_superblock(low: u32, high: u8) -> Self {
        Self {
            seconds: i64::from(low) | (i64::from(high) << 32),
            nanoseconds: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_time_before_and_after_1970_is_converted_both_ways() {
        for (seconds, nanoseconds) in [(0, 0), (7, 1), (-1, 999_999_999), (-2, 0), (-7, 5)] {
            let time = Timestamp {
                seconds,
                nanoseconds,
            };
            let system = time.to_system_time().unwrap();
            assert_eq!(Timestamp::from(system), time);
        }
        let late = Timestamp {
            seconds: i64::MAX,
            nanoseconds: u32::MAX,
        };
        assert!(late.to_system_time().is_none());
    }

    #[test]
    fn inode_time_at_the_documented_bounds_decodes_to_them() {
        // Seconds, extra bits and the result, from the table in the format's documentation.
        let table: [(u32, u32, i64); 8] = [
            (0x8000_0000, 0, -0x8000_0000),
            (0xFFFF_FFFF, 0, -1),
            (0, 0, 0),
            (0x7FFF_FFFF, 0, 0x7FFF_FFFF),
            (0x8000_0000, 1, 0x8000_0000),
            (0x7FFF_FFFF, 1, 0x1_7FFF_FFFF),
            (0x8000_0000, 3, 0x2_8000_0000),
            (0x7FFF_FFFF, 3, 0x3_7FFF_FFFF),
        ];
        for (seconds, extra, expected) in table {
            assert_eq!(Timestamp::from_inode(seconds, extra).seconds, expected);
        }
    }

    #[test]
    fn inode_time_encoded_decodes_to_itself_or_the_nearest() {
        for seconds in [-0x8000_0000, -1, 0, 0x7FFF_FFFF, 0x8000_0000, 0x3_7FFF_FFFF] {
            let time = Timestamp {
                seconds,
                nanoseconds: 999_999_999,
            };
            let (low, extra) = time.to_inode();
            assert_eq!(Timestamp::from_inode(low, extra), time);
        }
        for (seconds, nearest) in [(-0x8000_0001, -0x8000_0000), (1 << 40, 0x3_7FFF_FFFF)] {
            let time = Timestamp {
                seconds,
                nanoseconds: 0,
            };
            let (low, extra) = time.to_inode();
            assert_eq!(Timestamp::from_inode(low, extra).seconds, nearest);
        }
    }

    #[test]
    fn inode_time_nanoseconds_out_of_range_are_capped() {
        assert_eq!(Timestamp::from_inode(0, 5 << 2).nanoseconds, 5);
        assert_eq!(Timestamp::from_inode(0, !0).nanoseconds, 999_999_999);
    }
}
