//! The findings of the document and their criteria.
//!
//! # Model
//! An effect is the median over all seeds of a ratio: a figure under `ondemand` divided by the same figure under
//! `legacy`, with the same seed. A claim of a gain holds if the interval of the effect exceeds half of the published
//! change. A claim that figures are roughly the same holds if they are not worse by more than the noise of the
//! document's own tables.
//!
//! The document does not state the size of the streams' reads under thrashing. A verdict about thrashing is undecided if
//! it is the opposite with another size.

use super::machine::SMALL_MEMORY_BYTES;
use super::plan::{fileio_sum_noise_pct, read_noise_pct};
use super::results::{CpuResult, GridCell, Row, TableResult, Wu2007};
use crate::published::Pair;
use crate::reproduce::finding::{
    Bound, Effect, Finding, Judged, Mutable, Mutation, NOISE, Observed, Previous, Verdict,
};
use crate::run_report::as_f64;
use crate::statistics::{Interval, geometric_mean};

/// A finding of this document.
struct Rule {
    finding: Finding<Wu2007>,
    /// Returns the effects in the published figures.
    published: fn(&Wu2007) -> Option<Vec<Effect>>,
}

/// The bound of the throughput under thrashing.
const TWICE: f64 = 2.0;

/// The bound of the smallest mean read under thrashing, relative to `legacy`.
const LARGER: f64 = 4.875;

/// The bound of the smallest mean read under thrashing, relative to the published size.
const LARGE: f64 = 0.5;

static RULES: [Rule; 8] = [
    Rule {
        finding: Finding {
            name: "iozone",
            claim: "trivial sequential and random reads are as fast as before",
            published: Some("changes of -0.2% to +1.2% of the tests that read"),
            criterion: "in each test of iozone that reads, the throughput decreases by less than the noise of these \
                        tests, 1.2%; this is a non-inferiority claim, and holds if nothing changes",
            is_non_inferiority: true,
            previous: None,
            observe: |results| worst_read(results, Figures::Ours),
        },
        published: |results| Some(worst_read(results, Figures::Published)?.effects),
    },
    Rule {
        finding: Finding {
            name: "aio-stress",
            claim: "asynchronous reads take as long as before",
            published: Some("changes of 0.0% and +0.1%"),
            criterion: "the time of each test increases by less than the noise of iozone's reads, 1.2%; this is a \
                        non-inferiority claim, and holds if nothing changes",
            is_non_inferiority: true,
            previous: None,
            observe: |results| longest_aio(results, Figures::Ours),
        },
        published: |results| Some(longest_aio(results, Figures::Published)?.effects),
    },
    Rule {
        finding: Finding {
            name: "sysbench fileio",
            claim: "random reads and writes take as long as before in total",
            published: Some("495.046 s and 491.514 s, -0.7%"),
            criterion: "the sum of all runs increases by less than the noise of such a sum, 1.0%: the difference between \
                        the sums of the runs that the document repeats; this is a non-inferiority claim, and holds if \
                        nothing changes",
            is_non_inferiority: true,
            previous: Some(Previous {
                verdict: Verdict::Holds,
                reason: "The bound was 2%, which did not follow from the document's figures",
            }),
            observe: |results| fileio(results, Figures::Ours),
        },
        published: |results| Some(fileio(results, Figures::Published)?.effects),
    },
    Rule {
        finding: Finding {
            name: "OLTP",
            claim: "OLTP gains up to 8%",
            published: Some("+0.9% to +8.7%"),
            criterion: "the largest gain of a row is more than half of the published one, 4.35%, and the mean gain of all \
                        rows exceeds the noise of iozone's reads, 1.2%",
            is_non_inferiority: false,
            previous: None,
            observe: |results| oltp(results, Figures::Ours),
        },
        published: |results| Some(oltp(results, Figures::Published)?.effects),
    },
    Rule {
        finding: Finding {
            name: "thrashing, throughput",
            claim: "the throughput under thrashing is three times as high",
            published: Some("15 MB/s against 5 MB/s in the best second"),
            criterion: "the throughput of the best second rises by more than half of the published change: it is more \
                        than twice as high; with the other sizes of the streams' reads, the verdict is not the opposite",
            is_non_inferiority: false,
            previous: Some(Previous {
                verdict: Verdict::DoesNotHold,
                reason: "Only reads of 4 KiB were judged. The document does not state the size of the streams' reads, and \
                         the gain depends on it",
            }),
            observe: best_second,
        },
        published: |results| Some(throughput(results, Figures::Published)?.effects),
    },
    Rule {
        finding: Finding {
            name: "thrashing, read size",
            claim: "reads from the disk remain large under thrashing",
            published: Some("the smallest mean size is 140 KB against 16 KB"),
            criterion: "the smallest mean size of a read rises by more than half of the published change: it is more than \
                        4.875 times as large; under ondemand, it is more than half of the published 140 KB; with the other \
                        sizes of the streams' reads, the verdict is not the opposite",
            is_non_inferiority: false,
            previous: Some(Previous {
                verdict: Verdict::Holds,
                reason: "Only the rise was judged, although the claim is about the size under ondemand, and only with reads \
                         of 4 KiB",
            }),
            observe: smallest_read,
        },
        published: |results| Some(read_size(results, Figures::Published)?.effects),
    },
    Rule {
        finding: Finding {
            name: "processor time, sequential",
            claim: "sequential reads need fewer calls of readahead and fewer lookups",
            published: Some("speed-ups of 0.3% to 3.2%"),
            criterion: "in each of the four sequential cases, the number of calls and lookups decreases",
            is_non_inferiority: false,
            previous: None,
            observe: |results| counted(results, |row| row.published_pct > 0.0, Bound::Below(1.0)),
        },
        published: |_| None,
    },
    Rule {
        finding: Finding {
            name: "processor time, random",
            claim: "random reads need an additional lookup for each miss",
            published: Some("1% slower"),
            criterion: "in the case of random reads, the number of calls and lookups increases",
            is_non_inferiority: false,
            previous: None,
            observe: |results| counted(results, |row| row.published_pct < 0.0, Bound::Above(1.0)),
        },
        published: |_| None,
    },
];

