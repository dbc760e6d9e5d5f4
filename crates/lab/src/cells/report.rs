//! Output of the table of cells: Markdown, CSV, JSON and a plot.

use super::{Cell, Cells, DEVICES, PolicyFigures};
use crate::output::{HeatMap, Report, ReportFile, Table, csv_text, significant};
use crate::run_report::{as_f64, quotient};
use crate::statistics::Interval;
use std::io;

const MIB: f64 = 1_048_576.0;

const PLOT_NAME: &str = "readahead-cells.svg";

/// The least ratio of a cell that does not count as a loss.
const NO_LOSS: f64 = 0.98;

/// The least ratio of a cell that counts as a gain.
const GAIN: f64 = 1.2;

/// The largest waste of a cell that meets the target.
const MAX_WASTE: f64 = 0.1;

impl Cells {
    /// Returns one sentence for each target.
    #[must_use]
    pub fn summary(&self) -> String {
        // Returns the number of the required cells that match, and the number of all cells that match.
        let count = |is: &dyn Fn(&Cell) -> bool| {
            let matching = || self.cells.iter().filter(|cell| is(cell));
            let required = matching().filter(|cell| cell.is_required).count();
            [required, matching().count()].map(|count| count as u64)
        };
        let [required, all] = count(&|_| true);
        let gains = count(&|cell| cell.ratio.value >= GAIN);
        let losses = count(&|cell| cell.ratio.value < NO_LOSS);
        let wasteful = count(&|cell| waste(cell) > MAX_WASTE);
        let worst = self
            .cells
            .iter()
            .min_by(|one, other| one.ratio.value.total_cmp(&other.ratio.value));
        let worst = worst.map_or_else(String::new, |cell| {
            let ratio = significant(cell.ratio.value);
            format!(
                " The smallest ratio is {ratio} ({} on {}).",
                cell.row, cell.device
            )
        });
        let most_waste = self.cells.iter().map(waste).fold(0.0, f64::max);
        format!(
            "{} of {required} required cells ({:.0}%) and {} of all {all} cells ({:.0}%) have a ratio of at least \
             {GAIN}; {} required cells and {} of all have a ratio below {NO_LOSS}.{worst} The waste of `adaptive` \
             exceeds {:.0}% in {} required cells and {} of all; the largest is {:.1}%.",
            gains[0],
            quotient(gains[0], required) * 100.0,
            gains[1],
            quotient(gains[1], all) * 100.0,
            losses[0],
            losses[1],
            MAX_WASTE * 100.0,
            wasteful[0],
            wasteful[1],
            most_waste * 100.0
        )
    }

    /// Returns the table with one row for each cell.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(
            "workload | device | memory MiB: | legacy MiB/s: | ondemand: | modern: | adaptive: | ratio: | \
             95% interval: | waste: | waste of the best:",
        );
        for cell in &self.cells {
            table.push(line(cell));
        }
        table
    }

    /// Returns the plot of all ratios.
    #[must_use]
    pub fn plot(&self) -> String {
        let rows = self.cells.chunks(DEVICES.len());
        let plot = HeatMap {
            title: "Throughput of adaptive, relative to the best of legacy, ondemand and modern"
                .to_owned(),
            columns: DEVICES.map(str::to_owned).to_vec(),
            rows: rows
                .map(|cells| {
                    let ratios = cells.iter().map(|cell| cell.ratio.value);
                    (cells[0].row.to_owned(), ratios.collect())
                })
                .collect(),
        };
        plot.to_svg()
    }
}

impl Report for Cells {
    const NAME: &'static str = "readahead-cells";
    const TITLE: &'static str = "Adaptive readahead in all cells";

    fn body(&self) -> String {
        format!(
            "`larder lab readahead --grid --output DIR` simulates every workload on five devices, under each policy and \
             with {} seeds, and writes this page. The policies of Linux have windows of up to {} KiB, except in the rows \
             `streams`, in which they have 1 MiB, as in Wu 2007. The ratio of a cell is \
             the throughput of `adaptive`, divided by the largest throughput of a policy of Linux with the same seed: the \
             median over the seeds, and its 95% interval. Throughputs are medians, too. The waste is the share of the \
             pages read from the device that were read ahead and evicted before their use, with the worst seed; the last \
             column contains the smallest waste of a policy of Linux. The required cells are those of the 16 workloads for \
             which the targets were set: the first 17 workloads except `cursors`. [Design of readahead](readahead.md) explains the \
             results.\n\n{}\n\n![Ratios]({PLOT_NAME})\n\n{}",
            self.seeds,
            self.readahead_max_bytes / 1024,
            self.summary(),
            self.table().to_markdown()
        )
    }

    fn to_csv(&self) -> io::Result<String> {
        let head = "workload,device,memory_bytes,policy,throughput_bytes_s,low,high,waste,unused,ratio,ratio_low,ratio_high";
        let records = self.cells.iter().flat_map(|cell| {
            cell.policies
                .iter()
                .map(|figures| csv_record(cell, figures))
        });
        csv_text(head, records)
    }

    fn plots(&self) -> Vec<ReportFile> {
        vec![ReportFile::new(PLOT_NAME, self.plot())]
    }
}

/// Returns the waste of `adaptive`.
fn waste(cell: &Cell) -> f64 {
    cell.policies.last().map_or(0.0, |figures| figures.waste)
}

fn csv_record(cell: &Cell, figures: &PolicyFigures) -> Vec<String> {
    let end = |end: Option<f64>| end.map_or_else(String::new, |end| end.to_string());
    vec![
        cell.workload.clone(),
        cell.device.to_owned(),
        cell.memory_bytes.to_string(),
        figures.policy.to_string(),
        figures.throughput_bytes_s.value.to_string(),
        end(figures.throughput_bytes_s.low),
        end(figures.throughput_bytes_s.high),
        figures.waste.to_string(),
        figures.unused.to_string(),
        cell.ratio.value.to_string(),
        end(cell.ratio.low),
        end(cell.ratio.high),
    ]
}

