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
    /// 10^6 bytes per second.
    MegabytesPerSecond,
    /// Reads, writes, files or transactions per second.
    PerSecond,
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
            Self::MegabytesPerSecond => "MB/s",
            Self::PerSecond => "/s",
            Self::Nanoseconds => "ns",
            Self::Percent => "%",
            Self::Count => "",
        }
    }
}

/// The target of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// Larder's value divided by the peer's is at most this.
    AtMostTimes(f64, Peer),
    /// Larder's value divided by the peer's is at least this.
    AtLeastTimes(f64, Peer),
    /// Larder's value is at most this, in the measure's unit.
    AtMost(f64),
}

use Peer::{Device, Direct, Fio, Floor, Fuse2fs, Kernel, Larder, Squashfuse, Syscall, Volume};
use Target::{AtLeastTimes, AtMost, AtMostTimes};

/// The peers that mount for writing.
const MOUNTS: &[Peer] = &[Larder, Fuse2fs, Kernel];
/// The peers whose trees can be read.
const TREES: &[Peer] = &[Larder, Fuse2fs, Squashfuse, Kernel];
/// The peers from which a file can be read.
const READERS: &[Peer] = &[Larder, Fuse2fs, Squashfuse, Kernel, Floor, Device];
/// The peers that read random pages of the image without a mount.
const COLD_READERS: &[Peer] = &[Volume, Direct, Device, Fio];

/// Defines [`Measure`] by a table: variant, name, unit, peers, targets.
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

            /// Returns its targets; empty if it is only reported.
            #[must_use]
            pub const fn targets(self) -> &'static [Target] {
                match self { $(Self::$variant => &$targets,)* }
            }
        }
    };
}

measures! {
    /// `find` right after `find`.
    WarmFind: "warm-find", Seconds, TREES, [AtMostTimes(1.3, Kernel)];
    /// `tar` right after `tar`.
    WarmTar: "warm-tar", Seconds, TREES, [AtMostTimes(1.3, Kernel)];
    /// `find` on a fresh mount.
    ColdFind: "cold-find", Seconds, TREES, [AtMostTimes(2.0, Kernel)];
    /// `tar` on a fresh mount.
    ColdTar: "cold-tar", Seconds, TREES, [AtMostTimes(2.0, Kernel)];
    /// The big file from start to end, cold.
    Sequential: "sequential", MegabytesPerSecond, READERS, [AtLeastTimes(0.8, Kernel)];
    /// The same, as a user other than root.
    SequentialUnprivileged: "sequential-unprivileged", MegabytesPerSecond, &[Larder, Fuse2fs, Squashfuse, Floor],
        [AtLeastTimes(2.0, Fuse2fs)];
    /// Pages of the big file at random, cold, several at once.
    Random: "random", PerSecond, READERS, [AtLeastTimes(0.9, Floor)];
    /// `tar -x` of a tree of small files.
    Untar: "untar", Seconds, MOUNTS, [AtMostTimes(3.0, Kernel), AtMostTimes(0.2, Fuse2fs)];
    /// `rm -r` of that tree.
    Remove: "remove", Seconds, MOUNTS, [AtMostTimes(3.0, Kernel), AtMostTimes(0.2, Fuse2fs)];
    /// A file from start to end, with one fsync.
    WriteSequential: "write-sequential", MegabytesPerSecond, MOUNTS,
        [AtLeastTimes(0.7, Kernel), AtLeastTimes(3.0, Fuse2fs)];
    /// Random writes of 4 KiB to that file, with one fsync.
    OverwriteRandom: "overwrite-random", PerSecond, MOUNTS, [];
    /// Small files, each synced, in sequence.
    FsyncFiles: "fsync-files-1", PerSecond, MOUNTS, [];
    /// The same by 16 processes.
    FsyncFiles16: "fsync-files-16", PerSecond, MOUNTS, [AtLeastTimes(0.8, Kernel)];
    /// Transactions of a database.
    Database: "database", PerSecond, MOUNTS, [AtLeastTimes(0.6, Kernel)];
    /// Extents per file.
    Extents: "extents", Count, MOUNTS, [AtMostTimes(1.2, Kernel)];
    /// One cached page, in process.
    PageRead: "page-read", Nanoseconds, &[Volume, Syscall], [AtMostTimes(0.5, Syscall)];
    /// The lookup of a path of five components, including its metadata, in process.
    Lookup: "lookup", Nanoseconds, &[Volume, Syscall], [AtMostTimes(1.0, Syscall)];
    /// The memory of the page cache that is not pages.
    Bookkeeping: "bookkeeping", Percent, &[Volume], [AtMost(1.0)];
    /// One decision of the `ondemand` readahead policy.
    Decision: "decision", Nanoseconds, &[Volume], [AtMost(50.0)];
    /// Pages of the big file at random, cold, 4 at once, in process.
    ColdRandom4: "cold-random-4", PerSecond, COLD_READERS, [AtLeastTimes(0.95, Fio)];
    /// The same, 64 at once.
    ColdRandom64: "cold-random-64", PerSecond, COLD_READERS, [AtLeastTimes(0.95, Fio)];
    /// 64 regions of the big file concurrently, each from start to end, cold, in process.
    Interleaved64: "interleaved-64", MegabytesPerSecond, &[Volume, Direct, Kernel], [AtLeastTimes(1.0, Kernel)];
    /// The same through a mount.
    Interleaved64Mount: "interleaved-64-mount", MegabytesPerSecond, &[Larder, Kernel], [AtLeastTimes(0.8, Kernel)];
    /// The big file from start to end, cold, in process.
    SequentialInProcess: "sequential-in-process", MegabytesPerSecond, &[Volume, Direct, Device], [];
    /// The time of a checkpoint of a full journal, in process.
    Checkpoint: "checkpoint", Milliseconds, &[Volume, Direct], [];
    /// The requests of this checkpoint.
    CheckpointRequests: "checkpoint-requests", Count, &[Volume, Direct], [];
    /// The threads of an idle mount.
    ThreadsAtRest: "threads-at-rest", Count, &[Larder], [AtMost(12.0)];
}

impl Measure {
    /// Returns the side to which the target applies.
    #[must_use]
    pub const fn subject(self) -> Peer {
        match self {
            Self::PageRead
            | Self::Lookup
            | Self::Bookkeeping
            | Self::Decision
            | Self::ColdRandom4
            | Self::ColdRandom64
            | Self::Interleaved64
            | Self::SequentialInProcess
            | Self::Checkpoint
            | Self::CheckpointRequests => Volume,
            _ => Larder,
        }
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

    /// Returns whether it writes, on a separate image.
    #[must_use]
    pub const fn is_writing(self) -> bool {
        matches!(
            self,
            Self::Untar
                | Self::Remove
                | Self::WriteSequential
                | Self::OverwriteRandom
                | Self::FsyncFiles
                | Self::FsyncFiles16
                | Self::Database
                | Self::Extents
        )
    }
}

impl Target {
    /// Returns the peer of the comparison.
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

/// Returns the median of `values` (the mean of the two middle ones if their number is even), or `None`
/// if empty.
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
            assert!(measure.peers().contains(&measure.subject()), "{measure:?}");
            for target in measure.targets() {
                let against = target.against();
                assert!(
                    against.is_none_or(|peer| measure.peers().contains(&peer)),
                    "{measure:?}"
                );
            }
        }
    }
}
