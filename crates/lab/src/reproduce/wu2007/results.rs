//! Results of a reproduction: each published row with the simulated one, and the result of the
//! criterion.

use larder_readahead::PolicyName;
use serde::Serialize;

use super::criterion::{Direction, Judgement, judge};
use crate::published::Pair;
use crate::reproduce::finding::Judged;
use crate::run_report::as_f64;
use crate::statistics::{Interval, median};

/// A simulated figure under each policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ByPolicy<T> {
    pub legacy: T,
    pub ondemand: T,
    /// Under `modern`, which the published tables do not contain.
    pub modern: T,
}

pub type Simulated = ByPolicy<f64>;

impl Simulated {
    /// The simulated policies, in the order of their generations.
    pub const POLICIES: [PolicyName; 3] =
        [PolicyName::Legacy, PolicyName::OnDemand, PolicyName::Modern];

    /// Returns the figures of the policies that the published tables compare.
    pub(super) fn pair(self) -> Pair {
        Pair {
            legacy: self.legacy,
            ondemand: self.ondemand,
        }
    }

    /// Returns the median of each policy over all seeds.
    fn median(seeds: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| {
            let figures: Vec<f64> = seeds.iter().map(figure).collect();
            median(&figures)
        };
        Self {
            legacy: of(|figures| figures.legacy),
            ondemand: of(|figures| figures.ondemand),
            modern: of(|figures| figures.modern),
        }
    }
}

impl<T> From<[T; 3]> for ByPolicy<T> {
    /// Converts figures in the order of [`Simulated::POLICIES`].
    fn from([legacy, ondemand, modern]: [T; 3]) -> Self {
        Self {
            legacy,
            ondemand,
            modern,
        }
    }
}

impl<T> ByPolicy<T> {
    pub(super) fn named(&self) -> [(&'static str, &T); 3] {
        [
            ("legacy", &self.legacy),
            ("ondemand", &self.ondemand),
            ("modern", &self.modern),
        ]
    }
}

/// A row of a published table with the simulated figures.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The row's label: a test, or a number of threads.
    pub label: String,
    /// The published figures.
    pub published: Pair,
    /// The simulated figures, in the same unit: medians over all seeds.
    pub ours: Simulated,
    /// The simulated figures for each seed.
    pub seeds: Vec<Simulated>,
    /// The simulated change, in percent of `legacy` with the same seed: the median over all seeds.
    pub change_pct: Interval,
    /// The result of the criterion.
    pub judgement: Judgement,
    /// The noise used in the criterion, in percent.
    pub noise_pct: f64,
}

impl Row {
    /// Compares the figures of all seeds with `published`.
    pub fn new(label: String, published: Pair, seeds: Vec<Simulated>, noise_pct: f64) -> Self {
        let changes: Vec<f64> = seeds
            .iter()
            .map(|figures| figures.pair().change_pct())
            .collect();
        let change_pct = Interval::of_median(&changes);
        Self {
            label,
            published,
            ours: Simulated::median(&seeds),
            judgement: judge(published.change_pct(), change_pct.value, noise_pct),
            seeds,
            change_pct,
            noise_pct,
        }
    }
}

/// A published table with the simulated figures.
#[derive(Clone, Debug, Serialize)]
pub struct TableResult {
    /// The name of the table in files.
    pub name: &'static str,
    /// The heading of the table.
    pub title: &'static str,
    /// The unit of the figures.
    pub unit: &'static str,
    /// The setup of the published and of the simulated measurement: paragraphs of Markdown.
    pub setup: &'static str,
    /// The rows in the published order.
    pub rows: Vec<Row>,
}

/// Counts of the processor's work under one policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CpuCounts {
    /// Calls into the readahead policy.
    pub readahead_calls: u64,
    /// Lookups in the page cache by the reader.
    pub page_lookups: u64,
    /// Lookups in the page cache by readahead, one for each page that it may read.
    pub insert_lookups: u64,
}

impl CpuCounts {
    /// Returns the sum, in which each call and each lookup counts as one.
    pub fn total(self) -> u64 {
        self.readahead_calls + self.page_lookups + self.insert_lookups
    }

    /// Returns the counts multiplied by `factor`, and rounded.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts are positive, and few"
    )]
    pub(super) fn scaled(self, factor: f64) -> Self {
        let scaled = |count: u64| (as_f64(count) * factor).round() as u64;
        Self {
            readahead_calls: scaled(self.readahead_calls),
            page_lookups: scaled(self.page_lookups),
            insert_lookups: scaled(self.insert_lookups),
        }
    }
}