/// Evaluates all findings.
pub(super) fn judge(results: &Wu2007) -> Vec<Judged<Wu2007>> {
    let judged = RULES.iter().map(|rule| {
        let published = (rule.published)(results).unwrap_or_default();
        Judged::new(&rule.finding, published, results)
    });
    judged.collect()
}

/// The figures of a row that are compared.
#[derive(Clone, Copy)]
enum Figures {
    /// Simulated figures, once for each seed.
    Ours,
    /// Published figures.
    Published,
}

/// Returns a statistic of the rows: the median over the seeds for [`Figures::Ours`], and an exact value for
/// [`Figures::Published`], because there is one published figure for each row.
fn estimate(rows: &[&Row], figures: Figures, statistic: impl Fn(&[Pair]) -> f64) -> Interval {
    if let Figures::Published = figures {
        let pairs: Vec<Pair> = rows.iter().map(|row| row.published).collect();
        return Interval::exact(statistic(&pairs));
    }
    let seeds = rows.iter().map(|row| row.seeds.len()).min().unwrap_or(0);
    let of_seeds = (0..seeds).map(|seed| {
        let pairs: Vec<Pair> = rows.iter().map(|row| row.seeds[seed].pair()).collect();
        statistic(&pairs)
    });
    Interval::of_median(&of_seeds.collect::<Vec<_>>())
}

fn ratio(pair: &Pair) -> f64 {
    pair.ondemand / pair.legacy
}

fn rows<'r>(
    results: &'r Wu2007,
    table: &str,
    wanted: impl Fn(&Row) -> bool,
) -> Option<Vec<&'r Row>> {
    let mut tables = results.tables.iter();
    let table: &TableResult = tables.find(|of| of.name == table)?;
    let rows: Vec<&Row> = table.rows.iter().filter(|row| wanted(row)).collect();
    (!rows.is_empty()).then_some(rows)
}

fn worst_read(results: &Wu2007, figures: Figures) -> Option<Observed> {
    let noise_pct = read_noise_pct();
    // The tests that write are noisier in the document.
    let rows = rows(results, "iozone", |row| row.noise_pct <= noise_pct)?;
    let least = estimate(&rows, figures, |pairs| {
        pairs.iter().map(ratio).fold(f64::INFINITY, f64::min)
    });
    let bound = Bound::Above(1.0 - noise_pct / 100.0);
    Some(
        vec![Effect::ratio(
            "throughput of the worst test that reads",
            least,
            bound,
        )]
        .into(),
    )
}

