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

pub use file::{Report, ReportFile, csv_text, json_text};
pub use html::slug;
pub use number::{change, duration, ratio, significant};
pub use plot::{BarPlot, LinePlot, Scale, Series};
pub use table::{Align, Table};
