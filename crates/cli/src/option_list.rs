//! Lists of mount options, as `-o` and fstab(5) have them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Splits a list of options at commas. A backslash escapes the following character, such as a comma
/// that is part of an option.
pub(crate) fn split(list: &OsStr) -> Vec<OsString> {
    let mut options = vec![Vec::new()];
    let mut bytes = list.as_bytes().iter().copied();
    while let Some(byte) = bytes.next() {
        let literal = match byte {
            b',' => {
                options.push(Vec::new());
                continue;
            }
            b'\\' => bytes.next().unwrap_or(b'\\'),
            byte => byte,
        };
        if let Some(option) = options.last_mut() {
            option.push(literal);
        }
    }
    options.into_iter().map(OsString::from_vec).collect()
}

/// Returns the value of the first option `key` in a list of options, and the list without this option. Returns `None` if
/// the list does not have the option.
pub(crate) fn without(list: &OsStr, key: &str) -> Option<(OsString, OsString)> {
    let mut options = split(list);
    let value_of = |option: &OsString| {
        let value = option.as_bytes().strip_prefix(key.as_bytes())?;
        value.strip_prefix(b"=").map(<[u8]>::to_vec)
    };
    let values = options.iter().enumerate();
    let mut found = values.filter_map(|(index, option)| Some((index, value_of(option)?)));
    let (index, value) = found.next()?;
    options.remove(index);
    let escaped = options.iter().map(|option| {
        let bytes = option.as_bytes().iter();
        let escape = |byte: &u8| b",\\".contains(byte).then_some(b'\\');
        let bytes = bytes.flat_map(|byte| escape(byte).into_iter().chain([*byte]));
        bytes.collect::<Vec<u8>>()
    });
    let rest = escaped.collect::<Vec<_>>().join(&b',');
    Some((OsString::from_vec(value), OsString::from_vec(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_is_taken_from_a_list() {
        let without = |list: &str| without(list.as_ref(), "url_file");
        let found = |value: &str, rest: &str| Some((value.into(), rest.into()));
        assert_eq!(without("url_file=/a"), found("/a", ""));
        let list = r"ro,fsname=a\,b,url_file=/a\,b,noload";
        assert_eq!(without(list), found("/a,b", r"ro,fsname=a\,b,noload"));
        assert_eq!(without("ro,url_file"), None);
        assert_eq!(without("url_files=x"), None);
    }
}