fn line(cell: &Cell) -> Vec<String> {
    let (adaptive, others) = cell.policies.split_last().expect("a cell has policies");
    let throughput = |figures: &PolicyFigures| significant(figures.throughput_bytes_s.value / MIB);
    let waste = |waste: f64| format!("{:.1}%", waste * 100.0);
    let least_waste = others.iter().map(|figures| figures.waste);
    let mut line = vec![
        format!("`{}`", short(cell)),
        cell.device.to_owned(),
        significant(as_f64(cell.memory_bytes) / MIB),
    ];
    line.extend(cell.policies.iter().map(throughput));
    line.push(significant(cell.ratio.value));
    line.push(ends(&cell.ratio));
    line.push(waste(adaptive.waste));
    line.push(waste(least_waste.fold(f64::INFINITY, f64::min)));
    line
}

/// Returns the workload as it is written in `ROWS`.
fn short(cell: &Cell) -> &'static str {
    super::ROWS
        .iter()
        .find(|row| row.name == cell.row)
        .map_or(cell.row, |row| row.workload)
}

fn ends(interval: &Interval) -> String {
    match (interval.low, interval.high) {
        (Some(low), Some(high)) => format!("{} to {}", significant(low), significant(high)),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_readahead::PolicyName;

    fn cells() -> Cells {
        let figures = |policy, mib: f64| PolicyFigures {
            policy,
            throughput_bytes_s: Interval::exact(mib * MIB),
            waste: mib / 1000.0,
            unused: 0.0,
        };
        let cell = |device, ratio| Cell {
            workload: "sequential:file=512M,request=64K".to_owned(),
            device,
            memory_bytes: 1 << 30,
            readahead_max_bytes: 128 << 10,
            ratio: Interval::exact(ratio),
            policies: vec![
                figures(PolicyName::Legacy, 10.0),
                figures(PolicyName::Modern, 20.0),
                figures(PolicyName::OnDemand, 15.0),
                figures(PolicyName::Adaptive, 20.0 * ratio),
            ],
            is_required: ratio < 2.0,
            row: "sequential",
        };
        let ratios = [0.9, 1.0, 1.2, 2.0, 30.0];
        Cells {
            seeds: 10,
            readahead_max_bytes: 128 << 10,
            cells: DEVICES
                .iter()
                .zip(ratios)
                .map(|(device, ratio)| cell(*device, ratio))
                .collect(),
        }
    }

    #[test]
    fn summary_counts_gains_and_losses() {
        let summary = cells().summary();
        for part in [
            "1 of 3 required cells (33%) and 3 of all 5 cells (60%)",
            "1 required cells and 1 of all have a ratio below 0.98",
            "0.900 (sequential on sata-2007)",
            "exceeds 10% in 0 required cells and 1 of all; the largest is 60.0%",
        ] {
            assert!(summary.contains(part), "{part}: {summary}");
        }
    }

    /// The table of the published page changes only with a new run, but its text may be edited.
    #[test]
    fn published_page_has_the_summary_of_its_table() {
        const PAGE: &str = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/design/readahead-cells.md"
        );
        let page = std::fs::read_to_string(PAGE).unwrap();
        let lines = page.lines().filter(|line| line.starts_with("| `"));
        let rows = super::super::ROWS.iter();
        let places = rows.flat_map(|row| DEVICES.iter().map(move |device| (row, *device)));
        let cells: Vec<Cell> = lines
            .zip(places)
            .map(|(line, (row, device))| {
                let columns: Vec<&str> = line.split('|').map(str::trim).collect();
                assert_eq!(columns[1], format!("`{}`", row.workload));
                assert_eq!(columns[2], device);
                let waste: f64 = columns[10].strip_suffix('%').unwrap().parse().unwrap();
                Cell {
                    workload: row.workload.to_owned(),
                    device,
                    memory_bytes: row.memory_bytes,
                    readahead_max_bytes: 128 << 10,
                    ratio: Interval::exact(columns[8].parse().unwrap()),
                    policies: vec![PolicyFigures {
                        policy: PolicyName::Adaptive,
                        throughput_bytes_s: Interval::exact(0.0),
                        waste: waste / 100.0,
                        unused: 0.0,
                    }],
                    is_required: row.is_required,
                    row: row.name,
                }
            })
            .collect();
        assert_eq!(cells.len() as u64, super::super::cell_count());
        let cells = Cells {
            seeds: 10,
            readahead_max_bytes: 128 << 10,
            cells,
        };
        let summary = cells.summary();
        assert!(page.contains(&summary), "{summary}");
        assert!(summary.contains("of 80 required cells"), "{summary}");
    }

    #[test]
    fn report_has_a_line_for_each_cell_and_policy() {
        let files = cells().report().unwrap();
        let content = |extension: &str| {
            let name = format!("readahead-cells.{extension}");
            let file = files.iter().find(|file| file.name == name);
            file.unwrap().content.clone()
        };
        assert_eq!(content("csv").lines().count(), 1 + 5 * 4);
        assert_eq!(
            content("md")
                .lines()
                .filter(|line| line.starts_with("| `"))
                .count(),
            5
        );
        assert!(content("svg").contains("30.0"), "{}", content("svg"));
        let json: serde_json::Value = serde_json::from_str(&content("json")).unwrap();
        assert_eq!(json["cells"][4]["policies"][3]["policy"], "adaptive");
    }
}
