//! What a reproduction found: each published row beside ours, and what the criterion says.

use larder_readahead::PolicyName;
use serde::Serialize;

use super::criterion::{Direction, Judgement, judge};
use crate::published::Pair;

/// One figure of ours under each policy that was run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ByPolicy<T> {
    pub legacy: T,
    pub ondemand: T,
    /// Under `modern`, which no published table has.
    pub modern: T,
}

pub type Ours = ByPolicy<f64>;

impl Ours {
    /// The policies that are run, in the order of their generations.
    pub const POLICIES: [PolicyName; 3] =
        [PolicyName::Legacy, PolicyName::OnDemand, PolicyName::Modern];

    /// The change that the published tables are about.
    fn change_pct(self) -> f64 {
        let pair = Pair {
            legacy: self.legacy,
            ondemand: self.ondemand,
        };
        pair.change_pct()
    }
}

impl<T> From<[T; 3]> for ByPolicy<T> {
    /// The figures in the order of [`Ours::POLICIES`].
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

/// A row of a published table beside ours.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What names the row: a test, a number of threads.
    pub label: String,
    /// The published figures.
    pub published: Pair,
    /// Ours, in the same unit.
    pub ours: Ours,
    /// What the criterion says.
    pub judgement: Judgement,
    /// The noise that the row was judged with, in percent.
    pub noise_pct: f64,
}

impl Row {
    /// Judges `ours` beside `published`.
    pub fn new(label: String, published: Pair, ours: Ours, noise_pct: f64) -> Self {
        Self {
            label,
            published,
            ours,
            judgement: judge(published.change_pct(), ours.change_pct(), noise_pct),
            noise_pct,
        }
    }
}

/// A published table beside ours.
#[derive(Clone, Debug, Serialize)]
pub struct TableResult {
    /// Names it in files.
    pub name: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// What its figures are.
    pub unit: &'static str,
    /// How it was measured, then and here: paragraphs of Markdown.
    pub setup: &'static str,
    /// The rows in the published order.
    pub rows: Vec<Row>,
}

/// What the processor did under one policy, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CpuCounts {
    /// Calls into the readahead policy.
    pub readahead_calls: u64,
    /// Lookups in the page cache by the reader.
    pub page_lookups: u64,
    /// Lookups in the page cache by readahead, for each page that it might bring in.
    pub insert_lookups: u64,
}

impl CpuCounts {
    /// All that is counted, each call and each lookup as one.
    pub fn total(self) -> u64 {
        self.readahead_calls + self.page_lookups + self.insert_lookups
    }
}

/// One of the document's five cases of processor time.
#[derive(Clone, Debug, Serialize)]
pub struct CpuResult {
    /// The case, in the document's words.
    pub case: String,
    /// The published speed-up in percent.
    pub published_pct: f64,
    #[serde(flatten)]
    pub counts: ByPolicy<CpuCounts>,
    /// Direction alone: counts are not times.
    pub judgement: Judgement,
}

/// One second of a run of more and more streams.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ThrashingSecond {
    /// The second, from the start of the run.
    pub at_s: u32,
    /// Streams that were reading.
    pub streams: u32,
    /// What they got, in MB/s.
    pub throughput_mb_s: f64,
    /// The mean size of a device read, in KB; `None` in a second with none.
    pub mean_read_kb: Option<f64>,
}

/// How thrashing went under one policy, second by second.
#[derive(Clone, Debug, Serialize)]
pub struct ThrashingCourse {
    /// The policy's name.
    pub policy: &'static str,
    /// The seconds in order.
    pub seconds: Vec<ThrashingSecond>,
    /// Pages read ahead and evicted before anybody used them.
    pub pages_wasted: u64,
    /// Pages read ahead.
    pub pages_ahead: u64,
}

