//! One line of strace's output.

use super::argument;
use super::call::{Call, Descriptor, Outcome, PathArgument, Start};
use super::signature::{self, Role};
use super::timestamp::Timestamp;

/// The parts of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    pub pid: u32,
    pub timestamp: Option<Timestamp>,
    pub what: What<'a>,
}

/// The content of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum What<'a> {
    /// A complete call, from its name to its end.
    Call(&'a [u8]),
    /// The beginning of a call that is interrupted by lines of other threads.
    Unfinished(&'a [u8]),
    /// The end of an interrupted call.
    Resumed(&'a [u8]),
    /// The end of a thread.
    Exit,
    Signal,
}

/// Splits a line into its parts.
pub(super) fn parts(line: &[u8]) -> Option<Parts<'_>> {
    let mut rest = line.trim_ascii();
    let mut pid = 0;
    if let Some(after) = rest.strip_prefix(b"[pid") {
        let end = after.iter().position(|&byte| byte == b']')?;
        pid = parse(&after[..end])?;
        rest = after[end + 1..].trim_ascii_start();
    } else if let Some((number, after)) = word(rest)
        && let Some(number) = parse(number)
    {
        pid = number;
        rest = after;
    }
    let mut timestamp = None;
    if let Some((text, after)) = word(rest)
        && let Some(parsed) = Timestamp::parse(text)
    {
        timestamp = Some(parsed);
        rest = after;
    }
    Some(Parts {
        pid,
        timestamp,
        what: what(rest)?,
    })
}

fn what(text: &[u8]) -> Option<What<'_>> {
    if text.starts_with(b"+++") {
        return Some(What::Exit);
    }
    if text.starts_with(b"---") {
        return Some(What::Signal);
    }
    if let Some(resumed) = text.strip_prefix(b"<... ") {
        let end = find(resumed, b" resumed>")?;
        return Some(What::Resumed(&resumed[end + b" resumed>".len()..]));
    }
    if let Some(started) = text.strip_suffix(b"<unfinished ...>") {
        return Some(What::Unfinished(started));
    }
    text.contains(&b'(').then_some(What::Call(text))
}

/// Parses `name(arguments) = result`. The fields that depend on the line and on other lines (line
/// number, time, thread and origin) are not filled in.
pub(super) fn call(text: &[u8]) -> Option<Call> {
    let open = text.iter().position(|&byte| byte == b'(')?;
    let name = &text[..open];
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    if name.is_empty() || !name.iter().all(is_name) {
        return None;
    }
    let (arguments, after) = argument::split(&text[open + 1..])?;
    let mut call = Call {
        line: 0,
        time_ns: 0,
        pid: 0,
        origin: None,
        name: String::from_utf8_lossy(name).into(),
        paths: Vec::new(),
        fd: None,
        offset: None,
        length: None,
        flags: Box::default(),
        result: outcome(after)?,
    };
    let mut at = Start::WorkingDirectory(None);
    for (role, argument) in signature::of(name).iter().zip(arguments) {
        match role {
            Role::At => at = start(argument)?,
            Role::Path => {
                let at = std::mem::replace(&mut at, Start::WorkingDirectory(None));
                // A path that is not a string is an invalid address, or NULL for `at` itself.
                let path = argument::string(argument).unwrap_or_default();
                call.paths.push(PathArgument { at, path });
            }
            Role::Fd => call.fd = descriptor(argument),
            Role::Length => call.length = unsigned(argument),
            Role::Offset => call.offset = unsigned(argument),
            Role::Flags => {
                let all = [&*call.flags, &*String::from_utf8_lossy(argument)].join(" ");
                call.flags = all.trim_start().into();
            }
            Role::Other => {}
        }
    }
    Some(call)
}

fn start(text: &[u8]) -> Option<Start> {
    match text.strip_prefix(b"AT_FDCWD") {
        Some(annotation) => Some(Start::WorkingDirectory(argument::annotation(annotation))),
        None => descriptor(text).map(Start::Descriptor),
    }
}

fn descriptor(text: &[u8]) -> Option<Descriptor> {
    let (number, path) = argument::descriptor(text)?;
    (number >= 0).then_some(Descriptor { number, path })
}

fn unsigned(text: &[u8]) -> Option<u64> {
    u64::try_from(argument::number(text)?).ok()
}

