//! Output of a replay for people and programs: a table, CSV, JSON, a plot and an HTML page.

use super::{PolicyReplay, Replay};
use crate::output::{
    BarPlot, Report, ReportFile, Series, Table, csv_of_fields, duration, significant,
};
use crate::run_report::as_f64;
use std::fmt::Write as _;
use std::io;
use std::time::Duration;

const MIB: f64 = 1_048_576.0;
const PLOT_NAME: &str = "replay.svg";

impl Replay {
    /// Returns lines that describe the replay.
    #[must_use]
    pub fn title(&self) -> String {
        let mut title = format!(
            "{}: {} reads of {} files by {} threads in {}\n{}, {} MiB of memory, windows up to {} KiB",
            self.trace,
            self.replayed_reads,
            self.files,
            self.readers,
            duration(Duration::from_secs_f64(self.recorded_s)),
            self.device,
            significant(as_f64(self.memory_bytes) / MIB),
            self.readahead_max_bytes.div_ceil(1024),
        );
        if self.replayed_reads < self.reads {
            let _ = write!(
                title,
                "\nthe trace has {} reads; only the first were replayed",
                self.reads
            );
        }
        if let Some(why) = &self.shortened {
            let _ = write!(title, "\nthe end of the trace is missing: {why}");
        }
        title
    }

    /// Returns a table with one row for each policy.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(
            "policy | elapsed: | in reads: | waits: | p99: | max: | device requests: | pages read: \
             | read ahead: | used: | unused: | hit rate:",
        );
        for policy in &self.policies {
            table.push(row(policy));
        }
        table
    }

    fn csv_fields(&self, policy: &PolicyReplay) -> Vec<(&'static str, String)> {
        let field = |name, value: &dyn ToString| (name, value.to_string());
        let report = &policy.report;
        vec![
            field("trace", &self.trace),
            field("device", &self.device),
            field("memory_bytes", &self.memory_bytes),
            field("readahead_max_bytes", &self.readahead_max_bytes),
            field("seed", &self.seed),
            field("policy", &report.policy),
            field("elapsed_s", &report.elapsed.as_secs_f64()),
            field("read_s", &policy.read_s),
            field("waits", &policy.waits),
            field("latency_p50_ns", &report.latency.p50_ns),
            field("latency_p99_ns", &report.latency.p99_ns),
            field("latency_max_ns", &report.latency.max_ns),
            field("device_reads", &report.device_reads),
            field("device_read_bytes", &report.device_read_bytes),
            field("pages_read", &policy.pages_read),
            field("pages_ahead", &report.pages.pages_ahead),
            field("pages_used", &report.pages.pages_used),
            field("pages_unused", &policy.pages_unused),
            field("pages_wasted", &report.pages.pages_wasted),
            field("hit_rate", &report.hit_rate()),
        ]
    }
}

impl Report for Replay {
    const NAME: &'static str = "replay";
    const TITLE: &'static str = "Readahead policies on a trace";

    fn body(&self) -> String {
        format!(
            "{}\n\n{}\n![Time in reads]({PLOT_NAME})\n",
            self.title(),
            self.table().to_markdown()
        )
    }

    /// Returns one line for each policy.
    fn to_csv(&self) -> io::Result<String> {
        csv_of_fields(self.policies.iter().map(|policy| self.csv_fields(policy)))
    }

    fn plots(&self) -> Vec<ReportFile> {
        let series = self
            .policies
            .iter()
            .map(|policy| Series::new(policy.report.policy.as_str(), [policy.read_s]));
        let plot = BarPlot {
            title: format!("Time in reads on {}", self.device),
            value: "seconds".to_owned(),
            groups: vec![String::new()],
            series: series.collect(),
        };
        vec![ReportFile::new(PLOT_NAME, plot.to_svg())]
    }
}

fn row(policy: &PolicyReplay) -> [String; 12] {
    let report = &policy.report;
    let latency = |nanos: u64| duration(Duration::from_nanos(nanos));
    [
        report.policy.to_string(),
        duration(report.elapsed),
        duration(Duration::from_secs_f64(policy.read_s)),
        policy.waits.to_string(),
        latency(report.latency.p99_ns),
        latency(report.latency.max_ns),
        report.device_reads.to_string(),
        policy.pages_read.to_string(),
        report.pages.pages_ahead.to_string(),
        report.pages.pages_used.to_string(),
        policy.pages_unused.to_string(),
        format!("{:.1}%", report.hit_rate() * 100.0),
    ]
}
