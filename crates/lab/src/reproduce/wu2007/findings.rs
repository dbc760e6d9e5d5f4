//! The findings of the document and their criteria.
//!
//! # Model
//! An effect is the median over all seeds of a ratio: a figure under `ondemand` divided by the same figure under
//! `legacy`, with the same seed. A claim of a gain holds if the interval of the effect exceeds half of the published
//! change. A claim that figures are roughly the same holds if they are not worse by more than the noise of the
//! document's own tables.
//!
//! The document does not state the size of the streams' reads under thrashing. A verdict about the throughput is
//! undecided if it is the opposite with another size.

use super::machine::SMALL_MEMORY_BYTES;
use super::plan::read_noise_pct;
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
            criterion: "the sum of all runs increases by less than 2%; this is a non-inferiority claim, and holds if \
                        nothing changes",
            is_non_inferiority: true,
            previous: None,
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
        published: |results| {
            Some(thrashing(results, "thrashing", TWICE, Figures::Published)?.effects)
        },
    },
    Rule {
        finding: Finding {
            name: "thrashing, read size",
            claim: "reads from the disk remain large under thrashing",
            published: Some("the smallest mean size is 140 KB against 16 KB"),
            criterion: "the smallest mean size of a read rises by more than half of the published change: it is more than \
                        4.875 times as large",
            is_non_inferiority: false,
            previous: None,
            observe: |results| thrashing(results, "thrashing-reads", 4.875, Figures::Ours),
        },
        published: |results| {
            Some(thrashing(results, "thrashing-reads", 4.875, Figures::Published)?.effects)
        },
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
    Some(vec![Effect::ratio("time of all runs", sum, Bound::Below(1.02))].into())
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

fn thrashing(results: &Wu2007, table: &str, bound: f64, figures: Figures) -> Option<Observed> {
    let row = *rows(results, table, |_| true)?.first()?;
    let ratio = estimate(&[row], figures, |pairs| pairs.iter().map(ratio).sum());
    Some(vec![Effect::ratio(row.label.clone(), ratio, Bound::Above(bound))].into())
}

/// Judges the throughput of the best second with reads of 4 KiB. The verdict depends on an assumption if it is the
/// opposite with another size of reads and with the same memory.
fn best_second(results: &Wu2007) -> Option<Observed> {
    let observed = thrashing(results, "thrashing", TWICE, Figures::Ours)?;
    let verdict = observed.verdict();
    let cells = results.thrashing_grid.iter();
    let cells = cells.filter(|cell| cell.memory_mib == SMALL_MEMORY_BYTES >> 20);
    let cells: Vec<&GridCell> = cells.collect();
    let depends = cells.iter().any(|cell| {
        let other = Bound::Above(TWICE).verdict(cell.throughput.gain);
        other.is_decided() && other != verdict
    });
    let gains = cells.iter().map(|cell| {
        format!(
            "{} with reads of {} KiB",
            cell.throughput.gain, cell.read_kib
        )
    });
    let gains: Vec<String> = gains.collect();
    let observed = observed.depending_on_assumption(depends);
    Some(if gains.is_empty() {
        observed
    } else {
        observed.with_figures(&gains.join(", "))
    })
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
        for cell in &mut mutated.thrashing_grid {
            let noise = read_noise_pct() / 100.0;
            let gain = &mut cell.throughput.gain;
            let mut changed = |gain| change(1.0, gain, noise);
            let value = changed(gain.value);
            let ends = gain.low.zip(gain.high);
            let ends = ends.map(|(low, high)| [changed(low), changed(high)]);
            *gain = Interval {
                value,
                low: ends.map(|[one, other]| one.min(other)),
                high: ends.map(|[one, other]| one.max(other)),
            };
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
    use super::super::results::{ByPolicy, CpuCounts, Simulated, ThrashingGain};
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

    /// The published gain is 3, with which the finding holds.
    #[test]
    fn throughput_is_undecided_if_another_size_of_reads_reverses_the_verdict() {
        let cell = |memory_mib, read_kib, gain| GridCell {
            memory_mib,
            read_kib,
            throughput: ThrashingGain {
                legacy_mb_s: 5.0,
                ondemand_mb_s: 5.0 * gain,
                gain: Interval::new(gain, [gain - 0.1, gain + 0.1]),
            },
        };
        let modelled = SMALL_MEMORY_BYTES >> 20;
        for (cells, verdict) in [
            (vec![cell(modelled, 8, 2.5)], Holds),
            // Neither another memory nor an undecided gain counts.
            (vec![cell(112, 8, 1.5), cell(modelled, 8, 2.0)], Holds),
            (
                vec![cell(modelled, 8, 2.5), cell(modelled, 64, 1.5)],
                Verdict::DependsOnAssumption,
            ),
        ] {
            let results = Wu2007 {
                thrashing_grid: cells,
                ..as_published()
            };
            let judged = judge(&results);
            let judged = judged
                .iter()
                .find(|judged| judged.finding.name == "thrashing, throughput");
            assert_eq!(judged.unwrap().verdict, verdict);
            assert_eq!(judged.unwrap().if_nothing_changed, DoesNotHold);
        }
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
