//! Published documents, measured again and judged beside their own figures.
//!
//! Each says before its results when a figure of ours agrees with a published one.

pub mod kara2016;
pub mod lever2000;
pub mod wu2007;

use crate::output::{Report, ReportFile, json_text};
use serde::Serialize;
use std::io;

/// A document's figures, measured again, and what its report consists of.
pub trait Reproduction: Serialize + Sized {
    /// What its files are called.
    const NAME: &'static str;

    /// The report's title.
    const TITLE: &'static str;

    /// The report's end: what is behind the figures, and what they leave out.
    const LIMITS: &'static str;

    /// The report between title and limits, as Markdown.
    fn body(&self) -> String;

    /// All figures, a line each.
    ///
    /// # Errors
    /// Where they cannot be written as CSV, which is our own mistake.
    fn to_csv(&self) -> io::Result<String>;

    /// The plots that the body names.
    fn plots(&self) -> Vec<ReportFile>;

    /// The verdicts alone, for a terminal.
    fn verdicts(&self) -> String;

    /// Why this is no reproduction, if it is none.
    fn caveat(&self) -> Option<&'static str> {
        None
    }

    /// What is printed of it.
    fn summary(&self) -> String {
        format!("{}{}", caveat(self), self.verdicts())
    }

    /// The report as files: `NAME.md`, `.html`, `.csv`, `.json`, and the plots.
    ///
    /// # Errors
    /// Where the figures cannot be written as CSV or JSON, which is our own mistake.
    fn report(&self) -> io::Result<Vec<ReportFile>> {
        let report = Report {
            name: Self::NAME,
            title: Self::TITLE,
            markdown: format!(
                "# {}\n\n{}{}{}",
                Self::TITLE,
                caveat(self),
                self.body(),
                Self::LIMITS
            ),
            csv: self.to_csv()?,
            json: json_text(self)?,
            plots: self.plots(),
        };
        Ok(report.into_files())
    }
}

/// The caveat as a paragraph.
fn caveat(of: &impl Reproduction) -> String {
    of.caveat()
        .map_or(String::new(), |caveat| format!("{caveat}\n\n"))
}
