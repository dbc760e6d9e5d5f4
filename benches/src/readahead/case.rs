//! A case: a workload on a disk of a certain speed.

use larder_readahead::PolicyName;

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
    /// OLTP read-only with this number of threads of sysbench, as in the published measurement.
    Oltp(u32),
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

/// The prefix of the names of OLTP workloads. The number of threads follows it.
const OLTP: &str = "oltp-";

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
            Self::Oltp(threads) => format!("{OLTP}{threads}"),
        }
    }

    /// Returns whether the workload is measured on `peer`. Exact policies only repeat the published measurements. OLTP
    /// takes long, so it is measured with the exact policies instead of those with Larder's changes.
    #[must_use]
    pub fn is_measured_on(self, peer: Peer) -> bool {
        match (self, peer) {
            (Self::Oltp(_), Peer::Policy(policy)) => {
                matches!(policy, PolicyName::Modern | PolicyName::Adaptive)
            }
            (Self::Thrashing | Self::Oltp(_), _) => true,
            (_, peer) => !peer.is_exact(),
        }
    }

    /// Returns the limit of the memory in bytes, if there is one.
    #[must_use]
    pub fn memory_bytes(self, disk: Disk, plan: &Plan) -> Option<u64> {
        match self {
            Self::Fio(_) | Self::Sysbench(_) => Some(plan.sizes(disk).memory_bytes),
            Self::Interleaved | Self::InterleavedOneDescriptor => None,
            Self::Streams | Self::Thrashing => Some(plan.stream_memory_bytes),
            Self::Oltp(_) => Some(plan.oltp.memory_bytes),
        }
    }
}

impl Case {
    /// Returns the name as it is printed, and as `--only` accepts it.
    #[must_use]
    pub fn name(self) -> String {
        self.prefix().to_owned() + &self.workload.name()
    }

    /// Returns the number of threads if `name` is the name of an OLTP case.
    #[must_use]
    pub fn oltp_threads(name: &str) -> Option<u32> {
        let (_, threads) = name.split_once(OLTP)?;
        threads.parse().ok()
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
        // Streams with a limited rate do not load a fast disk, and the published measurement of OLTP used a slow disk.
        let oltp = plan.oltp.threads.iter().copied().map(Workload::Oltp);
        let published = [Workload::Thrashing].into_iter().chain(oltp);
        let disk = Disk::Slow;
        cases.extend(published.map(|workload| Self { workload, disk }));
        cases
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_oltp_are_in_its_name() {
        let case = |workload| Case {
            workload,
            disk: Disk::Slow,
        };
        let name = case(Workload::Oltp(64)).name();
        assert_eq!(
            (name.as_str(), Case::oltp_threads(&name)),
            ("slow-oltp-64", Some(64))
        );
        let name = case(Workload::Sysbench(64)).name();
        assert_eq!(Case::oltp_threads(&name), None);
    }

    #[test]
    fn only_published_workloads_are_measured_with_exact_policies() {
        let plan = Plan::full();
        let exact = Case::all(&plan)
            .into_iter()
            .filter(|case| case.workload.is_measured_on(Peer::ExactLegacy));
        let names: Vec<String> = exact.map(Case::name).collect();
        assert_eq!(
            names,
            [
                "slow-thrashing",
                "slow-oltp-1",
                "slow-oltp-8",
                "slow-oltp-64"
            ]
        );
    }
}
