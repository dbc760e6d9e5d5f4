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

/// A report as it is written once and read many ways.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// What its files are called, but for the plots.
    pub name: &'a str,
    /// The title of the page.
    pub title: &'a str,
    /// The text, which names the plots as images.
    pub markdown: String,
    /// The figures, a line each.
    pub csv: String,
    /// All that is known.
    pub json: String,
    /// Its plots, as SVG.
    pub plots: Vec<ReportFile>,
}

impl Report<'_> {
    /// The report as files: `NAME.md`, `.html` with the plots inside, `.csv`, `.json`, and the plots.
    #[must_use]
    pub fn into_files(self) -> Vec<ReportFile> {
        let html = page(self.title, &self.markdown, |name| {
            let plot = self.plots.iter().find(|plot| plot.name == name);
            plot.map(|plot| plot.content.clone())
        });
        let contents = [
            ("md", self.markdown),
            ("html", html),
            ("csv", self.csv),
            ("json", self.json),
        ];
        let files = contents.map(|(extension, content)| ReportFile {
            name: format!("{}.{extension}", self.name),
            content,
        });
        files.into_iter().chain(self.plots).collect()
    }
}

/// A value as JSON for people too, with a newline at its end.
///
/// # Errors
/// Where it cannot be written as JSON, which is our own mistake.
pub fn json_text(value: &impl Serialize) -> io::Result<String> {
    let mut json = serde_json::to_string_pretty(value)?;
    json.push('\n');
    Ok(json)
}

/// Records as CSV, the head first.
///
/// # Errors
/// Where records differ in length, which is our own mistake.
pub fn csv_text<R, F>(records: impl IntoIterator<Item = R>) -> io::Result<String>
where
    R: IntoIterator<Item = F>,
    F: AsRef<[u8]>,
{
    let mut writer = csv::Writer::from_writer(Vec::new());
    for record in records {
        writer.write_record(record)?;
    }
    let bytes = writer
        .into_inner()
        .map_err(csv::IntoInnerError::into_error)?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_is_four_files_and_its_plots_which_the_page_holds_too() {
        let report = Report {
            name: "r",
            title: "T",
            markdown: "![p](p.svg)\n".to_owned(),
            csv: "a\n".to_owned(),
            json: json_text(&[1]).unwrap(),
            plots: vec![ReportFile {
                name: "p.svg".to_owned(),
                content: "<svg/>".to_owned(),
            }],
        };
        let files = report.into_files();
        let names: Vec<&str> = files.iter().map(|file| &*file.name).collect();
        assert_eq!(names, ["r.md", "r.html", "r.csv", "r.json", "p.svg"]);
        assert!(files[1].content.contains("<title>T</title>"));
        assert!(files[1].content.contains("<svg/>"));
        assert_eq!(files[3].content, "[\n  1\n]\n");
    }

    #[test]
    fn csv_text_quotes_what_needs_it_and_refuses_records_of_other_lengths() {
        assert_eq!(
            csv_text([["a", "b"], ["1,2", ""]]).unwrap(),
            "a,b\n\"1,2\",\n"
        );
        assert!(csv_text([vec!["a", "b"], vec!["1"]]).is_err());
    }
}
