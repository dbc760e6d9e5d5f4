//! What is measured, in which unit, between whom, and how far it is to reach.

use serde::Serialize;

use crate::peer::Peer;

/// One measure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// `find` right after `find`.
    WarmFind,
    /// `tar` right after `tar`.
    WarmTar,
    /// `find` on a fresh mount.
    ColdFind,
    /// `tar` on a fresh mount.
    ColdTar,
    /// The big file from start to end, cold.
    Sequential,
    /// The same as a user other than root.
    SequentialUnprivileged,
    /// Pages of the big file at random, cold, several at once.
    Random,
    /// `tar -x` of a tree of small files.
    Untar,
    /// `rm -r` of that tree.
    Remove,
    /// A file from start to end, with one fsync.
    WriteSequential,
    /// 4 KiB of that file at a time, at random, with one fsync.
    OverwriteRandom,
    /// Small files, each synced, one after the other.
    FsyncFiles,
    /// The same by 16 processes.
    FsyncFiles16,
    /// A database's transactions.
    Database,
    /// Extents of a file.
    Extents,
    /// One cached page, in process.
    PageRead,
    /// A path of five components to its metadata, in process.
    Lookup,
    /// What the page cache needs beside the pages.
    Bookkeeping,
    /// One decision of the `ondemand` readahead policy.
    Decision,
}

/// In what a measure is counted, and which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// 10^6 bytes a second.
    MegabytesPerSecond,
    /// Reads, writes, files or transactions a second.
    PerSecond,
    /// Nanoseconds.
    Nanoseconds,
    /// Hundredths.
    Percent,
    /// A number of things.
    Count,
}

/// How far a measure is to reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// Ours divided by the peer's is at most this.
    AtMostTimes(f64, Peer),
    /// Ours divided by the peer's is at least this.
    AtLeastTimes(f64, Peer),
    /// Ours is at most this, in the measure's unit.
    AtMost(f64),
}

use Measure::{
    Bookkeeping, ColdFind, ColdTar, Database, Decision, Extents, FsyncFiles, FsyncFiles16, Lookup,
    OverwriteRandom, PageRead, Random, Remove, Sequential, SequentialUnprivileged, Untar, WarmFind,
    WarmTar, WriteSequential,
};
use Peer::{Device, Floor, Fuse2fs, Kernel, Larder, Syscall, Volume};

impl Measure {
    /// All measures, in the order in which they are printed.
    pub const ALL: [Self; 19] = [
        WarmFind,
        WarmTar,
        ColdFind,
        ColdTar,
        Sequential,
        SequentialUnprivileged,
        Random,
        Untar,
        Remove,
        WriteSequential,
        OverwriteRandom,
        FsyncFiles,
        FsyncFiles16,
        Database,
        Extents,
        PageRead,
        Lookup,
        Bookkeeping,
        Decision,
    ];

