//! What was measured, as a table, CSV and JSON.

use super::Sdm;
use crate::output::{Align, Table, csv_text, json_text};
use std::io;

impl Sdm {
    /// A row for each load.
    #[must_use]
    pub fn table(&self) -> Table {
        let titles = ["users", "scripts/hour", "without the first run", "best run", "elapsed s"];
        let mut table = Table::new(titles.map(|title| (title, Align::Right)));
        for load in &self.loads {
            table.push(vec![
                load.users.to_string(),
                load.all().to_string(),
                load.without_first().map_or("-".to_owned(), |figures| figures.to_string()),
                format!("{:.1}", load.best()),
                format!("{:.2}", load.total_s()),
            ]);
        }
        table
    }

    /// A line for each run.
    ///
    /// # Errors
    /// None that is not our own mistake.
    pub fn to_csv(&self) -> io::Result<String> {
        let head = ["users", "run", "elapsed_s", "scripts_hour"].map(str::to_owned);
        let lines = self.loads.iter().flat_map(|load| {
            let runs = load.elapsed_s.iter().zip(load.throughputs());
            (1..).zip(runs).map(|(run, (elapsed_s, throughput)): (u32, _)| {
                [
                    load.users.to_string(),
                    run.to_string(),
                    format!("{elapsed_s:.2}"),
                    format!("{throughput:.1}"),
                ]
            })
        });
        csv_text([head].into_iter().chain(lines))
    }

    /// One object: what was run, and for each load the time of each run and the figures of all.
    ///
    /// # Errors
    /// None that is not our own mistake.
    pub fn to_json(&self) -> io::Result<String> {
        json_text(self)
    }
}
