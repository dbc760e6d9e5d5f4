//! The files that a report consists of, and CSV as text.

use std::io;

/// One file of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportFile {
    /// Its name, with no folder.
    pub name: String,
    /// All that it holds.
    pub content: String,
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
    fn csv_text_quotes_what_needs_it_and_refuses_records_of_other_lengths() {
        assert_eq!(
            csv_text([["a", "b"], ["1,2", ""]]).unwrap(),
            "a,b\n\"1,2\",\n"
        );
        assert!(csv_text([vec!["a", "b"], vec!["1"]]).is_err());
    }
}
