//! What was measured, as a table, CSV and JSON.

use super::{Runs, Sdm};
use crate::output::{
    Align, LinePlot, Report, ReportFile, Scale, Series, Table, csv_text, json_text,
};
use std::io;

impl Sdm {
    /// A row for each load.
    #[must_use]
    pub fn table(&self) -> Table {
        let titles = [
            "users",
            "scripts/hour",
            "without the first run",
            "best run",
            "elapsed s",
        ];
        let mut table = Table::new(titles.map(|title| (title, Align::Right)));
        for load in &self.loads {
            table.push(vec![
                load.users.to_string(),
                load.all().to_string(),
                load.without_first()
                    .map_or("-".to_owned(), |figures| figures.to_string()),
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
            (1..)
                .zip(runs)
                .map(|(run, (elapsed_s, throughput)): (u32, _)| {
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

    /// The report as files: `sdm.md`, `.html`, `.csv`, `.json`, and a plot.
    ///
    /// # Errors
    /// As [`Sdm::to_csv`].
    pub fn report(&self) -> io::Result<Vec<ReportFile>> {
        let title = "Software developers' commands";
        let markdown = format!(
            "# {title}\n\nIn {}, {} runs of each load in turn, from seed {}.\n\n{}\n![Scripts an hour](sdm.svg)\n",
            self.directory,
            self.config.runs,
            self.config.seed,
            self.table().to_markdown(),
        );
        let report = Report {
            name: "sdm",
            title,
            markdown,
            csv: self.to_csv()?,
            json: self.to_json()?,
            plots: vec![ReportFile {
                name: "sdm.svg".to_owned(),
                content: self.plot().to_svg(),
            }],
        };
        Ok(report.into_files())
    }

    fn plot(&self) -> LinePlot {
        let points = |figure: fn(&Runs) -> f64| {
            let loads = self.loads.iter();
            loads
                .map(|load| (f64::from(load.users), figure(load)))
                .collect()
        };
        let series = |name: &str, values| Series {
            name: name.to_owned(),
            values,
        };
        LinePlot {
            title: "Scripts an hour".to_owned(),
            x: "users at once".to_owned(),
            y: "scripts an hour".to_owned(),
            scale: Scale::Linear,
            series: vec![
                series("average", points(|load| load.all().mean)),
                series("best run", points(Runs::best)),
            ],
        }
    }
}
