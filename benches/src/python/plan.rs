//! The sides, the workloads and the sizes of a run.

use serde::{Deserialize, Serialize};

use crate::named::named;
use crate::peer::Peer;

named! {
    /// One of the compared sides.
    Side {
        /// The package.
        Larder: "larder",
        /// Its file system for fsspec.
        FsspecExt4: "fsspec-ext4",
        /// The builtin `open` on `larder mount`.
        Mount: "mount",
        /// The builtin `open` on the kernel's ext4.
        Kernel: "kernel",
        /// fsspec's local file system on `larder mount`.
        FsspecLocal: "fsspec-local",
        /// fsspec's zip file system.
        FsspecZip: "fsspec-zip",
    }
}

named! {
    /// What is measured.
    Workload {
        /// Reads of 4 KiB at random offsets of a large file.
        Random: "random",
        /// Each small file is opened, read and closed, in random order.
        Files: "files",
    }
}

impl Side {
    /// Returns the peer that mounts the image, if the side reads through a mount.
    pub(super) const fn peer(self) -> Option<Peer> {
        match self {
            Self::Mount | Self::FsspecLocal => Some(Peer::LarderDev),
            Self::Kernel => Some(Peer::Kernel),
            Self::Larder | Self::FsspecExt4 | Self::FsspecZip => None,
        }
    }
}

/// The sizes of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The number of small files.
    pub files: u32,
    /// The size of the large file, in bytes.
    pub big_file_bytes: u64,
    /// The number of random reads.
    pub reads: u32,
    /// The number of random reads of fsspec-zip, which reads everything before an offset to seek to it.
    pub zip_reads: u32,
    /// The number of rounds. Results are medians over them.
    pub rounds: usize,
}

impl Plan {
    /// Returns the plan of the full run.
    #[must_use]
    pub fn full() -> Self {
        Self {
            files: 10_000,
            big_file_bytes: 512 << 20,
            reads: 20_000,
            zip_reads: 20,
            rounds: 3,
        }
    }

    /// Returns a plan of one round with smaller sizes, to try a change.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            files: 1_000,
            big_file_bytes: 64 << 20,
            reads: 2_000,
            rounds: 1,
            ..Self::full()
        }
    }

    /// Returns a plan for the test.
    #[must_use]
    pub fn tiny() -> Self {
        Self {
            files: 10,
            big_file_bytes: 1 << 20,
            reads: 10,
            zip_reads: 2,
            rounds: 1,
        }
    }
}
