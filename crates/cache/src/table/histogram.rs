//! Histograms of chain lengths, in the form in which Lever published them (Histograms 1 to 5 of "Linux
//! Kernel Hash Table Behavior", 2000), and the deviation of the lengths from a random distribution.

use super::{Counts, TreeDepths};
use crate::tape::CacheKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The number of chain lengths that have a row each: 0 to 15. All longer chains share the last row.
const SINGLE_SIZES: u64 = 16;
/// The number of rows of a histogram.
const ROWS: usize = 17;

/// The number of buckets by chain length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// The number of buckets for each chain length that occurs.
    buckets: BTreeMap<u64, u64>,
}

/// A chi-square statistic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChiSquare {
    /// The sum over all classes of the squared difference between the observed and the expected number of
    /// buckets, divided by the expected number.
    pub statistic: f64,
    /// The number of compared classes minus two, since the expected numbers are computed from two figures
    /// of the histogram: its number of buckets and its mean chain length.
    pub degrees_of_freedom: u32,
}

impl Histogram {
    /// Adds a bucket whose chain has `length` entries.
    pub fn add(&mut self, length: u64) {
        *self.buckets.entry(length).or_default() += 1;
    }

    /// Returns the chain lengths that occur, ascending, each with its number of buckets.
    pub fn lengths(&self) -> impl Iterator<Item = (u64, u64)> {
        self.buckets
            .iter()
            .map(|(length, buckets)| (*length, *buckets))
    }

    /// Returns the number of buckets.
    #[must_use]
    pub fn buckets(&self) -> u64 {
        self.buckets.values().sum()
    }

    /// Returns the number of empty buckets.
    #[must_use]
    pub fn empty_buckets(&self) -> u64 {
        self.with_length(0)
    }

    /// Returns the number of objects in all chains.
    #[must_use]
    pub fn objects(&self) -> u64 {
        self.lengths()
            .map(|(length, buckets)| length * buckets)
            .sum()
    }

    /// Returns the length of the longest chain.
    #[must_use]
    pub fn longest_chain(&self) -> u64 {
        let last = self.buckets.last_key_value();
        last.map_or(0, |(length, _)| *length)
    }

    /// Returns the share of the objects whose chains are no longer than the mean length. The mean length is
    /// rounded up to an integer. Lever writes of this share: "about 68% of all buffers are stored in buckets
    /// containing the expected average number of buffers or less". Returns 1 if there are no objects.
    #[must_use]
    pub fn share_in_mean_chains(&self) -> f64 {
        let objects = self.objects();
        if objects == 0 {
            return 1.0;
        }
        let mean = objects.div_ceil(self.buckets());
        let no_longer = self.lengths().take_while(|(length, _)| *length <= mean);
        as_f64(no_longer.map(|(length, buckets)| length * buckets).sum()) / as_f64(objects)
    }

    /// Returns the rows of the histogram: chain length, number of buckets, number of objects. The last
    /// row counts all longer chains, and its length is `None`.
    pub fn rows(&self) -> impl Iterator<Item = (Option<u64>, u64, u64)> {
        let single = (0..SINGLE_SIZES).map(|size| (Some(size), self.with_length(size)));
        let single = single.map(|(size, buckets)| (size, buckets, size.unwrap_or(0) * buckets));
        let long = self.buckets.range(SINGLE_SIZES..);
        let long = long.fold((0, 0), |(buckets, objects), (length, more)| {
            (buckets + more, objects + length * more)
        });
        single.chain([(None, long.0, long.1)])
    }

    fn with_length(&self, length: u64) -> u64 {
        self.buckets.get(&length).copied().unwrap_or(0)
    }

    /// Returns how many buckets would have chains of length 0, 1, 2 and so on if the objects were
    /// distributed at random: a Poisson distribution with the mean chain length.
    fn by_chance(&self) -> impl Iterator<Item = f64> {
        let buckets = as_f64(self.buckets());
        let mean = as_f64(self.objects()) / buckets.max(1.0);
        // The recurrence uses the logarithm of the term, since the term itself underflows for long
        // chains.
        let mut term = buckets.ln() - mean;
        (1..).map(move |next| {
            let expected = term.exp();
            term += mean.ln() - as_f64(next).ln();
            expected
        })
    }

