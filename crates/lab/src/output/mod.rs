//! Output of results: tables as text and Markdown, plots as SVG, pages as HTML.
//!
//! The output does not depend on a clock or on the machine, and the code does not interpret the
//! figures, except for the colours of policies: the same input gives the same bytes.

mod colour;
mod file;
mod html;
mod number;
mod plot;
mod table;

pub(crate) use file::csv_text;
pub use file::{Report, ReportFile, json_text};
pub use number::counted;
pub(crate) use number::{change, duration, ratio, significant, text_or};
pub(crate) use plot::{BarPlot, LinePlot, Scale, Series};
pub use table::Table;
