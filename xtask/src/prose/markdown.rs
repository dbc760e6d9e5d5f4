//! The prose of a Markdown file: its paragraphs, without code.

use super::text::{Kind, Text};

/// Returns the paragraphs of `source`: runs of consecutive lines of text, including list items and
/// table rows.
pub fn texts(source: &str) -> Vec<Text> {
    let mut texts: Vec<Text> = Vec::new();
    let mut fenced = false;
    let mut continues = false;
    for (line, content) in (1..).zip(source.lines()) {
        if content.trim_start().starts_with("```") {
            fenced = !fenced;
            continues = false;
        } else if fenced || content.trim().is_empty() {
            continues = false;
        } else if continues && let Some(last) = texts.last_mut() {
            last.content.push('\n');
            last.content.push_str(content);
        } else {
            let content = content.to_owned();
            texts.push(Text {
                line,
                kind: Kind::Prose,
                content,
            });
            continues = true;
        }
    }
    texts
}
