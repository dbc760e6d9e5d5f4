//! Formats the types and permissions of files, as in `drwxr-xr-x`, and parses permissions, as in `755`.

use larder::{FileKind, Metadata};

/// Returns the type and permissions as ten characters, in the format of `ls -l`.
pub(crate) fn string(metadata: &Metadata) -> String {
    let bits = metadata.permissions;
    let mut text = String::with_capacity(10);
    text.push(letter(metadata.kind));
    for (shift, special, with_x, without_x) in [
        (6, 0o4000, 's', 'S'),
        (3, 0o2000, 's', 'S'),
        (0, 0o1000, 't', 'T'),
    ] {
        let class = bits >> shift;
        text.push(if class & 4 != 0 { 'r' } else { '-' });
        text.push(if class & 2 != 0 { 'w' } else { '-' });
        text.push(match (class & 1 != 0, bits & special != 0) {
            (true, false) => 'x',
            (false, false) => '-',
            (true, true) => with_x,
            (false, true) => without_x,
        });
    }
    text
}

fn letter(kind: FileKind) -> char {
    match kind {
        FileKind::Regular => '-',
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::CharDevice => 'c',
        FileKind::BlockDevice => 'b',
        FileKind::Fifo => 'p',
        FileKind::Socket => 's',
    }
}

/// Returns the word that JSON uses for a file type.
pub(crate) fn word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "regular",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        FileKind::CharDevice => "char-device",
        FileKind::BlockDevice => "block-device",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
    }
}

/// Returns whether files of type `kind` are devices.
pub(crate) fn is_device(kind: FileKind) -> bool {
    matches!(kind, FileKind::CharDevice | FileKind::BlockDevice)
}

/// Parses octal permissions.
pub(crate) fn parse(text: &str) -> Result<u16, String> {
    match u16::from_str_radix(text, 8) {
        Ok(permissions) if permissions <= 0o7777 => Ok(permissions),
        _ => Err("permissions must be octal, at most 7777, such as 755".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_octal_and_at_most_twelve_bits() {
        assert_eq!(parse("755"), Ok(0o755));
        assert_eq!(parse("7777"), Ok(0o7777));
        for text in ["", "8", "10000", "u+x", "-1"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
