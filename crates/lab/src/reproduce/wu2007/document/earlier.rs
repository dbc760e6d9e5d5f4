//! The section on the results of the rows in the earlier reports.

use std::sync::LazyLock;

use serde::Deserialize;

use super::super::criterion::{Judgement, judge, judge_direction};
use super::super::results::{Tally, Wu2007};
use super::judgement::{changes, verdicts};
use crate::output::Table;

/// The commits of the earlier reports.
const COMMITS: [&str; 2] = ["55c67f32", "c9ace724"];

/// The tables whose inputs were replaced between these commits.
const REPLACED: [&str; 3] = ["sysbench-oltp", "thrashing", "thrashing-reads"];

/// A row of the earlier reports.
#[derive(Deserialize)]
struct EarlierRow {
    table: String,
    row: String,
    /// The simulated change in the first report, in percent.
    first_pct: f64,
    /// The simulated change in the second report, in percent.
    second_pct: f64,
}

static ROWS: LazyLock<Vec<EarlierRow>> = LazyLock::new(|| {
    csv::Reader::from_reader(include_bytes!("../earlier_rows.csv").as_slice())
        .deserialize()
        .collect::<Result<_, _>>()
        .expect("the earlier results are valid CSV")
});

/// A row with its results in each of the [`COMMITS`], and now.
struct History<'r> {
    title: &'r str,
    label: &'r str,
    is_replaced: bool,
    results: [Judgement; 3],
}

impl History<'_> {
    fn is_shown(&self) -> bool {
        let agreements = self.results.map(agreements);
        self.is_replaced || agreements.windows(2).any(|pair| pair[0] != pair[1])
    }
}

impl Wu2007 {
    /// Returns the rows whose inputs were replaced or whose results changed, with their results in the earlier reports.
    pub(super) fn earlier_rows(&self) -> String {
        // The earlier reports have the published sizes.
        if self.divisor != 1 {
            return String::new();
        }
        let histories = self.histories();
        let versions = || COMMITS.into_iter().chain(["now"]);
        let counts = versions().enumerate().map(|(version, name)| {
            let results = histories.iter().map(|of| &of.results[version]);
            let tally = Tally::of(results);
            format!(
                "{name}: {} of {} and {} of {}",
                tally.direction_agrees, tally.rows, tally.size_agrees, tally.size_judged
            )
        });
        let counts: Vec<String> = counts.collect();
        let mut table = Table::new("table | row")
            .with_numbers(["published change"])
            .with_numbers(versions().map(|name| format!("change, {name}")))
            .with_numbers(versions().map(|name| format!("direction / size, {name}")));
        for of in histories.iter().filter(|of| of.is_shown()) {
            let [published, _] = changes(&of.results[0]);
            let ours = of.results.map(|result| {
                let [_, ours] = changes(&result);
                ours
            });
            let results = of.results.map(|result| verdicts(&result).join(" / "));
            let cells = [of.title.to_owned(), of.label.to_owned(), published];
            table.push(cells.into_iter().chain(ours).chain(results));
        }
        let [first, second] = COMMITS;
        format!(
            "### Rows in the earlier reports\n\n\
             There are two earlier reports: that of commit {first}, with one seed, a synthetic pattern of reads for OLTP and \
             112 MiB for pages under thrashing; and that of commit {second}, with ten seeds, recorded reads and 75.3 MiB. The \
             rule for rows was the same. The table has the rows of OLTP and of thrashing, whose inputs were replaced, and each \
             other row whose result differs. Numbers of rows whose direction and whose rough size agree: {}.\n\n{}\n",
            counts.join("; "),
            table.to_markdown()
        )
    }