    /// The name, as `--only` takes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            WarmFind => "warm-find",
            WarmTar => "warm-tar",
            ColdFind => "cold-find",
            ColdTar => "cold-tar",
            Sequential => "sequential",
            SequentialUnprivileged => "sequential-unprivileged",
            Random => "random",
            Untar => "untar",
            Remove => "remove",
            WriteSequential => "write-sequential",
            OverwriteRandom => "overwrite-random",
            FsyncFiles => "fsync-files-1",
            FsyncFiles16 => "fsync-files-16",
            Database => "database",
            Extents => "extents",
            PageRead => "page-read",
            Lookup => "lookup",
            Bookkeeping => "bookkeeping",
            Decision => "decision",
        }
    }

    /// Its unit.
    #[must_use]
    pub const fn unit(self) -> Unit {
        match self {
            WarmFind | WarmTar | ColdFind | ColdTar | Untar | Remove => Unit::Seconds,
            Sequential | SequentialUnprivileged | WriteSequential => Unit::MegabytesPerSecond,
            Random | OverwriteRandom | FsyncFiles | FsyncFiles16 | Database => Unit::PerSecond,
            Extents => Unit::Count,
            PageRead | Lookup | Decision => Unit::Nanoseconds,
            Bookkeeping => Unit::Percent,
        }
    }

    /// The side that the target is about.
    #[must_use]
    pub const fn ours(self) -> Peer {
        match self {
            PageRead | Lookup | Bookkeeping | Decision => Volume,
            _ => Larder,
        }
    }

    /// Between whom it is measured.
    #[must_use]
    pub const fn peers(self) -> &'static [Peer] {
        match self {
            WarmFind | WarmTar | ColdFind | ColdTar | Untar | Remove | WriteSequential
            | OverwriteRandom | FsyncFiles | FsyncFiles16 | Database | Extents => {
                &[Larder, Fuse2fs, Kernel]
            }
            Sequential | Random => &[Larder, Fuse2fs, Kernel, Floor, Device],
            SequentialUnprivileged => &[Larder, Fuse2fs, Floor],
            PageRead | Lookup => &[Volume, Syscall],
            Bookkeeping | Decision => &[Volume],
        }
    }

    /// Whether it writes, on an image of its own.
    #[must_use]
    pub const fn is_writing(self) -> bool {
        matches!(
            self,
            Untar
                | Remove
                | WriteSequential
                | OverwriteRandom
                | FsyncFiles
                | FsyncFiles16
                | Database
                | Extents
        )
    }

    /// What it is to reach; nothing for what is only told.
    #[must_use]
    pub const fn targets(self) -> &'static [Target] {
        match self {
            WarmFind | WarmTar => &[Target::AtMostTimes(1.3, Kernel)],
            ColdFind | ColdTar => &[Target::AtMostTimes(2.0, Kernel)],
            Sequential | FsyncFiles16 => &[Target::AtLeastTimes(0.8, Kernel)],
            SequentialUnprivileged => &[Target::AtLeastTimes(2.0, Fuse2fs)],
            Random => &[Target::AtLeastTimes(0.9, Floor)],
            Untar | Remove => &[
                Target::AtMostTimes(3.0, Kernel),
                Target::AtMostTimes(0.2, Fuse2fs),
            ],
            WriteSequential => &[
                Target::AtLeastTimes(0.7, Kernel),
                Target::AtLeastTimes(3.0, Fuse2fs),
            ],
            OverwriteRandom | FsyncFiles => &[],
            Database => &[Target::AtLeastTimes(0.6, Kernel)],
            Extents => &[Target::AtMostTimes(1.2, Kernel)],
            PageRead => &[Target::AtMostTimes(0.5, Syscall)],
            Lookup => &[Target::AtMostTimes(1.0, Syscall)],
            Bookkeeping => &[Target::AtMost(1.0)],
            Decision => &[Target::AtMost(50.0)],
        }
    }
}

impl Target {
    /// Whom ours is compared with.
    #[must_use]
    pub const fn against(self) -> Option<Peer> {
        match self {
            Self::AtMostTimes(_, peer) | Self::AtLeastTimes(_, peer) => Some(peer),
            Self::AtMost(_) => None,
        }
    }

    /// True if `figure` reaches it: a ratio, or for [`Target::AtMost`] the value itself.
    #[must_use]
    pub fn is_met_by(self, figure: f64) -> bool {
        match self {
            Self::AtMostTimes(limit, _) | Self::AtMost(limit) => figure <= limit,
            Self::AtLeastTimes(limit, _) => figure >= limit,
        }
    }
}

/// The middle of `values`, or the mean of the two middle ones; `None` if there are none.
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
    fn target_at_its_limit_is_met_and_beyond_is_not() {
        assert!(Target::AtMostTimes(1.3, Kernel).is_met_by(1.3));
        assert!(!Target::AtMostTimes(1.3, Kernel).is_met_by(1.31));
        assert!(Target::AtLeastTimes(0.8, Kernel).is_met_by(0.8));
        assert!(!Target::AtLeastTimes(0.8, Kernel).is_met_by(0.79));
        assert!(!Target::AtMost(1.0).is_met_by(f64::NAN));
    }

    #[test]
    fn measure_compares_with_a_peer_that_it_measures() {
        for measure in Measure::ALL {
            assert!(measure.peers().contains(&measure.ours()), "{measure:?}");
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
