//! Output of a comparison for people and programs: a table, CSV, JSON, a plot and an HTML page.

use std::io;
use std::time::Duration;

use crate::compare::Comparison;
use crate::output::{
    BarPlot, LinePlot, Report, ReportFile, Scale, Series, Table, csv_of_fields, duration,
    significant,
};
use crate::run_report::{RunReport, as_f64};

const MIB: f64 = 1_048_576.0;

/// The minimum duration of a run, in seconds, for a plot of the throughput over time.
const LINE_SECONDS: usize = 5;

const PLOT_NAME: &str = "comparison.svg";

impl Comparison {
    /// Returns one line that describes the comparison.
    #[must_use]
    pub fn title(&self) -> String {
        format!(
            "{} on {}, {} MiB of memory, windows up to {}, seed {}",
            self.workload,
            self.device,
            significant(as_f64(self.memory_bytes) / MIB),
            kibibytes(self.readahead_max_bytes),
            self.seed
        )
    }

    /// Returns a table with one row for each policy.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(
            "policy | MiB/s: | p50: | p99: | max: | device reads: | mean KiB: | pages ahead: | used: \
             | thrashed: | hit rate:",
        );
        for report in &self.reports {
            table.push(row(report));
        }
        table
    }

    fn csv_fields(&self, report: &RunReport) -> Vec<(&'static str, String)> {
        let field = |name, value: &dyn ToString| (name, value.to_string());
        let pages = &report.pages;
        vec![
            field("workload", &self.workload),
            field("device", &self.device),
            field("memory_bytes", &self.memory_bytes),
            field("readahead_max_bytes", &self.readahead_max_bytes),
            field("seed", &self.seed),
            field("policy", &report.policy),
            field("elapsed_s", &report.elapsed.as_secs_f64()),
            field("throughput_bytes_s", &report.throughput_bytes_s()),
            field("bytes_read", &report.bytes_read),
            field("bytes_written", &report.bytes_written),
            field("requests", &report.requests),
            field("latency_mean_ns", &report.latency.mean_ns),
            field("latency_p50_ns", &report.latency.p50_ns),
            field("latency_p90_ns", &report.latency.p90_ns),
            field("latency_p99_ns", &report.latency.p99_ns),
            field("latency_p999_ns", &report.latency.p999_ns),
            field("latency_max_ns", &report.latency.max_ns),
            field("device_reads", &report.device_reads),
            field("device_read_bytes", &report.device_read_bytes),
            field("mean_device_read_bytes", &report.mean_device_read_bytes()),
            field("device_writes", &report.device_writes),
            field("device_written_bytes", &report.device_written_bytes),
            field("hit_rate", &report.hit_rate()),
            field("page_lookups", &pages.page_lookups),
            field("page_hits", &pages.page_hits),
            field("page_misses", &pages.page_misses),
            field("page_misses_in_flight", &pages.page_misses_in_flight),
            field("readahead_calls", &pages.readahead_calls),
            field("insert_lookups", &pages.insert_lookups),
            field("pages_ahead", &pages.pages_ahead),
            field("pages_used", &pages.pages_used),
            field("pages_wasted", &pages.pages_wasted),
        ]
    }

    /// Plots the throughput in each second, or only the total throughput if the run was short.
    #[must_use]
    pub fn plot(&self) -> String {
        let longest = self.reports.iter().map(|report| report.samples.len()).max();
        if longest.unwrap_or(0) < LINE_SECONDS {
            return self.bars().to_svg();
        }
        let series = self.reports.iter().map(|report| {
            let samples = report.samples.iter();
            let points = samples.map(|sample| (sample.at_s, sample.throughput_bytes_s / MIB));
            Series::new(report.policy.as_str(), points)
        });
        let plot = LinePlot {
            title: self.plot_title(),
            x: "seconds".to_owned(),
            y: "MiB/s".to_owned(),
            scale: Scale::Linear,
            series: series.collect(),
        };
        plot.to_svg()
    }

    fn bars(&self) -> BarPlot {
        let series = self
            .reports
            .iter()
            .map(|report| Series::new(report.policy.as_str(), [report.throughput_bytes_s() / MIB]));
        BarPlot {
            title: self.plot_title(),
            value: "MiB/s".to_owned(),
            groups: vec![String::new()],
            series: series.collect(),
        }
    }

    fn plot_title(&self) -> String {
        format!("{} on {}", self.workload, self.device)
    }
}

impl Report for Comparison {
    const NAME: &'static str = "comparison";
    const TITLE: &'static str = "Readahead policies compared";

    fn body(&self) -> String {
        format!(
            "{}\n\n{}\n![Throughput]({PLOT_NAME})\n",
            self.title(),
            self.table().to_markdown()
        )
    }

    /// Returns one line for each policy.
    fn to_csv(&self) -> io::Result<String> {
        csv_of_fields(self.reports.iter().map(|report| self.csv_fields(report)))
    }

    fn plots(&self) -> Vec<ReportFile> {
        vec![ReportFile::new(PLOT_NAME, self.plot())]
    }
}