/// A course of thrashing, summed up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ThrashingFigures {
    /// The best second.
    pub max_throughput_mb_s: f64,
    /// The mean of the seconds with more than 100 streams.
    pub mean_throughput_mb_s: f64,
    /// The mean of the last five seconds.
    pub final_throughput_mb_s: f64,
    /// Pages read ahead.
    pub pages_ahead: u64,
    /// Pages read ahead and evicted before anybody used them.
    pub pages_wasted: u64,
}

/// The same streams on a machine that differs in one thing, or in none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThrashingVariant {
    /// What is different.
    pub name: &'static str,
    /// Under `legacy`.
    pub legacy: ThrashingFigures,
    /// Under `ondemand`.
    pub ondemand: ThrashingFigures,
}

/// What both policies reach at one and the same number of streams.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EqualStreams {
    /// How many streams there were in the middle of the seconds taken together.
    pub streams: u32,
    /// Under `legacy`.
    pub legacy_mb_s: f64,
    /// Under `ondemand`.
    pub ondemand_mb_s: f64,
}

impl EqualStreams {
    /// How many times as much it is under `ondemand`.
    pub fn gain(&self) -> f64 {
        self.ondemand_mb_s / self.legacy_mb_s
    }
}

/// The gain of the modelled machine, second by second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GainAtEqualStreams {
    /// So many seconds are taken together, by their mean.
    pub smoothed_s: usize,
    /// Where the gain is largest.
    pub largest: EqualStreams,
    /// First and last of the longest unbroken stretch where the gain is at least 3.
    pub threefold: Option<[EqualStreams; 2]>,
}

/// How many rows of a table agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    pub rows: usize,
    /// Rows whose direction agrees.
    pub direction_agrees: usize,
    /// Rows whose size was judged.
    pub size_judged: usize,
    /// Of those, rows whose rough size agrees.
    pub size_agrees: usize,
    /// Rows with a published change beyond the noise.
    pub changed: usize,
    /// Of those, rows whose direction agrees.
    pub changed_agrees: usize,
    /// Rows whose noise is so large that agreement says little.
    pub loose: usize,
}

impl Tally {
    /// Counts what the criterion said.
    pub fn of<'a>(judgements: impl IntoIterator<Item = &'a Judgement>) -> Self {
        let mut tally = Self::default();
        for judgement in judgements {
            let changed = judgement.published != Direction::Same;
            tally.rows += 1;
            tally.direction_agrees += usize::from(judgement.direction_agrees);
            tally.size_judged += usize::from(judgement.size_agrees.is_some());
            tally.size_agrees += usize::from(judgement.size_agrees == Some(true));
            tally.changed += usize::from(changed);
            tally.changed_agrees += usize::from(changed && judgement.direction_agrees);
            tally.loose += usize::from(judgement.loose);
        }
        tally
    }

    /// Rows whose direction would agree in a system where nothing ever changes.
    pub fn agrees_if_nothing_changed(&self) -> usize {
        self.rows - self.changed
    }
}

/// A whole reproduction of Wu 2007.
#[derive(Clone, Debug, Serialize)]
pub struct Wu2007 {
    /// Everything that is left to chance comes from this.
    pub seed: u64,
    /// Sizes were divided by this; 1 is the document's own scale.
    pub divisor: u64,
    /// The tables of figures.
    pub tables: Vec<TableResult>,
    /// The five cases of processor time, counted.
    pub cpu: Vec<CpuResult>,
    /// Thrashing, second by second, of each policy.
    pub thrashing: Vec<ThrashingCourse>,
    /// What the gain depends on: as modelled first, then with one thing different.
    pub thrashing_variants: Vec<ThrashingVariant>,
    /// The gain at one and the same number of streams; `None` for a course of a few seconds.
    pub thrashing_gain: Option<GainAtEqualStreams>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tally_counts_rows_by_what_was_judged() {
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
                size_judged: 4,
                size_agrees: 3,
                changed: 3,
                changed_agrees: 2,
                loose: 1,
            }
        );
        assert_eq!(tally.agrees_if_nothing_changed(), 2);
    }
}