/// One of the document's five cases of processor time.
#[derive(Clone, Debug, Serialize)]
pub struct CpuResult {
    /// The case, in the document's words.
    pub case: String,
    /// The published speed-up in percent.
    pub published_pct: f64,
    /// The counts for the first seed.
    #[serde(flatten)]
    pub counts: ByPolicy<CpuCounts>,
    /// The counts for each seed.
    pub seeds: Vec<ByPolicy<CpuCounts>>,
    /// The median over all seeds, judged by direction only, since counts are not times.
    pub judgement: Judgement,
}

/// One second of a run with a growing number of streams.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ThrashingSecond {
    /// The second, from the start of the run.
    pub at_s: u32,
    /// Number of streams that were reading.
    pub streams: u32,
    /// The total throughput of the streams, in MB/s.
    pub throughput_mb_s: f64,
    /// The mean size of a device read, in KB; `None` for a second without reads.
    pub mean_read_kb: Option<f64>,
}

/// The course of thrashing under one policy, by the second.
#[derive(Clone, Debug, Serialize)]
pub struct ThrashingCourse {
    /// The policy's name.
    pub policy: &'static str,
    /// The seconds in order.
    pub seconds: Vec<ThrashingSecond>,
    /// Pages that were read ahead and evicted before use.
    pub pages_wasted: u64,
    /// Pages read ahead.
    pub pages_ahead: u64,
}

/// Summary of a course of thrashing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ThrashingFigures {
    /// Throughput of the best second.
    pub max_throughput_mb_s: f64,
    /// Mean throughput of the seconds with more than 100 streams.
    pub mean_throughput_mb_s: f64,
    /// Mean throughput of the last five seconds.
    pub final_throughput_mb_s: f64,
    /// Pages read ahead.
    pub pages_ahead: u64,
    /// Pages that were read ahead and evicted before use.
    pub pages_wasted: u64,
}

/// The same streams on the modelled machine, or on one that differs in one parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThrashingVariant {
    /// Description of the difference.
    pub name: &'static str,
    /// Under `legacy`.
    pub legacy: ThrashingFigures,
    /// Under `ondemand`.
    pub ondemand: ThrashingFigures,
}

/// The judged figures of thrashing with other values of the properties that the document leaves open. All figures are
/// medians over all seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GridCell {
    /// Memory for pages.
    pub memory_mib: u64,
    /// The size of the streams' reads.
    pub read_kib: u64,
    /// The throughput of the best second.
    #[serde(flatten)]
    pub throughput: ThrashingGain,
    /// The smallest mean size of a device read in a second.
    pub min_mean_read: ReadSizeGain,
}

/// The size of device reads of both policies under thrashing: medians over all seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReadSizeGain {
    /// Under `legacy`.
    pub legacy_kb: f64,
    /// Under `ondemand`.
    pub ondemand_kb: Interval,
    /// The size under `ondemand` divided by the size under `legacy` with the same seed.
    pub gain: Interval,
}

impl ReadSizeGain {
    /// Compares the sizes of all seeds in KB, each under `legacy` and under `ondemand`.
    pub fn of(seeds: &[Pair]) -> Self {
        let of = |figure: fn(&Pair) -> f64| -> Vec<f64> { seeds.iter().map(figure).collect() };
        Self {
            legacy_kb: median(&of(|pair| pair.legacy)),
            ondemand_kb: Interval::of_median(&of(|pair| pair.ondemand)),
            gain: Interval::of_median(&of(|pair| pair.ondemand / pair.legacy)),
        }
    }
}

/// The tables and findings with the CFQ scheduler.
#[derive(Clone, Debug, Serialize)]
pub struct CfqResults {
    /// The tables of figures.
    pub tables: Vec<TableResult>,
    /// The result of each finding.
    pub findings: Vec<Judged<Wu2007>>,
}

/// The throughput of both policies under thrashing: medians over all seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ThrashingGain {
    /// Under `legacy`.
    pub legacy_mb_s: f64,
    /// Under `ondemand`.
    pub ondemand_mb_s: f64,
    /// The throughput under `ondemand` divided by the throughput under `legacy` with the same seed.
    pub gain: Interval,
}

