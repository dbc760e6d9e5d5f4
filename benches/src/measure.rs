//! The measures: their units, the peers that are compared, and the targets.

use serde::{Deserialize, Serialize};

use crate::named::named;
use crate::peer::Peer;

/// The unit of a measure, which also defines which direction is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// 10^6 bytes.
    Megabytes,
    /// 10^6 bytes per second.
    MegabytesPerSecond,
    /// Reads, writes, files or transactions per second.
    PerSecond,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
    /// Hundredths.
    Percent,
    /// A count.
    Count,
}

impl Unit {
    /// Returns the symbol that is printed after a value.
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
            Self::Megabytes => "MB",
            Self::MegabytesPerSecond => "MB/s",
            Self::PerSecond => "/s",
            Self::Microseconds => "µs",
            Self::Nanoseconds => "ns",
            Self::Percent => "%",
            Self::Count => "",
        }
    }

    /// Returns whether a higher value is better.
    #[must_use]
    pub const fn is_rate(self) -> bool {
        matches!(self, Self::MegabytesPerSecond | Self::PerSecond)
    }
}

/// The target of one side of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// The value of the side divided by the peer's is at most this.
    AtMostTimes(f64, Peer),
    /// The value of the side divided by the peer's is at least this.
    AtLeastTimes(f64, Peer),
    /// The value is at most this, in the measure's unit.
    AtMost(f64),
}

use Peer::{
    Device, Direct, Fio, Floor, FloorDev, Fs, Fuse2fs, Kernel, Larder, LarderDev, LarderDevDirect,
    LarderDirect, Overlay, Qcow2, Qemu, Squashfuse, Syscall, Volume,
};
use Target::{AtLeastTimes, AtMost, AtMostTimes};

/// The peers that mount for writing.
const MOUNTS: &[Peer] = &[Larder, LarderDev, Fuse2fs, Kernel];
/// Those of them that are FUSE servers.
const SERVERS: &[Peer] = &[Larder, LarderDev, Fuse2fs];
/// The peers whose trees can be read.
const TREES: &[Peer] = &[Larder, LarderDev, Fuse2fs, Squashfuse, Kernel];
/// The peers from which a file can be read.
const READERS: &[Peer] = &[
    Larder, LarderDev, Fuse2fs, Squashfuse, Kernel, Floor, FloorDev, Device,
];
/// The peers from which a file can be read without root.
const UNPRIVILEGED_READERS: &[Peer] = &[Larder, LarderDev, Fuse2fs, Squashfuse, Floor, FloorDev];
/// The peers that read random pages of the image without a mount.
const COLD_READERS: &[Peer] = &[Volume, Direct, Device, Fio];

/// Returns the same target for both transports.
const fn both(target: Target) -> [(Peer, Target); 2] {
    transports(target, target)
}

/// Returns the targets for `io_uring` and for /dev/fuse.
const fn transports(uring: Target, dev: Target) -> [(Peer, Target); 2] {
    [(Larder, uring), (LarderDev, dev)]
}

