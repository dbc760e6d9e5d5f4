//! The plot of the findings, and plots of the mean links of a lookup under each kernel, one for each table.

use super::kernels::TABLES;
use super::results::Lever2000;
use crate::output::{BarPlot, ReportFile, Series};

pub(super) fn all(results: &Lever2000) -> Vec<ReportFile> {
    let plots = TABLES.iter().zip(&results.tables).map(|(table, rows)| {
        let groups = rows.iter().map(|row| row.kernel.to_owned());
        let series = table.loads.iter().enumerate().map(|(at, users)| {
            let links = rows.iter().map(|row| match table.cache {
                Some(cache) => row.loads[at].cache(cache).links_per_lookup(),
                None => row.loads[at].links_per_script(),
            });
            Series::new(format!("{users} scripts"), links)
        });
        let value = match table.cache {
            Some(_) => "links per lookup",
            None => "links per script, in all caches",
        };
        let plot = BarPlot {
            title: format!("Table {}: {}", table.number, table.title),
            value: value.to_owned(),
            groups: groups.collect(),
            series: series.collect(),
        };
        ReportFile::new(
            format!("lever2000-table{}.svg", table.number),
            plot.to_svg(),
        )
    });
    std::iter::once(results.front_page().plot())
        .chain(plots)
        .collect()
}
