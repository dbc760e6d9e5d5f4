//! The command line of bash: its words, and the quotation of what is inserted. Nothing is expanded: `$HOME` stays as it
//! is.
//!
//! bash can quote file names itself (`compopt -o filenames`). In bash 5.2, it then omits the backslash before `$` and
//! `)` if the word contains `$`. A name such as `$(command)` would run a command.

use std::ffi::OsString;
use std::iter::Peekable;
use std::os::unix::ffi::OsStringExt;

/// A command line, up to the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The words without quotes. The last one, which can be empty, ends at the cursor.
    pub words: Vec<OsString>,
    /// The offset in the last word from which readline replaces it, in bytes.
    replaced_from: usize,
    /// The quotation in which the cursor is.
    quote: Option<Quote>,
}

/// A quotation that is not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quote {
    /// `'text'`
    Single,
    /// `"text"`
    Double,
    /// `$'text'`
    Escaped,
}

impl Line {
    /// Splits `line` into words. readline replaces the text after the last of the characters `breaks` that is not
    /// quoted, or after the quote that is not closed.
    pub(super) fn parse(line: &[u8], breaks: &[u8]) -> Self {
        let mut words = Vec::new();
        let mut word = Vec::new();
        let mut is_in_word = false;
        let mut replaced_from = 0;
        let mut quote = None;
        let mut bytes = line.iter().copied().peekable();
        while let Some(byte) = bytes.next() {
            let was_quoted = quote.is_some();
            match (quote, byte) {
                (None, b' ' | b'\t' | b'\n') => {
                    if is_in_word {
                        words.push(OsString::from_vec(std::mem::take(&mut word)));
                    }
                    is_in_word = false;
                    replaced_from = 0;
                    continue;
                }
                (None, b'\'') => quote = Some(Quote::Single),
                (None, b'"') => quote = Some(Quote::Double),
                (None, b'$') if bytes.next_if_eq(&b'\'').is_some() => quote = Some(Quote::Escaped),
                (Some(Quote::Single | Quote::Escaped), b'\'') | (Some(Quote::Double), b'"') => {
                    quote = None;
                }
                (None, b'\\') => word.extend(bytes.next().filter(|&next| next != b'\n')),
                // In double quotes, a backslash quotes only these characters.
                (Some(Quote::Double), b'\\') => {
                    let quoted = |next: &u8| matches!(next, b'"' | b'\\' | b'$' | b'`');
                    word.push(bytes.next_if(quoted).unwrap_or(byte));
                }
                (Some(Quote::Escaped), b'\\') => word.extend(escaped_byte(&mut bytes)),
                _ => word.push(byte),
            }
            is_in_word = true;
            let is_opened = !was_quoted && quote.is_some();
            let is_break = quote.is_none() && byte != b'\\' && breaks.contains(&byte);
            if is_opened || is_break {
                replaced_from = word.len();
            }
        }
        words.push(OsString::from_vec(word));
        Self {
            words,
            replaced_from,
            quote,
        }
    }

    /// Returns the line with `words`, of a shell that quotes what it inserts.
    pub(super) fn of_words(words: &[OsString]) -> Self {
        Self {
            words: words.to_vec(),
            replaced_from: 0,
            quote: None,
        }
    }

    /// Returns what replaces the part of the last word that readline replaces, if the whole word is to be `word`. The
    /// text is quoted, so that bash takes it literally. Bytes that are not printable are shown as escapes. So are
    /// backquotes: bash 5.2 completes no word after two of them, even if a backslash quotes them.
    pub(super) fn replacement(&self, word: &[u8]) -> Vec<u8> {
        let text = word.get(self.replaced_from..).unwrap_or_default();
        match self.quote {
            None if is_printable(text) && !text.contains(&b'`') => backslashed(text),
            None => [b"$'".as_slice(), &escaped(text), b"'"].concat(),
            Some(Quote::Escaped) => escaped(text),
            Some(Quote::Single) => replaced(text, |byte| match byte {
                b'\'' => Some(br"'\''"),
                _ => None,
            }),
            Some(Quote::Double) => replaced(text, |byte| match byte {
                b'"' => Some(br#"\""#),
                b'\\' => Some(br"\\"),
                b'$' => Some(br"\$"),
                b'`' => Some(br"\`"),
                // A backslash before it would stay.
                b'!' => Some(br#""'!'""#),
                _ => None,
            }),
        }
    }
}

/// Returns the byte after a backslash in `$'text'`. Only the escapes that [`escaped`] writes are known.
fn escaped_byte(bytes: &mut Peekable<impl Iterator<Item = u8>>) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    if bytes.next_if_eq(&b'x').is_none() {
        return bytes.next();
    }
    let high = digit(bytes.next()?)?;
    let low = digit(bytes.next()?)?;
    u8::try_from(16 * high + low).ok()
}

fn is_printable(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| !text.chars().any(crate::name::is_unsafe_to_show))
}