/// Defines [`Measure`] by a table: variant, name, unit, peers, sides with targets.
macro_rules! measures {
    ($($(#[$doc:meta])* $variant:ident: $name:literal, $unit:ident, $peers:expr, $targets:expr;)*) => {
        named! {
            /// One measure of a run. `--only` selects it by name.
            Measure { $($(#[$doc])* $variant: $name,)* }
        }

        impl Measure {
            /// Returns its unit.
            #[must_use]
            pub const fn unit(self) -> Unit {
                match self { $(Self::$variant => Unit::$unit,)* }
            }

            /// Returns the peers for which it is measured.
            #[must_use]
            pub const fn peers(self) -> &'static [Peer] {
                match self { $(Self::$variant => $peers,)* }
            }

            /// Returns the sides and their targets; empty if the measure is only reported.
            #[must_use]
            pub const fn targets(self) -> &'static [(Peer, Target)] {
                match self { $(Self::$variant => const { &$targets },)* }
            }
        }
    };
}

measures! {
    /// `find` right after `find`.
    WarmFind: "warm-find", Seconds, TREES, both(AtMostTimes(1.3, Kernel));
    /// `tar` right after `tar`.
    WarmTar: "warm-tar", Seconds, TREES, both(AtMostTimes(1.3, Kernel));
    /// `find` on a fresh mount.
    ColdFind: "cold-find", Seconds, TREES, both(AtMostTimes(2.0, Kernel));
    /// `tar` on a fresh mount.
    ColdTar: "cold-tar", Seconds, TREES, both(AtMostTimes(2.0, Kernel));
    /// The big file from start to end, cold.
    Sequential: "sequential", MegabytesPerSecond, READERS, both(AtLeastTimes(0.8, Kernel));
    /// The big file from start to end, cold, as a user other than root.
    SequentialUnprivileged: "sequential-unprivileged", MegabytesPerSecond, UNPRIVILEGED_READERS,
        both(AtLeastTimes(2.0, Fuse2fs));
    /// Pages of the big file at random, cold, several at once.
    Random: "random", PerSecond, READERS, transports(AtLeastTimes(0.9, Device), AtLeastTimes(0.7, Device));
    /// `tar -x` of a tree of small files.
    Untar: "untar", Seconds, MOUNTS, transports(AtMostTimes(3.0, Kernel), AtMostTimes(6.0, Kernel));
    /// `cp -a` of that tree.
    Copy: "copy", Seconds, MOUNTS, transports(AtMostTimes(2.0, Kernel), AtMostTimes(4.0, Kernel));
    /// `chmod -R` of that tree.
    Chmod: "chmod", Seconds, MOUNTS, transports(AtMostTimes(3.0, Kernel), AtMostTimes(6.0, Kernel));
    /// `rm -r` of that tree.
    Remove: "remove", Seconds, MOUNTS, transports(AtMostTimes(2.5, Kernel), AtMostTimes(4.0, Kernel));
    /// Appends of 100 bytes to a file.
    Append: "append", Seconds, MOUNTS, both(AtMostTimes(3.0, Kernel));
    /// A file from start to end, with one fsync. On /dev/fuse, the target of 0.83 times the kernel's rate
    /// corresponds to at most 1.2 times the kernel's time.
    WriteSequential: "write-sequential", MegabytesPerSecond, MOUNTS, [
        (Larder, AtLeastTimes(1.0, Kernel)), (LarderDev, AtLeastTimes(0.83, Kernel)),
        (Larder, AtLeastTimes(3.0, Fuse2fs)), (LarderDev, AtLeastTimes(3.0, Fuse2fs)),
    ];
    /// Random writes of 4 KiB to that file, with one fsync.
    OverwriteRandom: "overwrite-random", Seconds, MOUNTS,
        transports(AtMostTimes(1.5, Kernel), AtMostTimes(2.0, Kernel));
    /// Small files, each synced, in sequence.
    FsyncFiles: "fsync-files-1", PerSecond, MOUNTS, both(AtLeastTimes(1.0, Kernel));
    /// Small files, each synced, by 16 processes.
    FsyncFiles16: "fsync-files-16", PerSecond, MOUNTS, both(AtLeastTimes(0.8, Kernel));
    /// setxattr(2) by one process.
    SetXattr: "setxattr", Seconds, MOUNTS, transports(AtMostTimes(3.0, Kernel), AtMostTimes(7.0, Kernel));
    /// stat(2) of a file after it was written.
    StatAfterWrite: "stat-after-write", Microseconds, MOUNTS, [];
    /// The requests to the server by stat(2) of a file after it was written.
    StatAfterWriteRequests: "stat-after-write-requests", Count, SERVERS, [];
    /// stat(2) of a file after it was renamed.
    StatAfterRename: "stat-after-rename", Microseconds, MOUNTS, [];
    /// The requests to the server by stat(2) of a file after it was renamed.
    StatAfterRenameRequests: "stat-after-rename-requests", Count, SERVERS, [];
    /// stat(2) of a file after another file in its directory was removed.
    StatAfterUnlink: "stat-after-unlink", Microseconds, MOUNTS, [];
    /// The requests to the server by stat(2) of a file after another file in its directory was removed.
    StatAfterUnlinkRequests: "stat-after-unlink-requests", Count, SERVERS, [];
    /// Transactions of a database.
    Database: "database", PerSecond, MOUNTS, both(AtLeastTimes(0.6, Kernel));
    /// Extents per file.
    Extents: "extents", Count, MOUNTS, both(AtMostTimes(1.2, Kernel));
    /// The big file of a qcow2 image from start to end, cold.
    Qcow2Sequential: "qcow2-sequential", MegabytesPerSecond, &[LarderDev, Qcow2, Qemu],
        [(Qcow2, AtLeastTimes(0.9, LarderDev)), (Qcow2, AtLeastTimes(2.0, Qemu))];
    /// Pages of the big file of a qcow2 image at random, cold, several at once.
    Qcow2Random: "qcow2-random", PerSecond, &[LarderDev, Qcow2, Qemu],
        [(Qcow2, AtLeastTimes(0.9, LarderDev)), (Qcow2, AtLeastTimes(2.0, Qemu))];
    /// A file from start to end, with one fsync, in an overlay.
    OverlayWriteSequential: "overlay-write-sequential", MegabytesPerSecond, &[LarderDev, Overlay],
        [(Overlay, AtLeastTimes(0.7, LarderDev))];
    /// Random writes of 4 KiB to a file of the base, with one fsync, in an overlay. The target of 1.43 times the time of a
    /// raw image corresponds to 0.7 times its rate.
    OverlayOverwriteRandom: "overlay-overwrite-random", Seconds, &[LarderDev, Overlay],
        [(Overlay, AtMostTimes(1.43, LarderDev))];
    /// One cached page, in process.
    PageRead: "page-read", Nanoseconds, &[Volume, Fs, Syscall],
        [(Volume, AtMostTimes(0.5, Syscall)), (Fs, AtMostTimes(1.05, Volume))];
    /// The lookup of a path of five components, including its metadata, in process.
    Lookup: "lookup", Nanoseconds, &[Volume, Fs, Syscall],
        [(Volume, AtMostTimes(1.0, Syscall)), (Fs, AtMostTimes(1.05, Volume))];
    /// The share of the page cache's memory that does not hold the content of pages.
    Bookkeeping: "bookkeeping", Percent, &[Volume], [(Volume, AtMost(1.0))];
    /// One decision of the `ondemand` readahead policy.
    Decision: "decision", Nanoseconds, &[Volume], [(Volume, AtMost(50.0))];
    /// Pages of the big file at random, cold, 4 at once, in process.
    ColdRandom4: "cold-random-4", PerSecond, COLD_READERS, [(Volume, AtLeastTimes(0.95, Fio))];
    /// Pages of the big file at random, cold, 64 at once, in process.
    ColdRandom64: "cold-random-64", PerSecond, COLD_READERS, [(Volume, AtLeastTimes(0.95, Fio))];
    /// 64 regions of the big file concurrently, each from start to end, cold, in process.
    Interleaved64: "interleaved-64", MegabytesPerSecond, &[Volume, Direct, Kernel],
        [(Volume, AtLeastTimes(1.0, Kernel))];
    /// 64 regions of the big file concurrently, each from start to end, cold, through a mount.
    Interleaved64Mount: "interleaved-64-mount", MegabytesPerSecond,
        &[Larder, LarderDev, LarderDirect, LarderDevDirect, Kernel], [
            (Larder, AtLeastTimes(0.9, Kernel)), (LarderDev, AtLeastTimes(0.8, Kernel)),
            (LarderDirect, AtLeastTimes(0.9, Kernel)), (LarderDevDirect, AtLeastTimes(0.8, Kernel)),
        ];
    /// The big file from start to end, cold, in process.
    SequentialInProcess: "sequential-in-process", MegabytesPerSecond, &[Volume, Direct, Device], [];
    /// The time of a checkpoint of a full journal, in process.
    Checkpoint: "checkpoint", Milliseconds, &[Volume, Direct], [];
    /// The requests of a checkpoint of a full journal, in process.
    CheckpointRequests: "checkpoint-requests", Count, &[Volume, Direct], [];
    /// The threads of an idle mount.
    ThreadsAtRest: "threads-at-rest", Count, &[Larder, LarderDev], both(AtMost(12.0));
}

impl Measure {
    /// Returns whether [`in_process`](crate::in_process) measures it.
    #[must_use]
    pub const fn is_in_process(self) -> bool {
        matches!(
            self,
            Self::PageRead | Self::Lookup | Self::Bookkeeping | Self::Decision
        )
    }

    /// Returns whether [`device_path`](crate::device_path) measures it.
    #[must_use]
    pub const fn is_of_device_path(self) -> bool {
        matches!(
            self,
            Self::ColdRandom4
                | Self::ColdRandom64
                | Self::Interleaved64
                | Self::Interleaved64Mount
                | Self::SequentialInProcess
                | Self::Checkpoint
                | Self::CheckpointRequests
                | Self::ThreadsAtRest
        )
    }

    /// Returns whether it is measured by writing to a separate image.
    #[must_use]
    pub const fn is_writing(self) -> bool {
        matches!(
            self,
            Self::Untar
                | Self::Copy
                | Self::Chmod
                | Self::Remove
                | Self::Append
                | Self::SetXattr
                | Self::StatAfterWrite
                | Self::StatAfterRename
                | Self::StatAfterUnlink
                | Self::WriteSequential
                | Self::OverwriteRandom
                | Self::FsyncFiles
                | Self::FsyncFiles16
                | Self::Database
                | Self::Extents
                | Self::OverlayWriteSequential
                | Self::OverlayOverwriteRandom
        ) || self.is_of_requests()
    }

    /// Returns whether it is the number of requests to a FUSE server, which [`requests`](crate::requests) counts.
    #[must_use]
    pub const fn is_of_requests(self) -> bool {
        matches!(
            self,
            Self::StatAfterWriteRequests
                | Self::StatAfterRenameRequests
                | Self::StatAfterUnlinkRequests
        )
    }

    /// Returns whether random pages are read.
    #[must_use]
    pub const fn is_random(self) -> bool {
        matches!(self, Self::Random | Self::Qcow2Random)
    }
}

impl Target {
    /// Returns the peer with which the side is compared, if there is one.
    #[must_use]
    pub const fn against(self) -> Option<Peer> {
        match self {
            Self::AtMostTimes(_, peer) | Self::AtLeastTimes(_, peer) => Some(peer),
            Self::AtMost(_) => None,
        }
    }

    /// Returns whether `figure` meets the target: a ratio, or for [`Target::AtMost`] the value itself.
    #[must_use]
    pub fn is_met_by(self, figure: f64) -> bool {
        match self {
            Self::AtMostTimes(limit, _) | Self::AtMost(limit) => figure <= limit,
            Self::AtLeastTimes(limit, _) => figure >= limit,
        }
    }
}

/// Returns the median of `values` (the mean of the two middle ones if their number is even), or `None` if there
/// are no values.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        Some(upper)
    } else {
        Some(f64::midpoint(sorted[middle - 1], upper))
    }
}

/// Converts `number`, which is far below 2^52, to a float.
#[expect(clippy::cast_precision_loss, reason = "figures far below 2^52")]
#[must_use]
pub fn as_f64(number: u64) -> f64 {
    number as f64
}

/// Converts bytes to units of 10^6 bytes.
#[must_use]
pub fn megabytes(bytes: u64) -> f64 {
    as_f64(bytes) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_even_and_no_values() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn target_is_met_up_to_its_limit() {
        assert!(Target::AtMostTimes(1.3, Kernel).is_met_by(1.3));
        assert!(!Target::AtMostTimes(1.3, Kernel).is_met_by(1.31));
        assert!(Target::AtLeastTimes(0.8, Kernel).is_met_by(0.8));
        assert!(!Target::AtLeastTimes(0.8, Kernel).is_met_by(0.79));
        assert!(!Target::AtMost(1.0).is_met_by(f64::NAN));
    }

    #[test]
    fn target_compares_only_with_measured_peers() {
        for measure in Measure::ALL {
            for (side, target) in measure.targets() {
                for peer in [Some(*side), target.against()].into_iter().flatten() {
                    assert!(measure.peers().contains(&peer), "{measure:?}");
                }
            }
        }
    }
}
