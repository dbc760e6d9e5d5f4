//! The plots of the reproduction: the findings, and the time over the number of processes, with one line for
//! each variant.

use super::Kara2016;
use super::grid::Grid;
use super::plan::{ORDER, Source};
use crate::output::{LinePlot, ReportFile, Scale, Series};

/// Returns the tables that are plotted, with their names.
pub(super) fn tables(results: &Kara2016) -> Vec<(&'static str, &Grid)> {
    let ours = [Source::Simulated, Source::Volume].into_iter();
    let ours = ours.filter_map(|source| Some((source.as_str(), results.table(source)?)));
    [("published", &results.published)]
        .into_iter()
        .chain(ours)
        .collect()
}

/// Returns the file name of a table's plot.
pub(super) fn name(table: &str, values: u32) -> String {
    format!("kara2016-{table}-v{values}.svg")
}

/// Returns the plot of the findings, and one plot for each number of values and each of the [`tables`].
pub(super) fn all(results: &Kara2016) -> Vec<ReportFile> {
    let values = results.values().into_iter();
    let picture = |values, (table, grid): (&str, &Grid)| {
        let content = lines(table, grid, values, results.size.pictured_files);
        ReportFile::new(name(table, values), content)
    };
    let lines = values.flat_map(|values| {
        let tables = tables(results).into_iter();
        tables.map(move |table| picture(values, table))
    });
    std::iter::once(results.front_page().plot())
        .chain(lines)
        .collect()
}

fn lines(table: &str, grid: &Grid, values: u32, files: u32) -> String {
    let series = ORDER.into_iter().filter_map(|variant| {
        let rows = grid.rows.iter();
        let rows = rows.filter(|row| row.case.values == values && row.case.files == files);
        let points = rows.filter_map(|row| Some((row.case.processes.into(), row.of(variant)?)));
        let points: Vec<(f64, f64)> = points.collect();
        (!points.is_empty()).then(|| Series::new(variant.as_str(), points))
    });
    let plot = LinePlot {
        title: format!("V={values}, F={files}: {table}"),
        x: "processes".to_owned(),
        y: "seconds for 50,000 sets per process".to_owned(),
        scale: Scale::Logarithmic,
        series: series.collect(),
    };
    plot.to_svg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::picture::{expect_texts_inside, texts};

    #[test]
    fn plot_names_its_variants_inside_of_the_picture() {
        let svg = lines("published", &Grid::published(), 10, 10);
        expect_texts_inside(&svg);
        let texts = texts(&svg);
        for variant in ["old", "lru", "list-lru", "referenced", "off"] {
            assert!(texts.contains(&variant), "{variant}: {texts:?}");
        }
    }
}
