//! Patterns for the names of files, as in glob(7): `*`, `?` and `[...]`.
//!
//! A pattern matches characters. A byte that is not part of a UTF-8 character counts as one character.
//!
//! Cost: a match takes at most the product of the lengths of the pattern and the name.

/// Codes from this number on stand for single bytes; smaller codes are characters.
const FIRST_BYTE: u32 = 0x11_0000;

/// A pattern for one name.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(Vec<Token>);

#[derive(Clone, Debug)]
enum Token {
    /// `*`: any number of characters.
    Any,
    /// `?`: one character.
    One,
    /// `[...]`: one of these characters.
    Set(Set),
    /// This character.
    Literal(u32),
}

#[derive(Clone, Debug)]
struct Set {
    is_negated: bool,
    ranges: Vec<(u32, u32)>,
    classes: Vec<fn(char) -> bool>,
}

/// Returns whether `text` contains characters that make it a pattern.
pub(crate) fn is_pattern(text: &[u8]) -> bool {
    text.iter().any(|byte| b"*?[".contains(byte))
}

impl Pattern {
    /// Parses a pattern. A backslash removes the meaning of the following character. A bracket that is not closed is an
    /// ordinary character.
    pub(crate) fn new(text: &[u8]) -> Self {
        let codes: Vec<u32> = codes(text).collect();
        let mut tokens = Vec::new();
        let mut rest = codes.as_slice();
        while let Some((&code, after)) = rest.split_first() {
            rest = after;
            tokens.push(match char::from_u32(code) {
                Some('*') => Token::Any,
                Some('?') => Token::One,
                Some('[') => match Set::parse(rest) {
                    Some((set, after)) => {
                        rest = after;
                        Token::Set(set)
                    }
                    None => Token::Literal(code),
                },
                Some('\\') => Token::Literal(escaped(&mut rest)),
                _ => Token::Literal(code),
            });
        }
        Self(tokens)
    }

    /// Returns whether the whole of `name` matches.
    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        let name: Vec<u32> = codes(name).collect();
        let (mut token, mut at) = (0, 0);
        // The token after the last `*`, and the end of what this `*` matches at present.
        let mut last_any = None;
        loop {
            match (self.0.get(token), name.get(at)) {
                (None, None) => return true,
                (Some(Token::Any), _) => {
                    token += 1;
                    last_any = Some((token, at));
                    continue;
                }
                (Some(one), Some(&code)) if one.matches(code) => {
                    token += 1;
                    at += 1;
                    continue;
                }
                _ => {}
            }
            // The last `*` must match one character more.
            match last_any {
                Some((after, end)) if end < name.len() => {
                    (token, at) = (after, end + 1);
                    last_any = Some((after, at));
                }
                _ => return false,
            }
        }
    }

    /// Returns whether `name` matches, as the name of a file in the expansion of a path: a leading dot only matches a dot
    /// in the pattern, and `.` and `..` do not match.
    pub(crate) fn matches_file(&self, name: &[u8]) -> bool {
        let begins_with_dot =
            || matches!(self.0.first(), Some(Token::Literal(code)) if *code == u32::from('.'));
        match name {
            b"." | b".." => false,
            [b'.', ..] if !begins_with_dot() => false,
            _ => self.matches(name),
        }
    }
}

impl Token {
    /// Returns whether one character matches.
    fn matches(&self, code: u32) -> bool {
        match self {
            Self::Any | Self::One => true,
            Self::Set(set) => set.matches(code),
            Self::Literal(literal) => *literal == code,
        }
    }
}

impl Set {
    /// Parses the text after an opening bracket. Returns the set and the text after it, or `None` if the bracket is not
    /// closed.
    fn parse(codes: &[u32]) -> Option<(Self, &[u32])> {
        let mut set = Self {
            is_negated: false,
            ranges: Vec::new(),
            classes: Vec::new(),
        };
        let mut rest = codes;
        if let Some((&first, after)) = rest.split_first()
            && (first == u32::from('!') || first == u32::from('^'))
        {
            set.is_negated = true;
            rest = after;
        }
        let mut is_first = true;
        loop {
            let (&code, after) = rest.split_first()?;
            rest = after;
            match char::from_u32(code) {
                Some(']') if !is_first => return Some((set, rest)),
                Some('[') if rest.first() == Some(&u32::from(':')) => {
                    let (class, after) = class(&rest[1..])?;
                    set.classes.push(class);
                    rest = after;
                }
                _ => {
                    let first = if code == u32::from('\\') {
                        escaped(&mut rest)
                    } else {
                        code
                    };
                    set.ranges.push((first, end_of_range(&mut rest, first)));
                }
            }
            is_first = false;
        }
    }

    fn matches(&self, code: u32) -> bool {
        let is_in_range = |&(first, last): &(u32, u32)| (first..=last).contains(&code);
        let is_of_class = |class: &fn(char) -> bool| char::from_u32(code).is_some_and(class);
        let is_member = self.ranges.iter().any(is_in_range) || self.classes.iter().any(is_of_class);
        is_member != self.is_negated
    }
}

/// Returns the last character of the range that begins with `first`, and removes it from `rest`. Without a hyphen, this is
/// `first` itself.
fn end_of_range(rest: &mut &[u32], first: u32) -> u32 {
    let codes = *rest;
    match codes {
        [hyphen, last, after @ ..] if *hyphen == u32::from('-') && *last != u32::from(']') => {
            *rest = after;
            if *last == u32::from('\\') {
                escaped(rest)
            } else {
                *last
            }
        }
        _ => first,
    }
}

