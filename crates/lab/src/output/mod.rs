//! How results are written: tables as text and Markdown, plots as SVG, pages as HTML.
//!
//! Nothing here reads a clock, depends on the machine, or knows what the figures mean but for the
//! colours of policies: the same input gives the same bytes.

mod colour;
mod file;
mod html;
mod number;
mod plot;
mod table;

pub(crate) use file::csv_text;
pub use file::{Report, ReportFile, json_text};
pub(crate) use number::{change, duration, ratio, significant, text_or};
pub(crate) use plot::{BarPlot, LinePlot, Scale, Series};
pub use table::Table;
