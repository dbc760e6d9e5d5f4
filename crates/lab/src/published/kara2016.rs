//! The table of Kara 2016, a letter to linux-ext4 (see [`super`]).

use larder::MbCacheVariant;
use serde::Deserialize;

use crate::xattr_bench::Case;

/// Number of sets by each process.
pub const OPERATIONS: u32 = 50_000;

/// Number of runs of each case.
pub const RUNS: u32 = 5;

/// Numbers of processes, each with the gain of the reusable flag: the time without the flag divided by the time with it.
/// The gains are not in the letter, but in the description of the last patch of the series, "mbcache: add reusable flag
/// to cache entries" (commit 6048c64b2609 of Linux): 25 times with 64 processes, and almost 3 times with 8. Here
/// "almost 3" counts as 3.
pub const FLAG_GAINS: [(u32, f64); 2] = [(8, 3.0), (64, 25.0)];

/// Number of values in the cases of [`FLAG_GAINS`].
pub const FLAG_VALUES: u32 = 5;

/// Number of files of each process in the cases of [`FLAG_GAINS`].
pub const FLAG_FILES: u32 = 20_000;

/// Number of processors of the machine.
pub const PROCESSORS: u32 = 24;

/// A case of xattr-bench, in seconds.
#[derive(Clone, Debug, Deserialize)]
pub struct XattrBenchRow {
    /// V, the number of values.
    #[serde(rename = "V")]
    pub values: u32,
    /// F, the number of files.
    #[serde(rename = "F")]
    pub files: u32,
    /// P, the number of processes.
    #[serde(rename = "P")]
    pub processes: u32,
    /// The original cache; `None` where "the machine just dies".
    pub old_mbcache_s: Option<f64>,
    /// The rewrite with a simple list.
    pub new_lru_list_s: f64,
    /// The rewrite with `list_lru`, which has a list for each NUMA node.
    pub new_list_lru_s: f64,
    /// The rewrite with a referenced bit.
    pub new_referenced_bit_s: f64,
    /// Without a cache.
    pub disabled_s: f64,
}

impl XattrBenchRow {
    /// Returns the case.
    pub fn case(&self) -> Case {
        Case {
            processes: self.processes,
            files: self.files,
            values: self.values,
        }
    }

    /// Returns the seconds under a variant; `None` if it was not published.
    pub fn seconds(&self, variant: MbCacheVariant) -> Option<f64> {
        match variant {
            MbCacheVariant::Old => self.old_mbcache_s,
            MbCacheVariant::Lru => Some(self.new_lru_list_s),
            MbCacheVariant::ListLru => Some(self.new_list_lru_s),
            MbCacheVariant::Referenced => Some(self.new_referenced_bit_s),
            MbCacheVariant::Off => Some(self.disabled_s),
            MbCacheVariant::Clock => None,
        }
    }
}

/// Returns the averages of all cases in the order of the letter: by V, then F, then P.
pub fn xattr_bench() -> Vec<XattrBenchRow> {
    super::table::rows(include_str!("kara2016-xattr-bench.csv"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_every_case_in_the_order_of_the_letter() {
        let cases = Case::matrix(&Case::PROCESSES, &Case::FILES, &Case::VALUES);
        let published: Vec<Case> = xattr_bench().iter().map(XattrBenchRow::case).collect();
        assert_eq!(published, cases);
        assert_eq!(published.len(), 105);
    }

    #[test]
    fn only_figures_of_the_collapsed_machine_are_missing() {
        let rows = xattr_bench();
        let missing = rows.iter().filter(|row| row.old_mbcache_s.is_none());
        let missing: Vec<_> = missing.map(XattrBenchRow::case).collect();
        for case in &missing {
            assert!(
                case.values >= 10_000 && case.files == 1000 && case.processes >= 32,
                "{case:?}"
            );
        }
        assert_eq!(missing.len(), 4);
    }

    #[test]
    fn columns_are_in_the_order_of_the_letter() {
        let rows = xattr_bench();
        let row = rows.iter().find(|row| row.processes == 64).unwrap();
        let seconds = MbCacheVariant::ALL.map(|variant| row.seconds(variant));
        assert_eq!(
            seconds,
            [
                Some(61.339),
                Some(2.803),
                Some(3.615),
                Some(2.994),
                None,
                Some(1.799)
            ]
        );
    }
}