/// Puts a backslash before each character that can have a meaning.
fn backslashed(text: &[u8]) -> Vec<u8> {
    let mut quoted = Vec::with_capacity(text.len());
    for &byte in text {
        let is_plain =
            !byte.is_ascii() || byte.is_ascii_alphanumeric() || b"/._-+,=:@%".contains(&byte);
        if !is_plain {
            quoted.push(b'\\');
        }
        quoted.push(byte);
    }
    quoted
}

/// Returns the text between the quotes of `$'text'`.
fn escaped(text: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(text.len());
    for &byte in text {
        if (byte.is_ascii_graphic() || byte == b' ') && !b"'\\!`".contains(&byte) {
            escaped.push(byte);
        } else {
            escaped.extend(format!("\\x{byte:02x}").into_bytes());
        }
    }
    escaped
}

/// Replaces the bytes for which `other` returns a text.
fn replaced(text: &[u8], other: impl Fn(u8) -> Option<&'static [u8]>) -> Vec<u8> {
    let mut replaced = Vec::with_capacity(text.len());
    for &byte in text {
        match other(byte) {
            Some(other) => replaced.extend_from_slice(other),
            None => replaced.push(byte),
        }
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    const BREAKS: &[u8] = b" \t\n\"'@><=;|&(:";

    fn parsed(line: &str) -> Line {
        Line::parse(line.as_bytes(), BREAKS)
    }

    #[test]
    fn words_have_no_quotes_and_are_replaced_after_the_last_break() {
        for (line, words, replaced_from) in [
            ("larder ", &["larder", ""] as &[&str], 0),
            ("larder  ls", &["larder", "ls"], 0),
            ("l --log=/a", &["l", "--log=/a"], 6),
            ("l d.img:/a", &["l", "d.img:/a"], 6),
            (r"l a\ d.img:/a\:\ b", &["l", "a d.img:/a: b"], 8),
            ("l 'a b:/c", &["l", "a b:/c"], 0),
            ("l 'a b'/c", &["l", "a b/c"], 3),
            ("l d:'/a b", &["l", "d:/a b"], 2),
            (r#"l "a\"\$x\y"#, &["l", r#"a"$x\y"#], 0),
            ("l '' b", &["l", "", "b"], 0),
            (r"l a\", &["l", "a"], 0),
            ("l $(x) $HOME", &["l", "$(x)", "$HOME"], 0),
            (r"l $'a\x0ab\'c'/d", &["l", "a\nb'c/d"], 5),
            ("", &[""], 0),
        ] {
            let line = parsed(line);
            assert_eq!(line.words, words);
            assert_eq!(line.replaced_from, replaced_from, "{words:?}");
        }
    }

    #[test]
    fn replacement_is_quoted_for_the_quotation_at_the_cursor() {
        let name = b"/a $(b)'\"\\!~";
        for (line, expected) in [
            ("l /", r#"/a\ \$\(b\)\'\"\\\!\~"#),
            ("l '/", r#"/a $(b)'\''"\!~"#),
            ("l \"/", r#"/a \$(b)'\"\\"'!'"~"#),
            ("l $'/", r#"/a $(b)\x27"\x5c\x21~"#),
        ] {
            let replacement = parsed(line).replacement(name);
            assert_eq!(String::from_utf8(replacement).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn bytes_that_are_not_printable_are_escaped() {
        let line = parsed("l d:/");
        for (name, expected) in [
            (b"d:/a\nb".as_slice(), r"$'/a\x0ab'"),
            (b"d:/\x1b[31m", r"$'/\x1b[31m'"),
            (b"d:/\xff", r"$'/\xff'"),
            (b"d:/`", r"$'/\x60'"),
            ("d:/\u{e9}".as_bytes(), "/\u{e9}"),
        ] {
            let replacement = line.replacement(name);
            assert_eq!(String::from_utf8(replacement).unwrap(), expected);
        }
    }

    /// Every quoted text is parsed to itself again.
    #[test]
    fn replacement_is_parsed_to_the_same_word() {
        let all: Vec<u8> = (1..=255).collect();
        for (start, end) in [("", ""), ("'", "'"), ("\"", "\""), ("$'", "'")] {
            let line = parsed(&format!("l {start}"));
            let whole = [
                b"l ".as_slice(),
                start.as_bytes(),
                &line.replacement(&all),
                end.as_bytes(),
            ];
            let again = Line::parse(&whole.concat(), BREAKS);
            assert_eq!(again.words.len(), 2, "{start}");
            assert_eq!(again.words[1].as_bytes(), all, "{start}");
        }
    }
}