    /// Returns the number of buckets that each row would have if the objects were distributed at random.
    #[must_use]
    pub fn poisson(&self) -> [f64; ROWS] {
        let mut rows = [0.0; ROWS];
        let mut left = as_f64(self.buckets());
        for (row, expected) in rows[..ROWS - 1].iter_mut().zip(self.by_chance()) {
            *row = expected;
            left -= expected;
        }
        rows[ROWS - 1] = left.max(0.0);
        rows
    }

    /// Compares the chain lengths with those of a random distribution: a Poisson distribution with the
    /// same mean. As usual, classes with fewer than five expected buckets are joined with their
    /// neighbours.
    #[must_use]
    pub fn chi_square(&self) -> ChiSquare {
        let classes = self.classes();
        let statistic = classes
            .iter()
            .filter(|(_, expected)| *expected > 0.0)
            .map(|(observed, expected)| (observed - expected).powi(2) / expected)
            .sum();
        ChiSquare {
            statistic,
            degrees_of_freedom: u32::try_from(classes.len().saturating_sub(2)).unwrap_or(0),
        }
    }

    /// Returns the observed and the expected number of buckets for each class of chain lengths.
    fn classes(&self) -> Vec<(f64, f64)> {
        const LEAST_EXPECTED: f64 = 5.0;
        let buckets = as_f64(self.buckets());
        let mean = as_f64(self.objects()) / buckets.max(1.0);
        let (mut observed_left, mut expected_left) = (buckets, buckets);
        let mut classes: Vec<(f64, f64)> = Vec::new();
        let mut open = (0.0, 0.0);
        for (size, expected) in (0..).zip(self.by_chance()) {
            if as_f64(size) > mean && expected_left < LEAST_EXPECTED {
                break;
            }
            let observed = as_f64(self.with_length(size));
            observed_left -= observed;
            expected_left -= expected;
            open = (open.0 + observed, open.1 + expected);
            if open.1 >= LEAST_EXPECTED {
                classes.push(std::mem::take(&mut open));
            }
        }
        open = (open.0 + observed_left, open.1 + expected_left.max(0.0));
        match classes.last_mut() {
            Some(last) => *last = (last.0 + open.0, last.1 + open.1),
            None => classes.push(open),
        }
        classes
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a statistic: the error of counts over 2^53 is negligible"
)]
fn as_f64(count: u64) -> f64 {
    count as f64
}

impl std::ops::Add for Histogram {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        for (length, buckets) in other.buckets {
            *self.buckets.entry(length).or_default() += buckets;
        }
        self
    }
}

/// The histogram of a cache. It is displayed in the form that Lever published. If pages are in trees, the
/// depths of the pages are displayed instead of chain lengths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The kind of the cache.
    pub cache: CacheKind,
    /// The counts of lookups.
    pub counts: Counts,
    /// The number of buckets by chain length.
    pub histogram: Histogram,
    /// The expected number of buckets in each row: the sum of [`Histogram::poisson`] over the tables of
    /// the cache.
    pub poisson: [f64; ROWS],
    /// The depths of pages in red-black trees, which have no chains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trees: Option<TreeDepths>,
}

impl Report {
    /// Creates the report of a cache from the counts and histograms of all its tables.
    pub fn of(cache: CacheKind, tables: impl IntoIterator<Item = (Counts, Histogram)>) -> Self {
        let mut report = Self {
            cache,
            counts: Counts::default(),
            histogram: Histogram::default(),
            poisson: [0.0; ROWS],
            trees: None,
        };
        for (counts, histogram) in tables {
            for (sum, of_table) in report.poisson.iter_mut().zip(histogram.poisson()) {
                *sum += of_table;
            }
            report.counts = report.counts + counts;
            report.histogram = report.histogram + histogram;
        }
        report
    }

    /// Creates the report of pages in trees.
    pub(crate) fn of_trees(counts: Counts, trees: TreeDepths) -> Self {
        Self {
            trees: Some(trees),
            ..Self::of(CacheKind::Page, [(counts, Histogram::default())])
        }
    }

    /// Returns the largest number of links that a lookup would walk now: the length of the longest chain,
    /// or the depth of the deepest page.
    #[must_use]
    pub fn longest_walk(&self) -> u64 {
        let deepest = self.trees.as_ref().map(TreeDepths::deepest);
        deepest.unwrap_or_else(|| self.histogram.longest_chain())
    }

