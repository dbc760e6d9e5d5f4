//! Prints names from an image. A name can contain any bytes, including bytes that would change the state of
//! a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

/// Returns the name with escapes, as `ls -b` prints it: `\\` for a backslash, and sequences such as `\n` or
/// `\033` for bytes that are not printable.
#[must_use]
pub fn escaped(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                '\r' => text.push_str("\\r"),
                c if is_unsafe_to_show(c) => {
                    let mut bytes = [0; 4];
                    escape_bytes(&mut text, c.encode_utf8(&mut bytes).as_bytes());
                }
                c => text.push(c),
            }
        }
        escape_bytes(&mut text, chunk.invalid());
    }
    text
}

/// The start of a further line of a message: such a line is indented, so that a name with a line break cannot look like
/// another message.
const NEXT_LINE: &str = "\n  ";

/// Returns a message in which the characters that could change the state of a terminal are escaped. The names in a message
/// should already be [`escaped`]; a backslash is therefore not escaped again. A message can have further lines, which are
/// indented by two spaces.
pub(crate) fn printable(message: &str) -> Cow<'_, str> {
    if !message.chars().any(is_unsafe_to_show) {
        return Cow::Borrowed(message);
    }
    let escaped_line = |line: &str| {
        let parts = line.split('\\').map(|part| escaped(part.as_bytes()));
        parts.collect::<Vec<_>>().join("\\")
    };
    let lines: Vec<_> = message.split(NEXT_LINE).map(escaped_line).collect();
    Cow::Owned(lines.join(NEXT_LINE))
}

/// Returns whether `c` is a control character, ends a line, or changes the direction of the text after it.
pub(crate) fn is_unsafe_to_show(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

fn escape_bytes(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "\\{byte:03o}");
    }
}

/// The format of names on standard output.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    is_terminal: bool,
}

impl Names {
    /// Returns the format for standard output: names are escaped if it is a terminal, and otherwise written
    /// unchanged.
    #[must_use]
    pub fn for_stdout() -> Self {
        Self {
            is_terminal: io::stdout().is_terminal(),
        }
    }

    /// Writes one name to `out` in this format.
    pub fn write(self, out: &mut impl Write, name: &[u8]) -> io::Result<()> {
        if self.is_terminal {
            out.write_all(escaped(name).as_bytes())
        } else {
            out.write_all(name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_are_unchanged() {
        for name in ["hello.txt", "två ord", "日本語", "a'b\"c"] {
            assert_eq!(escaped(name.as_bytes()), name);
        }
    }

    #[test]
    fn non_utf8_bytes_are_escaped() {
        assert_eq!(escaped(b"a\xffb"), "a\\377b");
        assert_eq!(escaped(b"\x1b[31m"), "\\033[31m");
        assert_eq!(escaped(b"a\nb\\c"), "a\\nb\\\\c");
        assert_eq!(escaped("a\u{202e}b".as_bytes()), "a\\342\\200\\256b");
        assert_eq!(
            escaped("\u{2028}\u{61c}".as_bytes()),
            "\\342\\200\\250\\330\\234"
        );
    }

    #[test]
    fn message_is_escaped_once() {
        let message = "cannot read a\\nb: no such file";
        assert_eq!(printable(message), message);
        assert_eq!(
            printable("a\\nb\n\u{1b}[31m\u{202e}"),
            "a\\nb\\n\\033[31m\\342\\200\\256"
        );
        let lines = "unknown:\n  table";
        assert_eq!(printable(lines), lines);
    }
}
