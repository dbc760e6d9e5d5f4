//! The texts of a file whose comments begin with `#`, such as a shell script, a Makefile or a Python module: its
//! comments, its documentation strings, and the help of the targets of a Makefile.

use super::markdown;
use super::text::Text;

/// The start and the end of a documentation string in Python.
const QUOTES: &str = "\"\"\"";

/// Returns the paragraphs of the comments and documentation strings in `source`.
pub fn texts(source: &str) -> Vec<Text> {
    let mut in_quotes = false;
    let lines = source.lines().map(|line| prose(line, &mut in_quotes));
    markdown::texts(&lines.collect::<Vec<_>>().join("\n"))
}

/// Returns the part of `line` that is prose. `in_quotes` states whether the line begins in a documentation string.
fn prose<'a>(line: &'a str, in_quotes: &mut bool) -> &'a str {
    let line = line.trim();
    let quoted = line.strip_prefix(QUOTES);
    if !*in_quotes && quoted.is_none() {
        let help = line.split_once(" ## ").map(|(_, help)| help);
        let comment = line
            .strip_prefix('#')
            .map(|text| text.trim_start_matches('#'));
        return comment.or(help).unwrap_or_default();
    }
    let content = if *in_quotes {
        line
    } else {
        quoted.unwrap_or_default()
    };
    let end = content.find(QUOTES);
    *in_quotes = end.is_none();
    &content[..end.unwrap_or(content.len())]
}
