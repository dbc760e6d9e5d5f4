//! The figures as CSV.

use crate::output::csv_text;
use crate::reproduce::lever2000::measure::{Load, Row};
use crate::reproduce::lever2000::results::Lever2000;
use std::io;

impl Lever2000 {
    pub(super) fn csv(&self) -> io::Result<String> {
        let head = "table,kernel,tables,users,run,scripts,elapsed_s,processor_s,scripts_hour,\
                    cache,lookups,hits,links,links_on_misses,objects,longest_chain,long_share,device_reads";
        let mut lines = Vec::new();
        for (number, rows) in (1..).zip(&self.tables) {
            for row in rows {
                for load in &row.loads {
                    push_lines(&mut lines, number, row, load);
                }
            }
        }
        csv_text(head, lines)
    }
}

/// Adds a line for each run, and one for each cache over all runs.
fn push_lines(lines: &mut Vec<Vec<String>>, table: u32, row: &Row, load: &Load) {
    let begin = || {
        let names = [
            table.to_string(),
            row.kernel.to_owned(),
            row.tables.to_owned(),
        ];
        names.into_iter().chain([load.runs.users.to_string()])
    };
    let none = |count| std::iter::repeat_n(String::new(), count);
    let times = load.runs.elapsed_s.iter().zip(&load.runs.processor_s);
    let runs = times.zip(load.runs.throughputs());
    for (run, ((elapsed_s, processor_s), throughput)) in (1_u32..).zip(runs) {
        let figures = [
            run.to_string(),
            load.runs.scripts.to_string(),
            format!("{elapsed_s:.6}"),
            format!("{processor_s:.6}"),
            format!("{throughput:.1}"),
        ];
        lines.push(begin().chain(figures).chain(none(9)).collect());
    }
    for figures in &load.caches {
        let cells = [
            figures.cache.as_str().to_owned(),
            figures.lookups.to_string(),
            figures.hits.to_string(),
            figures.links.to_string(),
            figures.links_on_misses.to_string(),
            figures.full.histogram.objects().to_string(),
            figures.longest_chain.to_string(),
            format!("{:.4}", figures.long_share),
            load.device_reads.to_string(),
        ];
        lines.push(begin().chain(none(5)).chain(cells).collect());
    }
}