fn longest_aio(results: &Wu2007, figures: Figures) -> Option<Observed> {
    let rows = rows(results, "aio-stress", |_| true)?;
    let most = estimate(&rows, figures, |pairs| {
        pairs.iter().map(ratio).fold(0.0, f64::max)
    });
    let bound = Bound::Below(1.0 + read_noise_pct() / 100.0);
    Some(vec![Effect::ratio("time of the worse test", most, bound)].into())
}

fn fileio(results: &Wu2007, figures: Figures) -> Option<Observed> {
    let rows = rows(results, "sysbench-fileio", |_| true)?;
    let sum = estimate(&rows, figures, |pairs| {
        let sum = |of: fn(&Pair) -> f64| pairs.iter().map(of).sum::<f64>();
        sum(|pair| pair.ondemand) / sum(|pair| pair.legacy)
    });
    let bound = Bound::Below(1.0 + fileio_sum_noise_pct() / 100.0);
    Some(vec![Effect::ratio("time of all runs", sum, bound)].into())
}

fn oltp(results: &Wu2007, figures: Figures) -> Option<Observed> {
    let rows = rows(results, "sysbench-oltp", |_| true)?;
    let most = estimate(&rows, figures, |pairs| {
        pairs.iter().map(ratio).fold(0.0, f64::max)
    });
    let all = estimate(&rows, figures, |pairs| {
        let ratios: Vec<f64> = pairs.iter().map(ratio).collect();
        geometric_mean(&ratios).unwrap_or(f64::NAN)
    });
    let noise = Bound::Above(1.0 + read_noise_pct() / 100.0);
    Some(
        vec![
            Effect::ratio(
                "transactions per second, best row",
                most,
                Bound::Above(1.0435),
            ),
            Effect::ratio("transactions per second, mean of all rows", all, noise),
        ]
        .into(),
    )
}

/// Returns the only row of a table of thrashing.
fn thrashing_row<'r>(results: &'r Wu2007, table: &str) -> Option<&'r Row> {
    rows(results, table, |_| true)?.first().copied()
}

/// Compares the throughputs of the best second.
fn throughput(results: &Wu2007, figures: Figures) -> Option<Observed> {
    let row = thrashing_row(results, "thrashing")?;
    let gain = estimate(&[row], figures, |pairs| pairs.iter().map(ratio).sum());
    Some(throughput_effects(gain).into())
}

fn throughput_effects(gain: Interval) -> Vec<Effect> {
    vec![Effect::ratio("max throughput", gain, Bound::Above(TWICE))]
}

/// Judges the throughput of the best second.
fn best_second(results: &Wu2007) -> Option<Observed> {
    let observed = throughput(results, Figures::Ours)?;
    let with = |cell: &GridCell| throughput_effects(cell.throughput.gain);
    Some(with_other_reads(results, observed, with))
}

/// Compares the smallest mean sizes of a device read.
fn read_size(results: &Wu2007, figures: Figures) -> Option<Observed> {
    let row = thrashing_row(results, "thrashing-reads")?;
    let gain = estimate(&[row], figures, |pairs| pairs.iter().map(ratio).sum());
    let ondemand_kb = estimate(&[row], figures, |pairs| {
        pairs.iter().map(|pair| pair.ondemand).sum()
    });
    Some(read_size_effects(gain, ondemand_kb, row.published).into())
}

/// If nothing differs in the document, the read under `ondemand` has the published size under `legacy`.
fn read_size_effects(gain: Interval, ondemand_kb: Interval, published: Pair) -> Vec<Effect> {
    let relative = ondemand_kb.map(|kb| kb / published.ondemand);
    let label = "min avg I/O size under ondemand / published";
    vec![
        Effect::ratio("min avg I/O size", gain, Bound::Above(LARGER)),
        Effect {
            no_effect: published.legacy / published.ondemand,
            ..Effect::ratio(label, relative, Bound::Above(LARGE))
        },
    ]
}

/// Judges the smallest mean size of a device read.
fn smallest_read(results: &Wu2007) -> Option<Observed> {
    let observed = read_size(results, Figures::Ours)?;
    let published = thrashing_row(results, "thrashing-reads")?.published;
    let with = |cell: &GridCell| {
        let of = cell.min_mean_read;
        read_size_effects(of.gain, of.ondemand_kb, published)
    };
    Some(with_other_reads(results, observed, with))
}