/// Formats a size in KiB if it is a multiple of 1 KiB, and in bytes otherwise.
fn kibibytes(bytes: u64) -> String {
    if bytes.is_multiple_of(1024) {
        format!("{} KiB", bytes / 1024)
    } else {
        format!("{bytes} bytes")
    }
}

fn row(report: &RunReport) -> [String; 11] {
    let latency = |nanos: u64| duration(Duration::from_nanos(nanos));
    [
        report.policy.to_string(),
        significant(report.throughput_bytes_s() / MIB),
        latency(report.latency.p50_ns),
        latency(report.latency.p99_ns),
        latency(report.latency.max_ns),
        report.device_reads.to_string(),
        significant(report.mean_device_read_bytes() / 1024.0),
        report.pages.pages_ahead.to_string(),
        report.pages.pages_used.to_string(),
        report.pages.pages_wasted.to_string(),
        format!("{:.1}%", report.hit_rate() * 100.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_report::{LatencyReport, PageCounts, Sample};
    use larder_readahead::PolicyName;

    fn comparison(seconds: u32) -> Comparison {
        let report = |policy, throughput_bytes_s: f64| RunReport {
            policy,
            elapsed: Duration::from_secs(u64::from(seconds)),
            bytes_read: 256 << 20,
            bytes_written: 0,
            requests: 4096,
            latency: LatencyReport {
                p50_ns: 1500,
                p99_ns: 8_000_000,
                max_ns: 20_000_000,
                ..LatencyReport::default()
            },
            device_reads: 2048,
            device_read_bytes: 256 << 20,
            device_writes: 0,
            device_written_bytes: 0,
            pages: PageCounts {
                page_lookups: 65536,
                page_hits: 49152,
                pages_ahead: 60000,
                pages_used: 59000,
                pages_wasted: 1000,
                ..PageCounts::default()
            },
            samples: (1..=seconds)
                .map(|at| Sample {
                    at_s: f64::from(at),
                    throughput_bytes_s,
                    mean_read_bytes: 131_072.0,
                    streams: 4,
                })
                .collect(),
        };
        Comparison {
            workload: "interleaved:streams=4".to_owned(),
            device: "nvme",
            memory_bytes: 1 << 30,
            readahead_max_bytes: 128 << 10,
            seed: 7,
            reports: vec![
                report(PolicyName::Off, 64.0 * MIB),
                report(PolicyName::OnDemand, 128.0 * MIB),
            ],
        }
    }

    #[test]
    fn table_has_a_row_for_each_policy() {
        let text = comparison(4).table().to_text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        let cells: Vec<&str> = lines[2].split_whitespace().collect();
        assert_eq!(
            cells,
            [
                "ondemand", "64.00", "1.50", "µs", "8.00", "ms", "20.0", "ms", "2048", "128.0",
                "60000", "59000", "1000", "75.0%"
            ]
        );
    }

    #[test]
    fn title_has_the_exact_window_size() {
        let title = |readahead_max_bytes| {
            let comparison = comparison(1);
            Comparison {
                readahead_max_bytes,
                ..comparison
            }
            .title()
        };
        assert!(title(128 << 10).contains("windows up to 128 KiB,"));
        assert!(title(5000).contains("windows up to 5000 bytes,"));
    }

    #[test]
    fn csv_has_a_head_and_a_line_for_each_policy() {
        let csv = comparison(4).to_csv().unwrap();
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        let head = reader.headers().unwrap().clone();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 2);
        let at = |name: &str| head.iter().position(|field| field == name).unwrap();
        assert_eq!(&rows[1][at("policy")], "ondemand");
        assert_eq!(&rows[1][at("pages_wasted")], "1000");
        assert_eq!(&rows[0][at("latency_p99_ns")], "8000000");
        assert_eq!(&rows[0][at("hit_rate")], "0.75");
        assert_eq!(&rows[0][at("mean_device_read_bytes")], "131072");
    }

    #[test]
    fn plot_has_a_time_axis_for_long_runs() {
        assert!(comparison(10).plot().contains("seconds"));
        let short = comparison(2).plot();
        assert!(!short.contains("seconds") && short.contains("MiB/s"));
    }

    #[test]
    fn report_is_deterministic_and_names_the_setup() {
        let files = comparison(10).report().unwrap();
        assert_eq!(files, comparison(10).report().unwrap());
        let names: Vec<&str> = files.iter().map(|file| &*file.name).collect();
        assert_eq!(
            names,
            [
                "comparison.md",
                "comparison.html",
                "comparison.csv",
                "comparison.json",
                "comparison.svg"
            ]
        );
        assert!(files[0].content.contains("interleaved:streams=4 on nvme"));
        assert!(files[1].content.contains("<svg"));
        let json: serde_json::Value = serde_json::from_str(&files[3].content).unwrap();
        let report = &json["reports"][1];
        assert_eq!(report["policy"], "ondemand");
        assert_eq!(report["page_hits"], 49152);
        assert_eq!(report["hit_rate"], 0.75);
        assert_eq!(report["mean_device_read_bytes"], 131_072.0);
        assert_eq!(report["throughput_bytes_s"], 25.6 * MIB);
    }
}
