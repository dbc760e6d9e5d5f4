//! What is measured, and the sides of the comparison.

use crate::measure::Unit;
use crate::named::named;
use crate::remote::recorded::Start;

named! {
    /// One side of the comparison.
    Side {
        /// `larder mount` without a disk cache.
        Larder: "larder",
        /// The same with a profile.
        LarderProfile: "larder-profile",
        /// The same with a packed profile.
        LarderPack: "larder-pack",
        /// `larder mount` with a disk cache. In [`Group::Latency`](super::run::Group::Latency), the cache contains
        /// what an earlier mount of the same image has read. In the other groups, it is empty.
        LarderDisk: "larder-disk",
        /// `larder mount` without a disk cache, with the readahead policy `adaptive`.
        LarderAdaptive: "larder-adaptive",
        /// `larder mount` without a disk cache and without readahead.
        LarderOff: "larder-off",
        /// A client of ranges over parallel connections.
        Plain: "plain",
        /// The curl plugin of nbdkit with the filters `readahead` and `cache`, through nbdfuse.
        Nbdkit: "nbdkit",
        /// `rclone mount`.
        Rclone: "rclone",
        /// httpdirfs.
        Httpdirfs: "httpdirfs",
        /// s3backer.
        S3backer: "s3backer",
    }
}

impl Side {
    /// The other programs that make an image at a URL a local file.
    pub const PEERS: [Self; 4] = [Self::Nbdkit, Self::Rclone, Self::Httpdirfs, Self::S3backer];
}

named! {
    /// What is measured.
    Measure {
        /// Waves until an image is mounted.
        MountWaves: "mount-waves",
        /// Waves from the end of the mount to the first byte of a file at the root.
        FirstByteWaves: "first-byte-waves",
        /// Requests of more than one byte until the first byte of a file at the root, including the mount.
        DataRequests: "data-requests",
        /// Requests of one byte in the same time. They only show the version of the image.
        Revalidations: "revalidations",
        /// The maximum number of waves of one more component of a path.
        PathWaves: "path-waves",
        /// Waves of find(1) over the small files.
        FindWaves: "find-waves",
        /// The time of find(1) over the small files.
        Find: "find",
        /// The rate of a read of the big file from start to end.
        Sequential: "sequential",
        /// The rate of eight readers of the big file, each of its own region.
        Interleaved8: "interleaved-8",
        /// Random reads of 4 KiB, one at a time.
        Random1: "random-1",
        /// Random reads of 4 KiB by 64 threads.
        Random64: "random-64",
        /// Bytes that the server sent for each byte that these 64 threads read.
        RandomBytes: "random-bytes",
        /// Bytes per second that the server sent for these 64 threads.
        RandomRate: "random-rate",
        /// The time of a mount and of the recorded reads of the start of `python3`.
        PythonStart: "python-start",
        /// The time of a mount and of the recorded reads of the start of `mariadbd`.
        DatabaseStart: "database-start",
        /// Requests of the start of `python3`, including the mount.
        PythonRequests: "python-requests",
        /// Requests of the start of `mariadbd`, including the mount.
        DatabaseRequests: "database-requests",
        /// The share of the bytes fetched for a profile that the start of `python3` used.
        PythonUsed: "python-used",
        /// The share of the bytes fetched for a profile that the start of `mariadbd` used.
        DatabaseUsed: "database-used",
        /// The time that 99% of the reads of the start of `python3` do not exceed.
        PythonP99: "python-p99",
        /// The time that 99% of the reads of the start of `mariadbd` do not exceed.
        DatabaseP99: "database-p99",
        /// The maximum memory of the server minus its memory after the mount.
        Memory: "memory",
        /// The mean number of requests of a simulated node that starts a program.
        NodeRequests: "node-requests",
        /// The mean amount of data that is sent to a simulated node.
        NodeBytes: "node-bytes",
        /// Requests that a zone's cache sent to the server when processes that use the cache started at once.
        ZoneRequests: "zone-requests",
        /// Bytes that the server sent to a zone's cache.
        ZoneBytes: "zone-bytes",
        /// The time in which all of these processes started.
        ZoneStart: "zone-start",
        /// The time of reads of 4 KiB, one at a time, relative to the time that the lab's device predicts for the
        /// requests that they cause.
        Predicted4K1: "predicted-4k-1",
        /// The same for reads of 4 KiB, 64 at once.
        Predicted4K64: "predicted-4k-64",
        /// The same for reads of 128 KiB, 64 at once.
        Predicted128K64: "predicted-128k-64",
        /// The same for reads of 8 MiB, eight at once.
        Predicted8M8: "predicted-8m-8",
    }
}

impl Measure {
    /// Returns the unit.
    #[must_use]
    pub const fn unit(self) -> Unit {
        match self {
            Self::MountWaves
            | Self::FirstByteWaves
            | Self::DataRequests
            | Self::Revalidations
            | Self::PathWaves
            | Self::FindWaves
            | Self::RandomBytes
            | Self::PythonRequests
            | Self::DatabaseRequests
            | Self::NodeRequests
            | Self::ZoneRequests
            | Self::Predicted4K1
            | Self::Predicted4K64
            | Self::Predicted128K64
            | Self::Predicted8M8 => Unit::Count,
            Self::Find | Self::PythonStart | Self::DatabaseStart | Self::ZoneStart => Unit::Seconds,
            Self::Sequential | Self::Interleaved8 | Self::RandomRate => Unit::MegabytesPerSecond,
            Self::Random1 | Self::Random64 => Unit::PerSecond,
            Self::PythonUsed | Self::DatabaseUsed => Unit::Percent,
            Self::PythonP99 | Self::DatabaseP99 => Unit::Milliseconds,
            Self::Memory | Self::NodeBytes | Self::ZoneBytes => Unit::Megabytes,
        }
    }
}

/// The measures of a program start.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfStart {
    pub time: Measure,
    pub requests: Measure,
    pub used: Measure,
    pub p99: Measure,
}

impl OfStart {
    pub(super) const fn new(start: Start) -> Self {
        match start {
            Start::Python => Self {
                time: Measure::PythonStart,
                requests: Measure::PythonRequests,
                used: Measure::PythonUsed,
                p99: Measure::PythonP99,
            },
            Start::Database => Self {
                time: Measure::DatabaseStart,
                requests: Measure::DatabaseRequests,
                used: Measure::DatabaseUsed,
                p99: Measure::DatabaseP99,
            },
        }
    }
}
