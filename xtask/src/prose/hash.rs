//! The texts of a file whose comments begin with `#`, such as a shell script, a Makefile or a Python module: its
//! comments, its documentation strings, and the help of the targets of a Makefile.

use super::markdown;
use super::text::Text;

/// The start and the end of a string of several lines in Python.
const QUOTES: &str = "\"\"\"";

/// The string of several lines in which a line begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoted {
    No,
    /// A documentation string: its quotes are the first characters of a line.
    Documentation,
    /// Another string, which is code.
    Code,
}

/// Returns the paragraphs of the comments and documentation strings in `source`.
pub fn texts(source: &str) -> Vec<Text> {
    let mut quoted = Quoted::No;
    let lines = source.lines().map(|line| prose(line, &mut quoted));
    markdown::texts(&lines.collect::<Vec<_>>().join("\n"))
}

/// Returns the part of `line` that is prose, and updates `quoted` for the next line.
fn prose<'a>(line: &'a str, quoted: &mut Quoted) -> &'a str {
    let mut line = line.trim();
    if *quoted == Quoted::No {
        if let Some(documentation) = line.strip_prefix(QUOTES) {
            *quoted = Quoted::Documentation;
            line = documentation;
        } else if line.matches(QUOTES).count() % 2 == 1 {
            *quoted = Quoted::Code;
            return "";
        } else {
            let help = line.split_once(" ## ").map(|(_, help)| help);
            let comment = line
                .strip_prefix('#')
                .map(|text| text.trim_start_matches('#'));
            return comment.or(help).unwrap_or_default();
        }
    }
    let is_code = *quoted == Quoted::Code;
    let end = line.find(QUOTES);
    if end.is_some() {
        *quoted = Quoted::No;
    }
    if is_code {
        ""
    } else {
        &line[..end.unwrap_or(line.len())]
    }
}