    /// Returns the names that Lever's histograms have for the cache, for its objects, and for the
    /// function that looks them up.
    fn words(&self) -> (&'static str, &'static str, &'static str) {
        match self.cache {
            CacheKind::Page => ("Page", "pages", "find_page"),
            CacheKind::Buffer => ("Buffer", "buffers", "find_buffer"),
            CacheKind::Dentry => ("Dentry", "dentries", "d_lookup"),
            CacheKind::Inode => ("Inode", "inodes", "find_inode"),
        }
    }
}

/// Returns `part` / `whole` times `scale`, rounded down. Returns 0 if `whole` is 0.
fn share(part: u64, whole: u64, scale: u64) -> u128 {
    (u128::from(part) * u128::from(scale))
        .checked_div(u128::from(whole))
        .unwrap_or(0)
}

fn write_chains(f: &mut fmt::Formatter<'_>, histogram: &Histogram, noun: &str) -> fmt::Result {
    writeln!(f, " hash table histogram:")?;
    writeln!(f, "  size  buckets {noun:>8}  sum-pct")?;
    let mut sum = 0;
    for (size, buckets, objects) in histogram.rows() {
        sum += objects;
        let size = size.map_or_else(|| ">15".to_owned(), |size| size.to_string());
        let percent = share(sum, histogram.objects(), 100);
        writeln!(f, "{size:>5} {buckets:>8} {objects:>8} {percent:>7}")?;
    }
    Ok(())
}