/// Compares what is observed with reads of 4 KiB with the `effects` in other cells of the grid. The verdict depends on an
/// assumption if it is the opposite with another size of reads and with the same memory.
fn with_other_reads(
    results: &Wu2007,
    observed: Observed,
    effects: impl Fn(&GridCell) -> Vec<Effect>,
) -> Observed {
    let verdict = observed.verdict();
    let cells = results.thrashing_grid.iter();
    let cells = cells.filter(|cell| cell.memory_mib == SMALL_MEMORY_BYTES >> 20);
    let others = cells.map(|cell| (cell.read_kib, Observed::from(effects(cell))));
    let others: Vec<(u64, Observed)> = others.collect();
    let depends = others.iter().any(|(_, other)| {
        let other = other.verdict();
        other.is_decided() && other != verdict
    });
    let figures = others.iter().map(|(read_kib, other)| {
        let estimates = other.effects.iter();
        let estimates = estimates.map(|effect| effect.estimate.to_string());
        let estimates = estimates.collect::<Vec<_>>().join(" and ");
        format!("{estimates} with reads of {read_kib} KiB")
    });
    let figures: Vec<String> = figures.collect();
    let observed = observed.depending_on_assumption(depends);
    if figures.is_empty() {
        observed
    } else {
        observed.with_figures(&figures.join(", "))
    }
}

fn counted(results: &Wu2007, wanted: fn(&CpuResult) -> bool, bound: Bound) -> Option<Observed> {
    let rows = results.cpu.iter().filter(|row| wanted(row));
    let effects = rows.map(|row| {
        let ratios = row
            .seeds
            .iter()
            .map(|counts| as_f64(counts.ondemand.total()) / as_f64(counts.legacy.total()));
        let ratios: Vec<f64> = ratios.collect();
        // If the counts do not depend on the seed, they have no noise.
        let is_same = ratios
            .windows(2)
            .all(|pair| pair[0].total_cmp(&pair[1]).is_eq());
        let ratio = match (ratios.first(), is_same) {
            (Some(first), true) => Interval::exact(*first),
            _ => Interval::of_median(&ratios),
        };
        Effect::ratio(format!("calls and lookups, {}", row.case), ratio, bound)
    });
    let effects: Vec<Effect> = effects.collect();
    (!effects.is_empty()).then(|| effects.into())
}

/// The figures under `ondemand` are changed relative to those under `legacy` of the same seed, and gains relative to 1.
/// The noise is that of the document's tables. Counts have hardly any noise in the document; here they have some.
impl Mutable for Wu2007 {
    fn mutated(&self, mutation: Mutation) -> Self {
        let mut index = 0;
        let mut change = |reference, figure, noise| {
            index += 1;
            mutation.apply(reference, figure, index, noise)
        };
        let mut mutated = Self {
            findings: Vec::new(),
            ..self.clone()
        };
        for row in mutated.tables.iter_mut().flat_map(|table| &mut table.rows) {
            let noise = row.noise_pct / 100.0;
            for figures in &mut row.seeds {
                figures.ondemand = change(figures.legacy, figures.ondemand, noise);
            }
        }
        let noise = read_noise_pct() / 100.0;
        let mut changed = |reference: f64, interval: Interval| {
            let mut changed = |figure| change(reference, figure, noise);
            let value = changed(interval.value);
            let ends = interval.low.zip(interval.high);
            let ends = ends.map(|(low, high)| [changed(low), changed(high)]);
            Interval {
                value,
                low: ends.map(|[one, other]| one.min(other)),
                high: ends.map(|[one, other]| one.max(other)),
            }
        };
        for cell in &mut mutated.thrashing_grid {
            let (throughput, read) = (&mut cell.throughput, &mut cell.min_mean_read);
            throughput.gain = changed(1.0, throughput.gain);
            read.gain = changed(1.0, read.gain);
            read.ondemand_kb = changed(read.legacy_kb, read.ondemand_kb);
        }
        for counts in mutated.cpu.iter_mut().flat_map(|row| &mut row.seeds) {
            let [legacy, ondemand] =
                [counts.legacy, counts.ondemand].map(|counts| as_f64(counts.total()));
            let changed = change(legacy, ondemand, NOISE);
            counts.ondemand = counts.legacy.scaled(changed / legacy);
        }
        mutated
    }
}

