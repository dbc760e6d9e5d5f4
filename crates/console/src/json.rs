//! Writes JSON to standard output.

use crate::Result;
use crate::name::is_unsafe_to_show;
use serde::Serialize;
use std::io::{self, BufWriter, Write};

/// Writes `value` as JSON to standard output, followed by a line break.
pub fn write_json(value: &impl Serialize) -> Result<()> {
    write(|out| serde_json::to_writer_pretty(out, value))
}

/// Writes `value` as one line of JSON to standard output.
pub fn write_json_line(value: &impl Serialize) -> Result<()> {
    write(|out| serde_json::to_writer(out, value))
}

fn write(json: impl FnOnce(&mut dyn Write) -> serde_json::Result<()>) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    json(&mut Escaping(&mut out)).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Escapes the characters in strings of JSON that could change the state of a terminal. `serde_json` escapes only those
/// below U+0020. It never splits a character between two calls of `write`.
#[derive(Debug)]
struct Escaping<W>(W);

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, json: &[u8]) -> io::Result<usize> {
        for chunk in json.utf8_chunks() {
            // A line break that is not in a string ends a line of the JSON.
            let is_escaped = |c: char| c != '\n' && is_unsafe_to_show(c);
            for part in chunk.valid().split_inclusive(is_escaped) {
                let plain = part.strip_suffix(is_escaped).unwrap_or(part);
                self.0.write_all(plain.as_bytes())?;
                for c in part[plain.len()..].chars() {
                    write!(self.0, "\\u{:04x}", u32::from(c))?;
                }
            }
            self.0.write_all(chunk.invalid())?;
        }
        Ok(json.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(value: &impl Serialize) -> String {
        let mut json = Vec::new();
        serde_json::to_writer_pretty(Escaping(&mut json), value).unwrap();
        String::from_utf8(json).unwrap()
    }

    #[test]
    fn names_cannot_change_the_state_of_a_terminal() {
        let name = "a\u{1b}\u{7f}\u{80}\u{9b}31m\u{9f}\u{202e}\u{2028}\u{61c}\u{2069}日本 \"\\b";
        let json = escaped(&[("name", name)]);
        assert!(
            !json.chars().any(|c| c != '\n' && is_unsafe_to_show(c)),
            "{json}"
        );
        assert!(
            json.contains("\\u009b31m\\u009f\\u202e") && json.contains("日本"),
            "{json}"
        );
        let value: Vec<(String, String)> = serde_json::from_str(&json).unwrap();
        assert_eq!(value[0].1, name);
        assert!(json.starts_with("[\n  ["), "{json}");
    }
}
