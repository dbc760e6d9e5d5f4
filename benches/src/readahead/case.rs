//! A case: a workload on a disk of a certain speed.

use crate::readahead::peer::Peer;
use crate::readahead::plan::{Disk, Plan};

/// A pattern of one reader, as in iozone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pattern {
    /// From start to end, with read(2). The file is then read once more on the same mount.
    Read,
    /// From end to start.
    Reverse,
    /// From start to end, one request in 17.
    Stride,
    /// Random requests, none twice.
    Random,
    /// Half of the requests directly follow the previous request, half are random.
    Mixed,
    /// From start to end, with pread(2).
    Pread,
}

/// The readers and their files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Workload {
    /// One reader, by fio.
    Fio(Pattern),
    /// Random reads by this number of threads of sysbench.
    Sysbench(u32),
    /// 64 readers of one file, each with its own region and descriptor.
    Interleaved,
    /// The same reads in turns, all through one descriptor.
    InterleavedOneDescriptor,
    /// A stream on each of many files, at full speed.
    Streams,
    /// The same at a limited rate, with staggered starts, as in the published measurement.
    Thrashing,
}

/// A case to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    /// The workload.
    pub workload: Workload,
    /// The disk.
    pub disk: Disk,
}

/// The number of interleaved readers of the big file.
pub const INTERLEAVED_READERS: u32 = 64;

impl Workload {
    /// Returns the name as it is printed, without the disk.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Fio(Pattern::Read) => "read".to_owned(),
            Self::Fio(Pattern::Reverse) => "reverse-read".to_owned(),
            Self::Fio(Pattern::Stride) => "stride-read".to_owned(),
            Self::Fio(Pattern::Random) => "random-read".to_owned(),
            Self::Fio(Pattern::Mixed) => "mixed-read".to_owned(),
            Self::Fio(Pattern::Pread) => "pread".to_owned(),
            Self::Sysbench(threads) => format!("sysbench-{threads}"),
            Self::Interleaved => "interleaved".to_owned(),
            Self::InterleavedOneDescriptor => "interleaved-one-fd".to_owned(),
            Self::Streams => "streams".to_owned(),
            Self::Thrashing => "thrashing".to_owned(),
        }
    }

    /// Returns whether the workload is measured on `peer`. Exact policies only repeat the published measurements.
    #[must_use]
    pub fn is_measured_on(self, peer: Peer) -> bool {
        !peer.is_exact() || self == Self::Thrashing
    }

    /// Returns the limit of the memory in bytes, if there is one.
    #[must_use]
    pub fn memory_bytes(self, disk: Disk, plan: &Plan) -> Option<u64> {
        match self {
            Self::Fio(_) | Self::Sysbench(_) => Some(plan.sizes(disk).memory_bytes),
            Self::Interleaved | Self::InterleavedOneDescriptor => None,
            Self::Streams | Self::Thrashing => Some(plan.stream_memory_bytes),
        }
    }
}

impl Case {
    /// Returns the name as it is printed, and as `--only` accepts it.
    #[must_use]
    pub fn name(self) -> String {
        self.prefix().to_owned() + &self.workload.name()
    }

    /// Returns the name of the second read on the same mount, for the case [`Pattern::Read`].
    #[must_use]
    pub fn second_name(self) -> String {
        self.prefix().to_owned() + "re-read"
    }

    const fn prefix(self) -> &'static str {
        match self.disk {
            Disk::Fast => "",
            Disk::Slow => "slow-",
        }
    }

    /// Returns all cases of `plan`, in the order in which they are measured.
    #[must_use]
    pub fn all(plan: &Plan) -> Vec<Self> {
        let mut cases = Vec::new();
        for disk in [Disk::Fast, Disk::Slow] {
            let patterns = [
                Pattern::Read,
                Pattern::Reverse,
                Pattern::Stride,
                Pattern::Random,
                Pattern::Mixed,
                Pattern::Pread,
            ];
            let threads = &plan.sizes(disk).sysbench_threads;
            let workloads = patterns
                .into_iter()
                .map(Workload::Fio)
                .chain(threads.iter().copied().map(Workload::Sysbench))
                .chain([
                    Workload::Interleaved,
                    Workload::InterleavedOneDescriptor,
                    Workload::Streams,
                ]);
            cases.extend(workloads.map(|workload| Self { workload, disk }));
        }
        // Streams with a limited rate do not load a fast disk.
        cases.push(Self {
            workload: Workload::Thrashing,
            disk: Disk::Slow,
        });
        cases
    }
}