#[cfg(test)]
mod tests {
    use super::super::criterion::judge_direction;
    use super::super::plan::plans;
    use super::super::results::{ByPolicy, CpuCounts, ReadSizeGain, Simulated, ThrashingGain};
    use super::*;
    use crate::published;
    use crate::reproduce::finding::Verdict::{DoesNotHold, Holds};
    use crate::reproduce::finding::expect;

    const SEEDS: usize = 10;

    /// Returns results with the published figures for each seed.
    fn as_published() -> Wu2007 {
        let row = |label, published: Pair, noise_pct| {
            let figures =
                Simulated::from([published.legacy, published.ondemand, published.ondemand]);
            Row::new(label, published, vec![figures; SEEDS], noise_pct)
        };
        let table = |name, rows| TableResult {
            name,
            title: name,
            unit: "",
            setup: "",
            rows,
        };
        let plans = plans().into_iter().map(|plan| {
            let rows = plan.rows.into_iter();
            let rows = rows.map(|planned| row(planned.label, planned.published, planned.noise_pct));
            table(plan.name, rows.collect())
        });
        let thrashing = published::thrashing();
        let pair = |of: fn(&published::ThrashingRow) -> f64| Pair {
            legacy: of(&thrashing[0]),
            ondemand: of(&thrashing[1]),
        };
        let thrashing = [
            ("thrashing", pair(|row| row.max_throughput_mb_s)),
            ("thrashing-reads", pair(|row| row.min_avg_io_kb)),
        ];
        let thrashing = thrashing
            .map(|(name, published)| table(name, vec![row(name.to_owned(), published, 1.2)]));
        let cpu = published::cpu().into_iter().map(|row| {
            let counts = |page_lookups| CpuCounts {
                page_lookups,
                ..CpuCounts::default()
            };
            let ondemand = if row.change_pct > 0.0 { 900 } else { 1100 };
            let counts = ByPolicy::from([counts(1000), counts(ondemand), counts(ondemand)]);
            CpuResult {
                judgement: judge_direction(row.change_pct, row.change_pct, 0.0),
                case: row.case,
                published_pct: row.change_pct,
                counts,
                seeds: vec![counts; SEEDS],
            }
        });
        Wu2007 {
            seed: 1,
            seeds: 10,
            divisor: 1,
            tables: plans.chain(thrashing).collect(),
            cpu: cpu.collect(),
            thrashing: Vec::new(),
            thrashing_variants: Vec::new(),
            thrashing_means: None,
            thrashing_gain: None,
            findings: Vec::new(),
            thrashing_grid: Vec::new(),
            cfq: None,
        }
    }