    fn histories(&self) -> Vec<History<'_>> {
        let rows = self.tables.iter().flat_map(|table| {
            table.rows.iter().filter_map(move |row| {
                let [first, second] = earlier_pct(table.name, &row.label)?;
                let judged = |pct| judge(row.judgement.published_pct, pct, row.noise_pct);
                Some(History {
                    title: table.title,
                    label: &row.label,
                    is_replaced: REPLACED.contains(&table.name),
                    results: [judged(first), judged(second), row.judgement],
                })
            })
        });
        let cpu = self.cpu.iter().filter_map(|row| {
            let [first, second] = earlier_pct("cpu", &row.case)?;
            let judged = |pct| judge_direction(row.published_pct, pct, 0.0);
            Some(History {
                title: "CPU cost, counted",
                label: &row.case,
                is_replaced: false,
                results: [judged(first), judged(second), row.judgement],
            })
        });
        rows.chain(cpu).collect()
    }
}

/// Returns the simulated changes of a row in the earlier reports.
fn earlier_pct(table: &str, row: &str) -> Option<[f64; 2]> {
    let mut rows = ROWS.iter();
    let of = rows.find(|of| of.table == table && of.row == row)?;
    Some([of.first_pct, of.second_pct])
}

fn agreements(judgement: Judgement) -> (bool, Option<bool>) {
    (judgement.direction_agrees, judgement.size_agrees)
}

#[cfg(test)]
mod tests {
    use super::super::super::plan::{Plan, plans, read_noise_pct};
    use super::*;
    use crate::published;

    /// A table, its row, and the row's figure.
    type Figure = (
        &'static str,
        &'static str,
        fn(&published::ThrashingRow) -> f64,
    );

    /// Returns the results of all rows in the earlier reports.
    fn results() -> Vec<[Judgement; 2]> {
        let rows = plans().into_iter().flat_map(|plan| {
            let Plan { name, rows, .. } = plan;
            rows.into_iter().map(move |row| {
                let pct = earlier_pct(name, &row.label).unwrap();
                pct.map(|pct| judge(row.published.change_pct(), pct, row.noise_pct))
            })
        });
        let policies = published::thrashing();
        let [legacy, ondemand] = &*policies else {
            panic!("there are two policies");
        };
        let thrashing: [Figure; 2] = [
            ("thrashing", "max throughput", |row| row.max_throughput_mb_s),
            ("thrashing-reads", "min avg I/O size", |row| {
                row.min_avg_io_kb
            }),
        ];
        let thrashing = thrashing.map(|(table, label, of)| {
            let published = published::Pair {
                legacy: of(legacy),
                ondemand: of(ondemand),
            };
            let pct = earlier_pct(table, label).unwrap();
            pct.map(|pct| judge(published.change_pct(), pct, read_noise_pct()))
        });
        let cpu = published::cpu().into_iter().map(|row| {
            let pct = earlier_pct("cpu", &row.case).unwrap();
            pct.map(|pct| judge_direction(row.change_pct, pct, 0.0))
        });
        rows.chain(thrashing).chain(cpu).collect()
    }

    /// The numbers that both reports print.
    #[test]
    fn earlier_results_are_those_of_the_earlier_reports() {
        let results = results();
        assert_eq!(results.len(), ROWS.len());
        for (version, direction_agrees) in [(0, 53), (1, 54)] {
            let tally = Tally::of(results.iter().map(|of| &of[version]));
            let counts = (tally.rows, tally.direction_agrees);
            assert_eq!(counts, (61, direction_agrees));
            assert_eq!((tally.size_agrees, tally.size_judged), (50, 56));
        }
    }

    #[test]
    fn row_is_shown_if_its_input_was_replaced_or_its_result_changed() {
        let [same, other] = [1.0, 9.0].map(|pct| judge(1.0, pct, 0.5));
        for (is_replaced, results, is_shown) in [
            (false, [same; 3], false),
            (true, [same; 3], true),
            (false, [other, same, same], true),
            (false, [same, same, other], true),
        ] {
            let history = History {
                title: "iozone",
                label: "Read, run 1",
                is_replaced,
                results,
            };
            assert_eq!(history.is_shown(), is_shown);
        }
    }
}
