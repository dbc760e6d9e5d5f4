//! The text of a call's arguments: splits it at commas, and parses the few relevant forms.

/// Larger than the number of arguments of any call.
const ARGUMENTS: usize = 32;

/// Splits the text after a call's opening parenthesis into its arguments and the rest after the
/// closing parenthesis. Returns `None` if that parenthesis is missing, or if the text is malformed.
pub(super) fn split(text: &[u8]) -> Option<(Vec<&[u8]>, &[u8])> {
    let mut arguments = Vec::new();
    let (mut start, mut at, mut depth) = (0, 0, 0_u32);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => at += string_length(&text[at..])?,
            b'<' if annotates(text, at) => at += text[at..].iter().position(|&b| b == b'>')?,
            b'/' if text[at..].starts_with(b"/*") => {
                at += 2 + text[at + 2..].windows(2).position(|pair| pair == b"*/")? + 1;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                let last = text[start..at].trim_ascii();
                if !(arguments.is_empty() && last.is_empty()) {
                    arguments.push(last);
                }
                return Some((arguments, &text[at + 1..]));
            }
            b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                arguments.push(text[start..at].trim_ascii());
                start = at + 1;
                if arguments.len() > ARGUMENTS {
                    return None;
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the offset of a string's closing quote from its opening quote.
fn string_length(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Returns whether the `<` at `at` begins the path that `-y` prints after a descriptor, and is not
/// part of a shift.
fn annotates(text: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| text[before]);
    before.is_some_and(|before| before.is_ascii_digit() || before == b'D')
        && text.get(at + 1) != Some(&b'<')
}

/// Parses a string and returns its bytes; `None` if it is not a string, or was truncated
/// (`"abc"...`).
pub(super) fn string(text: &[u8]) -> Option<Vec<u8>> {
    if text.first() != Some(&b'"') {
        return None;
    }
    let end = string_length(text)?;
    (end + 1 == text.len()).then(|| unescaped(&text[1..end]))
}

/// Parses a descriptor, with the path that `-y` prints.
pub(super) fn descriptor(text: &[u8]) -> Option<(i32, Option<Vec<u8>>)> {
    let digits = text.iter().position(|&byte| byte == b'<');
    let number = &text[..digits.unwrap_or(text.len())];
    let path = annotation(&text[number.len()..]);
    let number = str::from_utf8(number).ok()?.parse().ok()?;
    Some((number, path))
}

/// Parses the path in `</path>`; `None` for a socket, a pipe, or an empty text.
pub(super) fn annotation(text: &[u8]) -> Option<Vec<u8>> {
    let path = text.strip_prefix(b"<")?;
    let end = path.iter().position(|&byte| byte == b'>')?;
    path.starts_with(b"/").then(|| unescaped(&path[..end]))
}

/// Parses a number: decimal, or hexadecimal after `0x`.
pub(super) fn number(text: &[u8]) -> Option<i64> {
    let text = str::from_utf8(text).ok()?;
    match text.strip_prefix("0x") {
        // Addresses use all 64 bits.
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(u64::cast_signed),
        None => text.parse().ok(),
    }
}

/// Resolves C's escapes: letters, up to three octal digits, or two hexadecimal ones.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let Some((&escape, after)) = rest.split_first() else {
            break;
        };
        let digits = match escape {
            b'0'..=b'7' => digits(rest, 3, 8),
            b'x' => digits(after, 2, 16),
            _ => None,
        };
        let (byte, after) = digits.unwrap_or((control(escape), after));
        bytes.push(byte);
        rest = after;
    }
    bytes
}

/// Parses a byte of at most `most` digits, and returns it with the rest of the text.
fn digits(text: &[u8], most: usize, radix: u32) -> Option<(u8, &[u8])> {
    let is_digit = |byte: &&u8| char::from(**byte).is_digit(radix);
    let count = text.iter().take(most).take_while(is_digit).count();
    let (digits, after) = text.split_at(count);
    let value = u32::from_str_radix(str::from_utf8(digits).ok()?, radix).ok()?;
    Some((u8::try_from(value).ok()?, after))
}

/// Returns the character for a letter after a backslash.
fn control(escape: u8) -> u8 {
    match escape {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'v' => 0x0b,
        b'f' => 0x0c,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_not_split_at_nested_commas() {
        let text =
            br#"3</a,b>, "x,\"y)", {st_mode=S_IFREG, size=1}, [1, 2], f(1, 2), 0 /* a, b */) = 0"#;
        let (arguments, rest) = split(text).unwrap();
        let expected: [&[u8]; 6] = [
            b"3</a,b>",
            br#""x,\"y)""#,
            b"{st_mode=S_IFREG, size=1}",
            b"[1, 2]",
            b"f(1, 2)",
            b"0 /* a, b */",
        ];
        assert_eq!(arguments, expected);
        assert_eq!(rest, b" = 0");
        assert_eq!(split(b") = 7"), Some((vec![], &b" = 7"[..])));
    }

    #[test]
    fn shift_operator_is_not_an_annotation() {
        assert_eq!(
            split(b"1<<12, 2)"),
            Some((vec![&b"1<<12"[..], b"2"], &b""[..]))
        );
    }

    #[test]
    fn unterminated_arguments_are_rejected() {
        for text in [&b"1, 2"[..], b"\"abc", b"}", b"/* )", b"3</a )", b"\"\\"] {
            assert_eq!(split(text), None, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn strings_are_unescaped_and_truncated_strings_are_rejected() {
        assert_eq!(
            string(br#""a\n\"\\\0013\x2f\377""#).unwrap(),
            b"a\n\"\\\x013/\xff"
        );
        assert_eq!(string(br#""abc"..."#), None);
        assert_eq!(string(b"NULL"), None);
    }

    #[test]
    fn descriptor_has_the_path_printed_after_it() {
        let path = Some(b"/a b".to_vec());
        assert_eq!(descriptor(br"3</a\40b>"), Some((3, path)));
        assert_eq!(descriptor(b"4<TCP:[1->2]>"), Some((4, None)));
        assert_eq!(descriptor(b"-1"), Some((-1, None)));
        assert_eq!(descriptor(b"AT_FDCWD"), None);
    }
}
