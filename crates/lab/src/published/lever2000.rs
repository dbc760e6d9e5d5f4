//! The tables and histograms of Lever 2000. Throughput is in scripts per hour, and `s` is its standard
//! deviation.

use super::table::rows;
use larder_cache::table::Histogram as ChainLengths;
use larder_cache::tape::CacheKind;
use serde::{Deserialize, Serialize};

/// Scripts per hour: the average of runs, and their standard deviation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Throughput {
    /// The average.
    pub mean: f64,
    /// The standard deviation.
    pub s: f64,
}

/// Numbers of concurrent scripts in Table 1, on two processors and 128 MB.
pub const TABLE_1_SCRIPTS: [u32; 4] = [16, 32, 48, 64];

/// Number of concurrent scripts in the other tables, on four processors and 512 MB.
pub const SCRIPTS: u32 = 128;

/// A row of Table 1: the page cache with little memory.
#[derive(Clone, Debug, Deserialize)]
pub struct PageCacheRow {
    #[cfg(test)]
    kernel: String,
    /// `None` for red-black trees.
    #[cfg(test)]
    pub buckets: Option<u32>,
    tput_16: f64,
    s_16: f64,
    tput_32: f64,
    s_32: f64,
    tput_48: f64,
    s_48: f64,
    tput_64: f64,
    s_64: f64,
    /// Time of all runs, including those that the averages omit.
    pub elapsed_s: u32,
}

impl PageCacheRow {
    /// Returns the throughput for each of [`TABLE_1_SCRIPTS`].
    pub fn throughputs(&self) -> [Throughput; 4] {
        [
            (self.tput_16, self.s_16),
            (self.tput_32, self.s_32),
            (self.tput_48, self.s_48),
            (self.tput_64, self.s_64),
        ]
        .map(|(mean, s)| Throughput { mean, s })
    }
}

/// A row of one of the other tables. Tables have different columns; fields without a column are
/// `None`.
#[derive(Clone, Debug, Deserialize)]
pub struct KernelRow {
    /// The kernel's name; Table 2 only has sizes.
    #[cfg(test)]
    kernel: Option<String>,
    /// Buckets of the table that is changed.
    #[cfg(test)]
    pub buckets: Option<u32>,
    tput: f64,
    s: f64,
    tput_minus_first: Option<f64>,
    s_minus_first: Option<f64>,
    /// Throughput of the best run.
    #[cfg(test)]
    max_tput: Option<f64>,
    /// Time of all runs.
    pub elapsed_s: u32,
}

impl KernelRow {
    /// Returns the throughput of all runs.
    pub fn throughput(&self) -> Throughput {
        Throughput {
            mean: self.tput,
            s: self.s,
        }
    }

    /// Returns the throughput of all runs except the first.
    pub fn without_first(&self) -> Option<Throughput> {
        Some(Throughput {
            mean: self.tput_minus_first?,
            s: self.s_minus_first?,
        })
    }
}

/// The chains of one length in a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Chains {
    /// Length of the chains; `None` in the last row, which counts longer ones.
    pub length: Option<u64>,
    pub buckets: u64,
    /// Number of objects in these chains.
    pub objects: u64,
    /// Objects in these and all shorter chains, in percent of all objects.
    pub cumulative_pct: u64,
}

/// A histogram with its header.
#[derive(Clone, Debug, Deserialize)]
pub struct Histogram {
    /// Number of the histogram, from 1.
    #[serde(rename = "print_order")]
    pub number: u32,
    pub cache: CacheKind,
    /// Time at which it was taken, and hash function.
    pub label: String,
    /// Number of lookups up to that time.
    pub lookups: u64,
    /// Hits in percent of the lookups.
    pub hit_rate_pct: u64,
    /// Number of buckets of the table.
    pub buckets: u64,
    pub objects: u64,
    /// Length of the longest chain.
    pub largest_bucket: u64,
    /// Links walked by 1000 lookups.
    pub iterations_per_1000_lookups: u64,
    /// The rows, in order of length.
    #[serde(skip)]
    pub chains: Vec<Chains>,
}

