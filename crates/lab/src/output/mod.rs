//! How results are written: tables as text and Markdown, plots as SVG, pages as HTML.
//!
//! Nothing here knows what the figures mean, reads a clock or depends on the machine: the same
//! input gives the same bytes.

mod file;
mod html;
mod number;
mod plot;
mod table;

pub use file::{ReportFile, csv_text};
pub use html::{page, slug};
pub use number::{change, duration, ratio, significant};
pub use plot::{BarPlot, LinePlot, Series};
pub use table::{Align, Table};
