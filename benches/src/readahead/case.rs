//! What is measured: a workload, on a disk of a speed.

use serde::Serialize;

use crate::readahead::plan::Plan;

/// A pattern of one reader, after iozone's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pattern {
    /// From start to end, with read(2); and, in the same mount, once more.
    Read,
    /// From end to start.
    Reverse,
    /// One request in 17.
    Stride,
    /// Each request anywhere, none twice.
    Random,
    /// Half of the requests behind the one before, half anywhere.
    Mixed,
    /// From start to end, with pread(2).
    Pread,
}

/// Who reads what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Workload {
    /// One reader, by fio.
    Fio(Pattern),
    /// Random reads of so many threads, by sysbench.
    Sysbench(u32),
    /// 64 readers of one file, each in a region and with a descriptor of its own.
    Interleaved,
    /// The same reads in turns, all through one descriptor.
    InterleavedOneDescriptor,
    /// A stream on each of many files, as fast as it can.
    Streams,
    /// The same at a pace, started one after the other, as in the published measurement.
    Thrashing,
}

/// How fast the device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Disk {
    /// As fast as the machine's storage.
    Fast,
    /// Throttled to [`SLOW_DISK`](super::plan::SLOW_DISK).
    Slow,
}

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    /// Who reads what.
    pub workload: Workload,
    /// From where.
    pub disk: Disk,
}

/// Readers of one large file.
pub const INTERLEAVED_READERS: u32 = 64;

impl Workload {
    /// The name as it is printed, without the disk.
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

    /// Whether memory is limited.
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
    /// The name as it is printed, and as `--only` takes it.
    #[must_use]
    pub fn name(self) -> String {
        self.prefix().to_owned() + &self.workload.name()
    }

    /// What `case` reads in the second place, in the same mount.
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

    /// All that `plan` has, in the order in which it is measured.
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
        // The streams' pace is no load for a fast disk.
        cases.push(Self {
            workload: Workload::Thrashing,
            disk: Disk::Slow,
        });
        cases
    }
}