fn write_depths(f: &mut fmt::Formatter<'_>, trees: &TreeDepths, noun: &str) -> fmt::Result {
    writeln!(f, " depth histogram:")?;
    writeln!(f, " depth {noun:>8}  sum-pct")?;
    let mut sum = 0;
    for (depth, objects) in trees.rows() {
        sum += objects;
        let percent = share(sum, trees.objects(), 100);
        writeln!(f, "{depth:>6} {objects:>8} {percent:>8}")?;
    }
    Ok(())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            counts, histogram, ..
        } = self;
        let (cache, noun, function) = self.words();
        let lookups = counts.lookups();
        writeln!(
            f,
            "{cache} cache total lookups: {lookups:<7} (hit rate: {}%)",
            share(counts.hits, lookups, 100)
        )?;
        if let Some(trees) = &self.trees {
            writeln!(f, " red-black trees: {}, one for each inode", trees.trees)?;
            writeln!(f, " trees contain {} objects", trees.objects())?;
            writeln!(f, " largest tree contains {} {noun}", trees.largest)?;
        } else {
            writeln!(f, " hash table size is {} buckets", histogram.buckets())?;
            writeln!(f, " hash table contains {} objects", histogram.objects())?;
            let longest = histogram.longest_chain();
            writeln!(f, " largest bucket contains {longest} {noun}")?;
        }
        writeln!(
            f,
            " {function}() iterations/lookup: {}/1000",
            share(counts.links(), lookups, 1000)
        )?;
        match &self.trees {
            Some(trees) => write_depths(f, trees, noun),
            None => write_chains(f, histogram, noun),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a report with the rows of histogram 1 in Lever's paper.
    fn published() -> Report {
        let rows = [
            12047, 1037, 381, 295, 325, 399, 188, 303, 160, 169, 224, 64, 49, 15, 3, 4,
        ];
        let mut histogram = Histogram::default();
        for (size, buckets) in (0..).zip(rows) {
            (0..buckets).for_each(|_| histogram.add(size));
        }
        // The last row: 721 buckets with 21398 objects in total, and 116 in the largest bucket.
        histogram.add(116);
        (0..720).for_each(|i| histogram.add(if i < 402 { 30 } else { 29 }));
        let counts = Counts {
            hits: 162_000,
            misses: 296_481 - 162_000,
            links_on_hits: 600_000,
            links_on_misses: 38_917,
        };
        Report::of(CacheKind::Buffer, [(counts, histogram)])
    }

    #[test]
    fn report_of_published_table_matches_the_paper() {
        let expected = "\
Buffer cache total lookups: 296481  (hit rate: 54%)
 hash table size is 16384 buckets
 hash table contains 37256 objects
 largest bucket contains 116 buffers
 find_buffer() iterations/lookup: 2155/1000
 hash table histogram:
  size  buckets  buffers  sum-pct
    0    12047        0       0
    1     1037     1037       2
    2      381      762       4
    3      295      885       7
    4      325     1300      10
    5      399     1995      16
    6      188     1128      19
    7      303     2121      24
    8      160     1280      28
    9      169     1521      32
   10      224     2240      38
   11       64      704      40
   12       49      588      41
   13       15      195      42
   14        3       42      42
   15        4       60      42
  >15      721    21398     100
";
        assert_eq!(published().to_string(), expected);
    }

    #[test]
    fn report_of_trees_shows_depths_instead_of_chains() {
        let trees = TreeDepths {
            trees: 3,
            largest: 12,
            pages: vec![3, 4, 7, 6],
        };
        let report = Report::of_trees(published().counts, trees);
        assert_eq!(report.longest_walk(), 4);
        let expected = "\
Page cache total lookups: 296481  (hit rate: 54%)
 red-black trees: 3, one for each inode
 trees contain 20 objects
 largest tree contains 12 pages
 find_page() iterations/lookup: 2155/1000
 depth histogram:
 depth    pages  sum-pct
     1        3       15
     2        4       35
     3        7       70
     4        6      100
";
        assert_eq!(report.to_string(), expected);
    }

    #[test]
    fn report_of_empty_table_has_no_division_by_zero() {
        let mut report = published();
        report.histogram = Histogram::default();
        report.counts = Counts::default();
        assert!(report.to_string().contains("(hit rate: 0%)"));
    }

    #[test]
    fn poisson_of_report_is_the_sum_over_its_tables() {
        let mut crowded = Histogram::default();
        (0..1000).for_each(|_| crowded.add(2));
        let mut empty = Histogram::default();
        (0..500).for_each(|_| empty.add(0));
        let both = [crowded, empty].map(|histogram| (Counts::default(), histogram));
        let report = Report::of(CacheKind::Dentry, both);
        // With a mean of 2, the share e^-2 of the buckets is empty, 2 e^-2 has one object, and 2 e^-2 has
        // two. The 500 buckets of the other table are empty.
        let expected = [500.0 + 135.335, 270.671, 270.671];
        for (expected, found) in expected.into_iter().zip(report.poisson) {
            assert!((expected - found).abs() < 0.001, "{:?}", report.poisson);
        }
        assert!((report.poisson.iter().sum::<f64>() - 1500.0).abs() < 1e-6);
    }

    #[test]
    fn chi_square_of_poisson_counts_is_small() {
        // A Poisson distribution of 100,000 buckets with mean 1, rounded.
        let mut histogram = Histogram::default();
        for (size, buckets) in (0..).zip([36788, 36788, 18394, 6131, 1533, 307, 51, 7, 1]) {
            (0..buckets).for_each(|_| histogram.add(size));
        }
        let chi = histogram.chi_square();
        assert!(chi.statistic < 1.0, "{chi:?}");
        assert_eq!(chi.degrees_of_freedom, 6);
    }

    #[test]
    fn chi_square_of_published_bad_hash_is_huge() {
        assert!(published().histogram.chi_square().statistic > 100_000.0);
    }

    #[test]
    fn chi_square_of_long_poisson_chains_compares_all_their_lengths() {
        // 1024 buckets with a mean of 900. All lengths are within two standard deviations (60) of the
        // mean.
        let mut histogram = Histogram::default();
        (0..1024).for_each(|bucket| histogram.add(840 + bucket * 120 / 1023));
        let chi = histogram.chi_square();
        assert!(chi.degrees_of_freedom > 50, "{chi:?}");
        assert!(chi.statistic.is_finite(), "{chi:?}");
    }

    #[test]
    fn share_in_mean_chains_counts_objects_up_to_the_mean_rounded_up() {
        let published = published().histogram;
        // 37256 objects in 16384 buckets: the mean, rounded up, is 3.
        let share = as_f64(1037 + 762 + 885) / as_f64(37256);
        assert!((published.share_in_mean_chains() - share).abs() < 1e-12);
        assert!((Histogram::default().share_in_mean_chains() - 1.0).abs() < 1e-12);
    }
}