impl Histogram {
    /// Returns the chain lengths. Of the chains with more than 15 objects, only the number, the sum of the
    /// lengths and the largest length were published. One chain is assumed to have the largest length, and the
    /// others to be equally long.
    pub fn chain_lengths(&self) -> ChainLengths {
        let mut lengths = ChainLengths::default();
        for row in &self.chains {
            match row.length {
                Some(length) => (0..row.buckets).for_each(|_| lengths.add(length)),
                None if row.buckets > 0 => {
                    lengths.add(self.largest_bucket);
                    let (others, left) = (row.buckets - 1, row.objects - self.largest_bucket);
                    for chain in 0..others {
                        lengths.add(left / others + u64::from(chain < left % others));
                    }
                }
                None => {}
            }
        }
        lengths
    }
}

#[derive(Debug, Deserialize)]
struct ChainsRow {
    #[serde(rename = "print_order")]
    number: u32,
    chain_length: String,
    buckets: u64,
    objects: u64,
    cumulative_pct: u64,
}

/// Returns Table 1: functions and sizes of the page cache, and red-black trees.
pub fn table_1() -> Vec<PageCacheRow> {
    rows(include_str!("lever2000-table1-page-cache.csv"))
}

/// Returns Table 2: sizes of the page cache, with much memory.
pub fn table_2() -> Vec<KernelRow> {
    rows(include_str!("lever2000-table2-page-cache-size.csv"))
}

/// Returns Table 3: functions and sizes of the buffer cache.
pub fn table_3() -> Vec<KernelRow> {
    rows(include_str!("lever2000-table3-buffer-cache.csv"))
}

/// Returns Table 4: functions of the dentry cache, and ways to shrink it.
pub fn table_4() -> Vec<KernelRow> {
    rows(include_str!("lever2000-table4-dentry-cache.csv"))
}

/// Returns Table 5: sizes and a function of the inode cache.
pub fn table_5() -> Vec<KernelRow> {
    rows(include_str!("lever2000-table5-inode-cache.csv"))
}

/// Returns Table 6: all four caches together.
pub fn table_6() -> Vec<KernelRow> {
    rows(include_str!("lever2000-table6-combinations.csv"))
}

/// Throughput of all runs of a row, and of all except the first.
pub type Throughputs = (Option<Throughput>, Option<Throughput>);

/// Returns the throughputs of the rows of table number `table`, from 1. For Table 1, `at` is the index in
/// [`TABLE_1_SCRIPTS`]; the other tables have only one load.
pub fn throughputs(table: u32, at: usize) -> Vec<Throughputs> {
    let of = |rows: Vec<KernelRow>| {
        let rows = rows.into_iter();
        rows.map(|row| (Some(row.throughput()), row.without_first()))
            .collect()
    };
    match table {
        1 => {
            let rows = table_1().into_iter();
            rows.map(|row| (row.throughputs().get(at).copied(), None))
                .collect()
        }
        2 => of(table_2()),
        3 => of(table_3()),
        4 => of(table_4()),
        5 => of(table_5()),
        _ => of(table_6()),
    }
}