/// Returns whether a character is in a class.
type IsInClass = fn(char) -> bool;

/// Returns the class that begins after `[:`, and the text after `:]`. Returns `None` if there is no such class.
fn class(codes: &[u32]) -> Option<(IsInClass, &[u32])> {
    let end = codes
        .windows(2)
        .position(|pair| pair == [u32::from(':'), u32::from(']')])?;
    let name: String = codes[..end]
        .iter()
        .filter_map(|&code| char::from_u32(code))
        .collect();
    let class: fn(char) -> bool = match name.as_str() {
        "alnum" => char::is_alphanumeric,
        "alpha" => char::is_alphabetic,
        "blank" => |c| c == ' ' || c == '\t',
        "cntrl" => char::is_control,
        "digit" => |c| c.is_ascii_digit(),
        "graph" => |c| !c.is_control() && !c.is_whitespace(),
        "lower" => char::is_lowercase,
        "print" => |c| !c.is_control(),
        "punct" => |c| c.is_ascii_punctuation(),
        "space" => char::is_whitespace,
        "upper" => char::is_uppercase,
        "xdigit" => |c| c.is_ascii_hexdigit(),
        _ => return None,
    };
    Some((class, &codes[end + 2..]))
}

/// Returns the character after a backslash, and removes it from `rest`. A backslash at the end stands for itself.
fn escaped(rest: &mut &[u32]) -> u32 {
    match rest.split_first() {
        Some((&code, after)) => {
            *rest = after;
            code
        }
        None => u32::from('\\'),
    }
}

/// Returns the codes of the characters in `text`.
fn codes(text: &[u8]) -> impl Iterator<Item = u32> {
    text.utf8_chunks().flat_map(|chunk| {
        let characters = chunk.valid().chars().map(u32::from);
        let bytes = chunk.invalid().iter();
        characters.chain(bytes.map(|&byte| FIRST_BYTE + u32::from(byte)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &[u8], matching: &[&[u8]], others: &[&[u8]]) {
        let parsed = Pattern::new(pattern);
        let shown = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        for name in matching {
            assert!(parsed.matches(name), "{} {}", shown(pattern), shown(name));
        }
        for name in others {
            assert!(!parsed.matches(name), "{} {}", shown(pattern), shown(name));
        }
    }

    #[test]
    fn stars_and_question_marks_match_characters() {
        check(b"*.txt", &[b"a.txt", b".txt"], &[b"a.txt2", b"txt"]);
        check(b"a*b*c", &[b"abc", b"aXbXbXc"], &[b"abcd", b"acb"]);
        check(
            b"a?c",
            &[b"abc", "a\u{e9}c".as_bytes(), b"a\xffc"],
            &[b"ac", b"abbc"],
        );
        check(b"**", &[b"", b"x"], &[]);
        check(b"", &[b""], &[b"x"]);
    }

    #[test]
    fn brackets_match_one_of_their_characters() {
        check(b"[abc]x", &[b"ax", b"cx"], &[b"dx", b"x"]);
        check(b"[a-c]", &[b"b"], &[b"d", b"-"]);
        check(b"[!a-c]", &[b"d", b"\xff"], &[b"a"]);
        check(b"[^a-c]", &[b"d"], &[b"b"]);
        check(b"[]x]", &[b"]", b"x"], &[b"[]x]"]);
        check(b"[a-]", &[b"a", b"-"], &[b"b"]);
        check(b"[[:digit:]_]", &[b"7", b"_"], &[b"a", b":"]);
        check(b"[![:alpha:]]", &[b"7"], &[b"a"]);
        check(
            "[\u{e0}-\u{ff}]".as_bytes(),
            &["\u{e9}".as_bytes()],
            &[b"e"],
        );
    }

    #[test]
    fn brackets_that_are_not_closed_are_ordinary_characters() {
        check(b"[a", &[b"[a"], &[b"a"]);
        check(b"a[", &[b"a["], &[b"a"]);
        check(b"[[:unknown:]]", &[b"[:]"], &[b"a]"]);
    }

    #[test]
    fn backslash_removes_the_meaning_of_a_character() {
        check(br"\*", &[b"*"], &[b"x", br"\*"]);
        check(br"[\]a]", &[b"]", b"a"], &[br"\"]);
        check(br"a\", &[br"a\"], &[b"a"]);
    }

    #[test]
    fn leading_dot_is_matched_explicitly_in_paths() {
        for (pattern, name, is_match) in [
            ("*", "a", true),
            ("*", ".a", false),
            ("?a", ".a", false),
            ("[.]a", ".a", false),
            (".*", ".a", true),
            (".*", ".", false),
            (".*", "..", false),
            (".?", "..", false),
            (r"\.a", ".a", true),
        ] {
            let matches = Pattern::new(pattern.as_bytes()).matches_file(name.as_bytes());
            assert_eq!(matches, is_match, "{pattern} {name}");
        }
    }

    /// A search that returns to each of the stars, and not only to the last one, takes exponential time.
    #[test]
    fn match_with_many_stars_ends() {
        let pattern = Pattern::new(&b"*a".repeat(100));
        assert!(pattern.matches(&[b'a'; 255]));
        let name = [&[b'a'; 254], b"b".as_slice()].concat();
        assert!(!pattern.matches(&name));
    }
}
