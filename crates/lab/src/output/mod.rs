//! Output of results: tables as text and Markdown, plots as SVG, pages as HTML.
//!
//! The output depends only on the input: the same input gives the same bytes, at any time and on any machine.
//! The code here does not know the meaning of the data, except for the names of policies, which determine
//! styles.

mod axis;
mod canvas;
mod file;
mod forest;
mod heat_map;
mod html;
mod number;
#[cfg(test)]
pub(crate) mod picture;
mod plot;
mod style;
mod table;

pub use file::{Report, ReportFile, json_text};
pub(crate) use file::{csv_of_fields, csv_text};
pub(crate) use forest::{Estimate, ForestPanel, ForestPlot, ForestRow};
pub(crate) use heat_map::HeatMap;
pub(crate) use number::{change, ratio, significant, text_or};
pub use number::{counted, duration};
pub(crate) use plot::{BarPlot, LinePlot, Scale, Series};
pub use table::Table;