/// Returns Histograms 1 to 5.
pub fn histograms() -> Vec<Histogram> {
    let chains: Vec<ChainsRow> = rows(include_str!("lever2000-histograms.csv"));
    let mut histograms: Vec<Histogram> = rows(include_str!("lever2000-histogram-meta.csv"));
    for histogram in &mut histograms {
        let own = chains.iter().filter(|row| row.number == histogram.number);
        histogram.chains = own
            .map(|row| Chains {
                length: row.chain_length.parse().ok(),
                buckets: row.buckets,
                objects: row.objects,
                cumulative_pct: row.cumulative_pct,
            })
            .collect();
    }
    histograms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_has_the_sums_and_percentages_that_the_document_prints() {
        let histograms = histograms();
        assert_eq!(histograms.len(), 5);
        for histogram in histograms {
            let Histogram { number, chains, .. } = &histogram;
            assert_eq!(chains.len(), 17, "{number}");
            let buckets: u64 = chains.iter().map(|row| row.buckets).sum();
            assert_eq!(buckets, histogram.buckets, "{number}");
            let objects: u64 = chains.iter().map(|row| row.objects).sum();
            assert_eq!(objects, histogram.objects, "{number}");
            let mut so_far = 0;
            for (size, row) in (0..).zip(chains) {
                so_far += row.objects;
                let percent = so_far * 100 / objects;
                assert_eq!(row.cumulative_pct, percent, "{number}, {row:?}");
                match row.length {
                    Some(length) => {
                        assert_eq!(length, size);
                        assert_eq!(row.objects, length * row.buckets, "{number}, {row:?}");
                    }
                    None => assert_eq!(size, 16, "{number}"),
                }
            }
        }
    }

    #[test]
    fn histogram_has_its_largest_bucket_in_a_row_that_is_not_empty() {
        for histogram in histograms() {
            let longest = histogram.chains.iter().rev().find(|row| row.buckets > 0);
            match longest.unwrap().length {
                Some(length) => assert_eq!(length, histogram.largest_bucket),
                None => assert!(histogram.largest_bucket > 15),
            }
        }
    }

    #[test]
    fn chain_lengths_have_the_published_sums() {
        for histogram in histograms() {
            let lengths = histogram.chain_lengths();
            assert_eq!(lengths.buckets(), histogram.buckets);
            assert_eq!(lengths.objects(), histogram.objects);
            assert_eq!(lengths.longest_chain(), histogram.largest_bucket);
        }
    }

    #[test]
    fn table_has_every_kernel_that_the_document_prints() {
        let kernels = |rows: Vec<KernelRow>| -> Vec<String> {
            let names = rows.into_iter().map(|row| row.kernel.unwrap_or_default());
            names.collect()
        };
        let names: Vec<_> = table_1().into_iter().map(|row| row.kernel).collect();
        let expected = [
            "reference",
            "13-bit",
            "14-bit",
            "15-bit",
            "offset",
            "mult",
            "rbtree",
        ];
        assert_eq!(names, expected);
        assert_eq!(kernels(table_2()).len(), 3);
        assert_eq!(kernels(table_3()).len(), 9);
        assert_eq!(kernels(table_4()).len(), 7);
        assert_eq!(
            kernels(table_5()),
            ["reference", "12 bit", "mult", "14 bit"]
        );
        assert_eq!(kernels(table_6()), ["reference", "A", "B", "C", "D"]);
    }

    #[test]
    fn average_is_no_more_than_the_best_run_and_its_runs_fit_into_the_elapsed_time() {
        let tables = [table_2(), table_3(), table_4(), table_5(), table_6()];
        for row in tables.iter().flatten() {
            let mean = row.throughput().mean;
            assert!(row.max_tput.is_none_or(|max| mean <= max), "{row:?}");
            // Five runs, ten in Table 6, and the time between them.
            let runs_s = 5.0 * 3600.0 * f64::from(SCRIPTS) / mean;
            assert!(runs_s < f64::from(row.elapsed_s), "{row:?}");
        }
        for row in table_1() {
            let runs = TABLE_1_SCRIPTS.into_iter().zip(row.throughputs());
            let once_s: f64 = runs
                .map(|(scripts, throughput)| 3600.0 * f64::from(scripts) / throughput.mean)
                .sum();
            assert!(7.0 * once_s < f64::from(row.elapsed_s), "{row:?}");
        }
    }

    #[test]
    fn reference_kernel_has_equal_throughput_in_tables_2_to_5() {
        let first = |rows: Vec<KernelRow>| rows[0].throughput();
        for table in [table_3(), table_4(), table_5()] {
            assert_eq!(first(table), first(table_2()));
        }
    }
}
