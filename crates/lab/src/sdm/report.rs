//! The measurements as a table, CSV and JSON.

use super::{Runs, Sdm};
use crate::output::{LinePlot, Report, ReportFile, Scale, Series, Table, csv_text, text_or};
use std::io;

impl Sdm {
    /// Returns a table with one row for each load.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(
            "users: | scripts/hour: | without the first run: | best run: | time of all runs, s:",
        );
        for load in &self.loads {
            table.push([
                load.users.to_string(),
                load.all().to_string(),
                text_or(load.without_first(), "-"),
                format!("{:.1}", load.best()),
                format!("{:.2}", load.total_s()),
            ]);
        }
        table
    }

    fn plot(&self) -> LinePlot {
        let series = |name, figure: fn(&Runs) -> f64| {
            let loads = self.loads.iter();
            Series::<(f64, f64)>::new(name, loads.map(|load| (load.users.into(), figure(load))))
        };
        LinePlot {
            title: "Throughput by concurrent users".to_owned(),
            x: "concurrent users".to_owned(),
            y: "scripts per hour".to_owned(),
            scale: Scale::Linear,
            series: vec![
                series("average", |load| load.all().mean),
                series("best run", Runs::best),
            ],
        }
    }
}

impl Report for Sdm {
    const NAME: &'static str = "sdm";
    const TITLE: &'static str = "Throughput of software development commands";

    fn body(&self) -> String {
        format!(
            "Directory: {}. Runs of each load: {}; the loads take turns. Seed: {}.\n\n{}\n\
             ![Scripts per hour](sdm.svg)\n",
            self.directory,
            self.config.runs,
            self.config.seed,
            self.table().to_markdown(),
        )
    }

    /// Returns one line for each run.
    fn to_csv(&self) -> io::Result<String> {
        let lines = self.loads.iter().flat_map(|load| {
            let runs = load.elapsed_s.iter().zip(load.throughputs());
            (1_u32..).zip(runs).map(|(run, (elapsed_s, throughput))| {
                [
                    load.users.to_string(),
                    run.to_string(),
                    format!("{elapsed_s:.2}"),
                    format!("{throughput:.1}"),
                ]
            })
        });
        csv_text("users,run,elapsed_s,scripts_hour", lines)
    }

    fn plots(&self) -> Vec<ReportFile> {
        vec![ReportFile::new("sdm.svg", self.plot().to_svg())]
    }
}
