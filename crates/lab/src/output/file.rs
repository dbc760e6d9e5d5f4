//! The files that a report consists of, and CSV and JSON as text.

use super::html::page;
use serde::Serialize;
use std::io;

/// One file of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportFile {
    /// Its name, with no folder.
    pub name: String,
    /// All that it holds.
    pub content: String,
}

impl ReportFile {
    pub(crate) fn new(name: impl Into<String>, content: String) -> Self {
        let name = name.into();
        Self { name, content }
    }
}

/// What can be written as a report: Markdown, the same as HTML, CSV, JSON and plots.
pub trait Report: Serialize {
    /// What its files are called, but for the plots.
    const NAME: &'static str;

    /// The title of the page.
    const TITLE: &'static str;

    /// The text below the title, as Markdown, which names the plots as images.
    fn body(&self) -> String;

    /// The figures, a line each, with a head.
    ///
    /// # Errors
    /// Where the figures cannot be written as CSV, which is our own mistake.
    fn to_csv(&self) -> io::Result<String>;

    /// The plots that the text names, as SVG.
    fn plots(&self) -> Vec<ReportFile>;

    /// All that is known, as JSON.
    ///
    /// # Errors
    /// Where it cannot be written as JSON, which is our own mistake.
    fn to_json(&self) -> io::Result<String> {
        json_text(self)
    }

    /// The report as files: `NAME.md`, `.html` with the plots inside, `.csv`, `.json`, and the plots.
    ///
    /// # Errors
    /// As [`Self::to_csv`] and [`Self::to_json`].
    fn report(&self) -> io::Result<Vec<ReportFile>> {
        let markdown = format!("# {}\n\n{}", Self::TITLE, self.body());
        let plots = self.plots();
        let html = page(Self::TITLE, &markdown, |name| {
            let plot = plots.iter().find(|plot| plot.name == name);
            plot.map(|plot| plot.content.clone())
        });
        let contents = [
            ("md", markdown),
            ("html", html),
            ("csv", self.to_csv()?),
            ("json", self.to_json()?),
        ];
        let files = contents.map(|(extension, content)| {
            ReportFile::new(format!("{}.{extension}", Self::NAME), content)
        });
        Ok(files.into_iter().chain(plots).collect())
    }
}

/// A value as JSON for people too, with a newline at its end.
///
/// # Errors
/// Where it cannot be written as JSON, which is our own mistake.
pub fn json_text(value: &(impl Serialize + ?Sized)) -> io::Result<String> {
    let mut json = serde_json::to_string_pretty(value)?;
    json.push('\n');
    Ok(json)
}

/// Records as CSV below `head`, the titles between commas.
///
/// # Errors
/// Where records differ in length, which is our own mistake.
pub(crate) fn csv_text<R>(head: &str, records: impl IntoIterator<Item = R>) -> io::Result<String>
where
    R: IntoIterator<Item = String>,
{
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(head.split(','))?;
    for record in records {
        writer.write_record(record)?;
    }
    let bytes = writer
        .into_inner()
        .map_err(csv::IntoInnerError::into_error)?;
    String::from_utf8(bytes).map_err(io::Error::other)
}