impl ThrashingGain {
    /// Compares the throughputs of all seeds, each under `legacy` and under `ondemand`.
    pub fn of(seeds: &[Pair]) -> Self {
        let of = |figure: fn(&Pair) -> f64| -> Vec<f64> { seeds.iter().map(figure).collect() };
        Self {
            legacy_mb_s: median(&of(|pair| pair.legacy)),
            ondemand_mb_s: median(&of(|pair| pair.ondemand)),
            gain: Interval::of_median(&of(|pair| pair.ondemand / pair.legacy)),
        }
    }
}

/// The throughput of both policies at the same number of streams.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EqualStreams {
    /// Number of streams in the middle of the averaged seconds.
    pub streams: u32,
    #[serde(flatten)]
    pub throughput: ThrashingGain,
}

/// The gain of the modelled machine at equal numbers of streams.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GainAtEqualStreams {
    /// Number of seconds in the moving average.
    pub smoothed_s: usize,
    /// The point with the largest gain.
    pub largest: EqualStreams,
    /// First and last point of the longest contiguous range in which the median gain is at least 3.
    pub threefold: Option<[EqualStreams; 2]>,
}

/// Numbers of rows of a table that agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    pub rows: usize,
    /// Rows whose direction agrees.
    pub direction_agrees: usize,
    /// Rows whose direction would agree if nothing had changed in the simulation.
    pub agrees_if_nothing_changed: usize,
    /// Rows whose size was judged.
    pub size_judged: usize,
    /// Rows of `size_judged` whose rough size agrees.
    pub size_agrees: usize,
    /// Rows with a published change beyond the noise.
    pub changed: usize,
    /// Rows of `changed` whose direction agrees.
    pub changed_agrees: usize,
    /// Rows whose noise is so large that agreement is weak evidence.
    pub loose: usize,
}

impl Tally {
    /// Counts the results of the criterion.
    pub fn of<'a>(judgements: impl IntoIterator<Item = &'a Judgement>) -> Self {
        let mut tally = Self::default();
        for judgement in judgements {
            let changed = judgement.published != Direction::Same;
            tally.rows += 1;
            tally.direction_agrees += usize::from(judgement.direction_agrees);
            tally.agrees_if_nothing_changed += usize::from(judgement.agrees_if_nothing_changed);
            tally.size_judged += usize::from(judgement.size_agrees.is_some());
            tally.size_agrees += usize::from(judgement.size_agrees == Some(true));
            tally.changed += usize::from(changed);
            tally.changed_agrees += usize::from(changed && judgement.direction_agrees);
            tally.loose += usize::from(judgement.loose);
        }
        tally
    }
}

/// A whole reproduction of Wu 2007.
#[derive(Clone, Debug, Serialize)]
pub struct Wu2007 {
    /// The first seed of all random numbers.
    pub seed: u64,
    /// Number of seeds. The courses of thrashing and its variants are the results of the first seed.
    pub seeds: u32,
    /// Divisor of the sizes; 1 is the document's own scale.
    pub divisor: u64,
    /// The tables of figures.
    pub tables: Vec<TableResult>,
    /// The five cases of processor time, counted.
    pub cpu: Vec<CpuResult>,
    /// The course of thrashing of each policy.
    pub thrashing: Vec<ThrashingCourse>,
    /// Factors of the gain: the modelled machine first, then machines that differ in one parameter.
    pub thrashing_variants: Vec<ThrashingVariant>,
    /// The judged figures of thrashing over the properties that the document leaves open.
    pub thrashing_grid: Vec<GridCell>,
    /// The mean throughput of the seconds with more than 100 streams; `None` if there are no such seconds.
    pub thrashing_means: Option<ThrashingGain>,
    /// The gain at equal numbers of streams; `None` for a course of a few seconds.
    pub thrashing_gain: Option<GainAtEqualStreams>,
    /// The result of each finding.
    pub findings: Vec<Judged<Self>>,
    /// The results with the CFQ scheduler; the others are with the deadline scheduler.
    pub cfq: Option<CfqResults>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tally_counts_rows_by_judgement() {
        let judgements = [
            judge(0.0, 0.0, 1.0),
            judge(8.0, 9.0, 1.0),
            judge(8.0, 0.0, 1.0),
            judge(0.0, 3.0, 6.0),
            super::super::criterion::judge_direction(1.0, 50.0, 0.0),
        ];
        let tally = Tally::of(&judgements);
        assert_eq!(
            tally,
            Tally {
                rows: 5,
                direction_agrees: 4,
                agrees_if_nothing_changed: 2,
                size_judged: 4,
                size_agrees: 3,
                changed: 3,
                changed_agrees: 2,
                loose: 1,
            }
        );
    }
}
