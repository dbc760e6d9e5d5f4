//! Reads lines of untrusted text. Lines are numbered, and truncated to a maximum length.

use std::io::{self, BufRead};

/// Maximum length of a line. Tracing programs print shorter lines.
const LINE_BYTES: usize = 1 << 20;

/// The lines of a text, which are read one after the other into the same buffer.
#[derive(Debug)]
pub(super) struct Lines<R> {
    reader: R,
    buf: Vec<u8>,
    number: u64,
}

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Line number, from 1.
    pub number: u64,
    /// The text without the line terminator.
    pub text: &'a [u8],
    /// Whether the line was longer than the limit and is truncated.
    pub cut: bool,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            buf: Vec::new(),
            number: 0,
        }
    }

    /// Returns the next line; `None` after the last one.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.buf.clear();
        let mut cut = false;
        let mut begun = false;
        loop {
            let available = match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            };
            if available.is_empty() {
                break;
            }
            begun = true;
            let end = available.iter().position(|&byte| byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            let room = (LINE_BYTES - self.buf.len()).min(part.len());
            self.buf.extend_from_slice(&part[..room]);
            cut |= room < part.len();
            let used = part.len() + usize::from(end.is_some());
            self.reader.consume(used);
            if end.is_some() {
                break;
            }
        }
        if !begun {
            return Ok(None);
        }
        self.number += 1;
        let text = self.buf.strip_suffix(b"\r").unwrap_or(&self.buf);
        Ok(Some(Line {
            number: self.number,
            text,
            cut,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_without_terminators() {
        let mut lines = Lines::new(&b"one\r\n\nlast"[..]);
        let mut read = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            read.push((line.number, line.text.to_vec()));
        }
        let expected = [
            (1, b"one".to_vec()),
            (2, b"".to_vec()),
            (3, b"last".to_vec()),
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn line_longer_than_the_limit_is_truncated_and_the_next_is_complete() {
        let mut text = vec![b'x'; LINE_BYTES + 5];
        text.extend_from_slice(b"\nnext\n");
        let mut lines = Lines::new(&*text);
        let long = lines.next().unwrap().unwrap();
        assert!(long.cut);
        assert_eq!(long.text.len(), LINE_BYTES);
        let next = lines.next().unwrap().unwrap();
        assert_eq!((next.number, next.text, next.cut), (2, &b"next"[..], false));
    }
}
