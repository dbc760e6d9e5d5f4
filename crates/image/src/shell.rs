//! Words of shell commands in hints.

/// Returns `name` as one word of a shell command that is not an option.
#[must_use]
pub fn quoted(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./+:=@%,-".contains(&byte);
    let prefix = if name.starts_with('-') { "./" } else { "" };
    if name.bytes().all(is_plain) {
        format!("{prefix}{name}")
    } else {
        format!("'{prefix}{}'", name.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    #[test]
    fn names_in_hints_are_words_of_a_shell() {
        for (name, expected) in [
            ("disk.img", "disk.img"),
            ("-a", "./-a"),
            ("a disk", "'a disk'"),
            ("-it's", r"'./-it'\''s'"),
            ("disk.img?offset=512", "'disk.img?offset=512'"),
        ] {
            assert_eq!(quoted(name), expected);
        }
        assert!(
            Format::Gzip
                .hint("disk.img")
                .ends_with("< disk.img > disk.img.raw")
        );
    }
}