/// Parses the text after the arguments: ` = 3</etc/passwd>`, ` = -1 ENOENT (No such …)`, ` = ?`.
fn outcome(text: &[u8]) -> Option<Outcome> {
    let text = text
        .trim_ascii_start()
        .strip_prefix(b"=")?
        .trim_ascii_start();
    let (first, rest) = word(text).unwrap_or((text, b""));
    if first.starts_with(b"?") {
        return Some(Outcome::Unknown);
    }
    if first == b"-1"
        && let Some((error, _)) = word(rest).or(Some((rest, b"")))
        && error.starts_with(b"E")
    {
        return Some(Outcome::Failed(String::from_utf8_lossy(error).into()));
    }
    let digits = text.iter().position(|&byte| matches!(byte, b' ' | b'<'));
    let (number, annotation) = text.split_at(digits.unwrap_or(text.len()));
    let path = argument::annotation(annotation);
    Some(Outcome::Returned(argument::number(number)?, path))
}

/// Splits the text at the first space.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|&byte| byte == b' ')?;
    Some((&text[..end], text[end..].trim_ascii_start()))
}

fn parse(text: &[u8]) -> Option<u32> {
    str::from_utf8(text.trim_ascii()).ok()?.parse().ok()
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_has_its_path_flags_and_result() {
        let parsed =
            call(br#"openat(7</srv>, "a\tb", O_RDWR|O_CREAT, 0666) = 9</srv/a\tb>"#).unwrap();
        let srv = Descriptor {
            number: 7,
            path: Some(b"/srv".to_vec()),
        };
        let expected = [PathArgument {
            at: Start::Descriptor(srv),
            path: b"a\tb".to_vec(),
        }];
        assert_eq!(parsed.paths, expected);
        assert_eq!(&*parsed.flags, "O_RDWR|O_CREAT");
        assert_eq!(
            parsed.result,
            Outcome::Returned(9, Some(b"/srv/a\tb".to_vec()))
        );
    }

    #[test]
    fn call_has_its_offset_and_length() {
        let parsed = call(br#"pread64(3, "x"..., 784, 64) = 784 <0.000010>"#).unwrap();
        assert_eq!((parsed.offset, parsed.length), (Some(64), Some(784)));
        assert_eq!(parsed.result, Outcome::Returned(784, None));
        let mapped =
            call(b"mmap(NULL, 100, PROT_READ, MAP_PRIVATE, 3, 0x1000) = 0xffffffff7fd7a000");
        let mapped = mapped.unwrap();
        assert_eq!((mapped.fd.unwrap().number, mapped.offset), (3, Some(4096)));
    }

    #[test]
    fn result_is_a_number_an_error_or_unknown() {
        let result = |text: &[u8]| call(text).map(|call| call.result);
        let failed = Outcome::Failed("ENOENT".into());
        assert_eq!(
            result(b"access(\"/x\", R_OK)  = -1 ENOENT (No such file)"),
            Some(failed)
        );
        assert_eq!(result(b"exit_group(0)     = ?"), Some(Outcome::Unknown));
        assert_eq!(
            result(b"read(3, 0x7ff, 1) = ? ERESTARTSYS (x)"),
            Some(Outcome::Unknown)
        );
        assert_eq!(
            result(b"lseek(3, 0, SEEK_END) = 12"),
            Some(Outcome::Returned(12, None))
        );
        assert_eq!(result(b"getpid() 7"), None);
        assert_eq!(result(b"(1) = 7"), None);
    }

    #[test]
    fn pid_and_timestamp_are_optional() {
        let head =
            |line: &'static str| parts(line.as_bytes()).map(|parts| (parts.pid, parts.timestamp));
        let second = Some(Timestamp::Seconds(1_500_000_000));
        assert_eq!(head("7 1.5 getpid() = 7"), Some((7, second)));
        assert_eq!(head("7      1.5 getpid() = 7"), Some((7, second)));
        assert_eq!(head("[pid    7] 1.5 getpid() = 7"), Some((7, second)));
        assert_eq!(head("1.5 getpid() = 7"), Some((0, second)));
        assert_eq!(head("getpid() = 7"), Some((0, None)));
        assert_eq!(head("strace: Process 7 attached"), None);
    }
}
