//! The files of a report, and conversion to CSV and JSON.

use super::html::page;
use serde::Serialize;
use std::io;

/// One file of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportFile {
    /// File name without a directory.
    pub name: String,
    /// The complete content.
    pub content: String,
}

impl ReportFile {
    pub(crate) fn new(name: impl Into<String>, content: String) -> Self {
        let name = name.into();
        Self { name, content }
    }
}

/// A report in several forms: its text as Markdown and as HTML, its results as CSV and as JSON, and its plots.
pub trait Report: Serialize {
    /// The name of the report's files, without extension. Plots have their own names.
    const NAME: &'static str;

    /// The title of the page.
    const TITLE: &'static str;

    /// Returns the text below the title as Markdown, which refers to the plots as images.
    fn body(&self) -> String;

    /// Returns the results as CSV, with a header line.
    ///
    /// # Errors
    /// Returns an error if the results cannot be written as CSV, which is a bug.
    fn to_csv(&self) -> io::Result<String>;

    /// Returns the plots that the text refers to, as SVG.
    fn plots(&self) -> Vec<ReportFile>;

    /// Returns all results as JSON.
    ///
    /// # Errors
    /// Returns an error if the results cannot be written as JSON, which is a bug.
    fn to_json(&self) -> io::Result<String> {
        json_text(self)
    }

    /// Returns the report as files: `NAME.md`, `.html` with the plots embedded, `.csv`, `.json`, and
    /// the plots.
    ///
    /// # Errors
    /// Returns the errors of [`Self::to_csv`] and [`Self::to_json`].
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

/// Formats a value as readable JSON, with a final newline.
///
/// # Errors
/// Returns an error if the value cannot be written as JSON, which is a bug.
pub fn json_text(value: &(impl Serialize + ?Sized)) -> io::Result<String> {
    let mut json = serde_json::to_string_pretty(value)?;
    json.push('\n');
    Ok(json)
}

/// Formats lines of fields, each with its name, as CSV. All lines must have the same names.
///
/// # Errors
/// The same as for [`csv_text`].
pub(crate) fn csv_of_fields(
    lines: impl IntoIterator<Item = Vec<(&'static str, String)>>,
) -> io::Result<String> {
    let lines: Vec<_> = lines.into_iter().collect();
    let names = lines.iter().take(1).flatten().map(|(name, _)| *name);
    let head = names.collect::<Vec<_>>().join(",");
    let values = |line: Vec<(_, String)>| line.into_iter().map(|(_, value)| value);
    csv_text(&head, lines.into_iter().map(values))
}

/// Formats records as CSV below `head`, which contains the titles, separated by commas.
///
/// # Errors
/// Returns an error if records differ in length, which is a bug.
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
