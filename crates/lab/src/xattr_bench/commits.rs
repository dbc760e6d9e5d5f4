//! The commits of the journal during a run: of Larder's volume, and of the kernel's ext4.

use crate::output::{significant, text_or};
use crate::run_report::as_f64;
use crate::statistics::mean;
use larder::WritingStats;
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Commits of a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Commits {
    /// The number of committed transactions.
    pub transactions: u64,
    /// The number of metadata blocks in these transactions.
    pub blocks: u64,
    /// The total duration of the commits, in seconds.
    pub seconds: f64,
}

/// The mean commits of several runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanCommits {
    /// The number of committed transactions in a run.
    pub transactions: f64,
    /// The number of metadata blocks in a transaction; `None` if there were no transactions.
    pub blocks: Option<f64>,
    /// The duration of a commit, in seconds; `None` if there were no transactions.
    pub seconds: Option<f64>,
}

impl Commits {
    /// Returns the commits since a volume was opened. Without a journal, a commit writes blocks to their places.
    pub(super) fn of(writing: &WritingStats) -> Self {
        Self {
            transactions: writing.commits,
            blocks: writing.committed_blocks,
            seconds: Duration::from_nanos(writing.commit_ns).as_secs_f64(),
        }
    }

    /// Returns the commits since `earlier`.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            transactions: self.transactions.saturating_sub(earlier.transactions),
            blocks: self.blocks.saturating_sub(earlier.blocks),
            seconds: self.seconds - earlier.seconds,
        }
    }
}

impl MeanCommits {
    /// Returns the mean of the commits of several runs; `None` without runs.
    #[must_use]
    pub fn of(runs: &[Commits]) -> Option<Self> {
        if runs.is_empty() {
            return None;
        }
        let counts: Vec<f64> = runs.iter().map(|run| as_f64(run.transactions)).collect();
        let all: f64 = counts.iter().sum();
        let per_transaction = |total: f64| (all > 0.0).then(|| total / all);
        Some(Self {
            transactions: mean(&counts),
            blocks: per_transaction(runs.iter().map(|run| as_f64(run.blocks)).sum()),
            seconds: per_transaction(runs.iter().map(|run| run.seconds).sum()),
        })
    }

    /// Returns the cells of a table: transactions, blocks in each, and milliseconds for each.
    pub(crate) fn cells(&self) -> [String; 3] {
        let blocks = self.blocks.map(|blocks| format!("{blocks:.0}"));
        let milliseconds = self.seconds.map(|seconds| significant(seconds * 1e3));
        [
            format!("{:.1}", self.transactions),
            text_or(blocks, "-"),
            text_or(milliseconds, "-"),
        ]
    }
}

/// The journal of a file system that the kernel has mounted, as it appears in `/proc/fs/jbd2`.
#[derive(Debug)]
pub(super) struct KernelJournal {
    info: PathBuf,
}

impl KernelJournal {
    /// Returns the journal in the file system of `path`; `None` if it has no journal that the kernel
    /// reports.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let device = fs::metadata(path).ok()?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let link = fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        let device = link.file_name()?.to_str()?;
        // A journal in the file system is named after the device and the journal's inode.
        let name = format!("{device}-");
        let journals = fs::read_dir("/proc/fs/jbd2").ok()?.flatten();
        let mut names = journals.filter_map(|entry| entry.file_name().into_string().ok());
        let found = names.find(|journal| journal.starts_with(&name))?;
        Some(Self {
            info: Path::new("/proc/fs/jbd2").join(found).join("info"),
        })
    }

    /// Returns the statistics since the file system was mounted.
    pub(super) fn info(&self) -> Option<KernelInfo> {
        KernelInfo::parse(&fs::read_to_string(&self.info).ok()?)
    }
}

/// The statistics of a journal of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KernelInfo {
    transactions: u64,
    /// The number of blocks in all transactions, from an average that is rounded to whole blocks.
    blocks: u64,
    /// A moving average of the duration of a commit, in which the last commit has a weight of a quarter.
    commit_us: u64,
}

impl KernelInfo {
    /// Parses the file `info`, which contains the number of transactions and averages.
    fn parse(info: &str) -> Option<Self> {
        let number = |line: &str| line.trim_start().split([' ', 'u']).next()?.parse().ok();
        let transactions = number(info.lines().next()?)?;
        let average = |name| -> u64 {
            let line = info.lines().find(|line| line.ends_with(name));
            line.and_then(number).unwrap_or_default()
        };
        Some(Self {
            transactions,
            blocks: transactions * average(" blocks per transaction"),
            commit_us: average("us average transaction commit time"),
        })
    }

    /// Returns the commits since `earlier`.
    pub(super) fn since(self, earlier: Self) -> Commits {
        let transactions = self.transactions.saturating_sub(earlier.transactions);
        Commits {
            transactions,
            blocks: self.blocks.saturating_sub(earlier.blocks),
            seconds: Duration::from_micros(transactions * self.commit_us).as_secs_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "26 transactions (3 requested), each up to 5461 blocks\n\
                        average: \n  0ms waiting for transaction\n  4ms request delay\n  \
                        30ms running transaction\n  0ms transaction was being locked\n  \
                        0ms flushing data (in ordered mode)\n  10ms logging transaction\n  \
                        12345us average transaction commit time\n  5000 handles per transaction\n  \
                        4000 blocks per transaction\n  4020 logged blocks per transaction\n";

    #[test]
    fn info_of_a_journal_is_parsed() {
        let info = KernelInfo::parse(INFO).unwrap();
        let expected = KernelInfo {
            transactions: 26,
            blocks: 26 * 4000,
            commit_us: 12_345,
        };
        assert_eq!(info, expected);
        let new = KernelInfo::parse("0 transactions (0 requested), each up to 5461 blocks\n");
        let commits = info.since(new.unwrap());
        assert_eq!((commits.transactions, commits.blocks), (26, 26 * 4000));
        assert!((commits.seconds - 26.0 * 0.012_345).abs() < 1e-9);
        assert_eq!(KernelInfo::parse(""), None);
    }

    #[test]
    fn mean_counts_each_transaction_once() {
        let run = |transactions, blocks, seconds| Commits {
            transactions,
            blocks,
            seconds,
        };
        let runs = [run(1, 100, 0.5), run(3, 100, 0.1)];
        let mean = MeanCommits::of(&runs).unwrap();
        assert!((mean.transactions - 2.0).abs() < 1e-9);
        assert!((mean.blocks.unwrap() - 50.0).abs() < 1e-9);
        assert!((mean.seconds.unwrap() - 0.15).abs() < 1e-9);
        assert_eq!(MeanCommits::of(&[]), None);
        let idle = MeanCommits::of(&[run(0, 0, 0.0)]).unwrap();
        assert_eq!((idle.blocks, idle.seconds), (None, None));
    }
}
