//! A comparison as people and programs read it: a table, CSV, JSON, a plot, a page.

use std::io;
use std::time::Duration;

use crate::compare::Comparison;
use crate::output::{
    Align, BarPlot, LinePlot, Report, ReportFile, Scale, Series, Table, csv_text, duration,
    json_text, significant,
};
use crate::run_report::{RunReport, as_f64};

const MIB: f64 = 1_048_576.0;

/// With fewer seconds than this, a line by the second shows nothing.
const LINE_SECONDS: usize = 5;

const PLOT_NAME: &str = "comparison.svg";

impl Comparison {
    /// What was compared, in one line.
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

    /// One row for each policy.
    #[must_use]
    pub fn table(&self) -> Table {
        let numbers = [
            "MiB/s",
            "p50",
            "p99",
            "max",
            "device reads",
            "mean KiB",
            "pages ahead",
            "used",
            "thrashed",
            "hit rate",
        ];
        let numbers = numbers.map(|title| (title, Align::Right));
        let mut table = Table::new([("policy", Align::Left)].into_iter().chain(numbers));
        for report in &self.reports {
            table.push(row(report));
        }
        table
    }

    /// One line for each policy, with a head.
    ///
    /// # Errors
    /// Where the figures cannot be written as CSV, which is our own mistake.
    pub fn to_csv(&self) -> Result<String, io::Error> {
        let lines: Vec<_> = self.reports.iter().map(|r| self.csv_fields(r)).collect();
        let head = lines.first().map(|line| {
            let names = line.iter().map(|(name, _)| (*name).to_owned());
            names.collect::<Vec<_>>()
        });
        let rows = lines
            .iter()
            .map(|line| line.iter().map(|(_, value)| value.clone()).collect());
        csv_text(head.into_iter().chain(rows))
    }

    fn csv_fields(&self, report: &RunReport) -> Vec<(&'static str, String)> {
        let count = |name, value: u64| (name, value.to_string());
        let pages = &report.pages;
        vec![
            ("workload", self.workload.clone()),
            ("device", self.device.to_owned()),
            count("memory_bytes", self.memory_bytes),
            count("readahead_max_bytes", self.readahead_max_bytes),
            count("seed", self.seed),
            ("policy", report.policy.to_string()),
            ("elapsed_s", report.elapsed.as_secs_f64().to_string()),
            (
                "throughput_bytes_s",
                report.throughput_bytes_s().to_string(),
            ),
            count("bytes_read", report.bytes_read),
            count("bytes_written", report.bytes_written),
            count("requests", report.requests),
            count("latency_mean_ns", report.latency.mean_ns),
            count("latency_p50_ns", report.latency.p50_ns),
            count("latency_p90_ns", report.latency.p90_ns),
            count("latency_p99_ns", report.latency.p99_ns),
            count("latency_p999_ns", report.latency.p999_ns),
            count("latency_max_ns", report.latency.max_ns),
            count("device_reads", report.device_reads),
            count("device_read_bytes", report.device_read_bytes),
            (
                "mean_device_read_bytes",
                report.mean_device_read_bytes().to_string(),
            ),
            count("device_writes", report.device_writes),
            count("device_written_bytes", report.device_written_bytes),
            ("hit_rate", report.hit_rate().to_string()),
            count("page_lookups", pages.page_lookups),
            count("page_hits", pages.page_hits),
            count("page_misses", pages.page_misses),
            count("page_misses_in_flight", pages.page_misses_in_flight),
            count("readahead_calls", pages.readahead_calls),
            count("insert_lookups", pages.insert_lookups),
            count("pages_ahead", pages.pages_ahead),
            count("pages_used", pages.pages_used),
            count("pages_wasted", pages.pages_wasted),
        ]
    }

    /// Everything, the samples by the second too, as JSON.
    ///
    /// # Errors
    /// Where the figures cannot be written as JSON, which is our own mistake.
    pub fn to_json(&self) -> Result<String, io::Error> {
        json_text(self)
    }

    /// Throughput by the second, or, of a run of a few seconds, as a whole.
    #[must_use]
    pub fn plot(&self) -> String {
        let longest = self.reports.iter().map(|report| report.samples.len()).max();
        if longest.unwrap_or(0) < LINE_SECONDS {
            return self.bars().to_svg();
        }
        let series = self.reports.iter().map(|report| Series {
            name: report.policy.to_string(),
            values: report
                .samples
                .iter()
                .map(|sample| (sample.at_s, sample.throughput_bytes_s / MIB))
                .collect(),
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
        let reports = self.reports.iter();
        BarPlot {
            title: self.plot_title(),
            value: "MiB/s".to_owned(),
            groups: vec![String::new()],
            series: reports
                .map(|report| Series {
                    name: report.policy.to_string(),
                    values: vec![report.throughput_bytes_s() / MIB],
                })
                .collect(),
        }
    }

    fn plot_title(&self) -> String {
        format!("{} on {}", self.workload, self.device)
    }

    /// The comparison as files: `comparison.md`, `.html`, `.csv`, `.json` and `.svg`.
    ///
    /// # Errors
    /// As [`Self::to_csv`] and [`Self::to_json`].
    pub fn report(&self) -> Result<Vec<ReportFile>, io::Error> {
        let markdown = format!(
            "# Readahead policies compared\n\n{}\n\n{}\n![Throughput]({PLOT_NAME})\n",
            self.title(),
            self.table().to_markdown()
        );
        let report = Report {
            name: "comparison",
            title: "Readahead policies compared",
            markdown,
            csv: self.to_csv()?,
            json: self.to_json()?,
            plots: vec![ReportFile {
                name: PLOT_NAME.to_owned(),
                content: self.plot(),
            }],
        };
        Ok(report.into_files())
    }
}

/// A size in KiB where it is a whole number of these, or else in bytes.
fn kibibytes(bytes: u64) -> String {
    if bytes.is_multiple_of(1024) {
        format!("{} KiB", bytes / 1024)
    } else {
        format!("{bytes} bytes")
    }
}

fn row(report: &RunReport) -> Vec<String> {
    let latency = |nanos: u64| duration(Duration::from_nanos(nanos));
    vec![
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
                "ondemand", "64.00", "1.50", "us", "8.00", "ms", "20.0", "ms", "2048", "128.0",
                "60000", "59000", "1000", "75.0%"
            ]
        );
    }

    #[test]
    fn title_names_the_window_to_the_byte() {
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
    fn plot_shows_seconds_where_there_are_some() {
        assert!(comparison(10).plot().contains("seconds"));
        let short = comparison(2).plot();
        assert!(!short.contains("seconds") && short.contains("MiB/s"));
    }

    #[test]
    fn report_files_are_the_same_each_time_and_name_the_setup() {
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