    fn findings() -> Vec<&'static Finding<Wu2007>> {
        RULES.iter().map(|rule| &rule.finding).collect()
    }

    /// The verdicts for the published figures, no change, changes inverted, and changes halved.
    #[test]
    fn findings_are_judged_on_changed_results() {
        let clear = [Holds, DoesNotHold, DoesNotHold, Holds];
        let half = [Holds, DoesNotHold, DoesNotHold, DoesNotHold];
        expect::verdicts(
            &findings(),
            &as_published(),
            &[
                ("iozone", [Holds; 4]),
                ("aio-stress", [Holds; 4]),
                ("sysbench fileio", [Holds; 4]),
                ("OLTP", half),
                ("thrashing, throughput", half),
                ("thrashing, read size", half),
                ("processor time, sequential", clear),
                ("processor time, random", clear),
            ],
        );
    }

    #[test]
    fn noise_alone_neither_shows_nor_refutes_a_finding() {
        expect::noise(&findings(), &as_published());
    }

    /// Returns a cell of the grid with a gain in throughput, the rise of the smallest read, and its size in KB.
    fn cell(memory_mib: u64, read_kib: u64, [gain, rise, smallest]: [f64; 3]) -> GridCell {
        let interval = |value: f64| Interval::new(value, [0.95 * value, 1.05 * value]);
        GridCell {
            memory_mib,
            read_kib,
            throughput: ThrashingGain {
                legacy_mb_s: 5.0,
                ondemand_mb_s: 5.0 * gain,
                gain: interval(gain),
            },
            min_mean_read: ReadSizeGain {
                legacy_kb: smallest / rise,
                ondemand_kb: interval(smallest),
                gain: interval(rise),
            },
        }
    }

    const MODELLED_MIB: u64 = SMALL_MEMORY_BYTES >> 20;

    /// Judges a finding about thrashing on the published figures and on cells of the grid.
    fn judged_with(name: &str, cells: &[GridCell]) -> Judged<Wu2007> {
        let results = Wu2007 {
            thrashing_grid: cells.to_vec(),
            ..as_published()
        };
        let judged = judge(&results).into_iter();
        let mut judged = judged.filter(|judged| judged.finding.name == name);
        judged.next().unwrap()
    }

    /// The published figures are a gain of 3, a rise of 8.75 and reads of 140 KB, with which both findings hold.
    #[test]
    fn thrashing_is_undecided_if_another_size_of_reads_reverses_the_verdict() {
        let as_published = [3.0, 8.75, 140.0];
        let reversed = Verdict::DependsOnAssumption;
        for (cells, throughput, read_size) in [
            (vec![cell(MODELLED_MIB, 8, as_published)], Holds, Holds),
            // Neither another memory nor an undecided figure counts.
            (vec![cell(112, 8, [1.5, 2.0, 20.0])], Holds, Holds),
            (vec![cell(MODELLED_MIB, 8, [2.0, 4.9, 71.0])], Holds, Holds),
            (
                vec![
                    cell(MODELLED_MIB, 8, as_published),
                    cell(MODELLED_MIB, 64, [1.5, 8.75, 140.0]),
                ],
                reversed,
                Holds,
            ),
            (
                vec![cell(MODELLED_MIB, 64, [3.0, 4.0, 140.0])],
                Holds,
                reversed,
            ),
            (
                vec![cell(MODELLED_MIB, 64, [3.0, 8.75, 60.0])],
                Holds,
                reversed,
            ),
        ] {
            for (name, verdict) in [
                ("thrashing, throughput", throughput),
                ("thrashing, read size", read_size),
            ] {
                let judged = judged_with(name, &cells);
                assert_eq!(judged.verdict, verdict, "{name}: {cells:?}");
                assert_eq!(judged.if_nothing_changed, DoesNotHold, "{name}");
            }
        }
    }

    #[test]
    fn figures_of_other_sizes_of_reads_are_listed() {
        let cells = [cell(MODELLED_MIB, 8, [2.5, 8.0, 70.0])];
        let judged = judged_with("thrashing, read size", &cells);
        assert_eq!(
            judged.observed.figures,
            "min avg I/O size 8.750; min avg I/O size under ondemand / published 1.000; \
             8.000 (7.600 to 8.400) and 0.500 (0.475 to 0.525) with reads of 8 KiB"
        );
    }

    /// A large rise from tiny reads does not show that reads remain large.
    #[test]
    fn reads_must_be_large_and_not_only_larger() {
        let mut results = as_published();
        let mut tables = results.tables.iter_mut();
        let table = tables
            .find(|table| table.name == "thrashing-reads")
            .unwrap();
        for figures in &mut table.rows[0].seeds {
            (figures.legacy, figures.ondemand) = (2.0, 60.0);
        }
        let finding = RULES.iter().map(|rule| &rule.finding);
        let mut finding = finding.filter(|finding| finding.name == "thrashing, read size");
        assert_eq!(finding.next().unwrap().verdict(&results), DoesNotHold);
    }

    #[test]
    fn results_of_one_seed_decide_nothing_but_counts() {
        let mut results = as_published();
        for row in results.tables.iter_mut().flat_map(|table| &mut table.rows) {
            row.seeds.truncate(1);
        }
        for judged in judge(&results) {
            let is_counted = judged.finding.name.starts_with("processor time");
            let verdict = if is_counted {
                Holds
            } else {
                Verdict::TooFewRuns
            };
            assert_eq!(judged.verdict, verdict, "{}", judged.finding.name);
        }
    }

    #[test]
    fn scaled_counts_have_the_scaled_sum() {
        let counts = CpuCounts {
            readahead_calls: 10,
            page_lookups: 20,
            insert_lookups: 30,
        };
        assert_eq!(counts.scaled(0.5).total(), 30);
    }
}
