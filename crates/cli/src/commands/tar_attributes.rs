//! Extended attributes in the headers of pax archives, with the keys of star and GNU tar.
//!
//! An access control list is a text of entries, as in `user::rw-,user:1000:r--,group::r--,mask::r--,other::---`. The other
//! attributes have their names in the keys. A key ends at the first equals sign, so GNU tar encodes `%` and `=` in names.
//!
//! GNU tar writes the names of users and groups in lists, even with `--numeric-owner`, and resolves them on the machine on
//! which the archive is extracted. Larder resolves them, too: in `/etc/passwd` and `/etc/group`, as libraries that are linked
//! statically do.

use std::fmt::Write as _;
use std::fs;

/// The attributes that contain access control lists, and the keys of their records.
const LISTS: [(&str, &str); 2] = [
    ("system.posix_acl_access", "SCHILY.acl.access"),
    ("system.posix_acl_default", "SCHILY.acl.default"),
];
/// The beginning of the keys of other attributes.
const XATTR: &[u8] = b"SCHILY.xattr.";

/// The version of the format of setxattr(2), and the number of an entry without an ID.
const VERSION: u32 = 2;
const NO_ID: u32 = u32::MAX;
/// The numbers of the kinds of entries without and with an ID, and the words for them.
const OWNER: u16 = 0x01;
const KINDS: [(u16, u16, [&str; 2]); 4] = [
    (OWNER, 0x02, ["user", "u"]),
    (0x04, 0x08, ["group", "g"]),
    (0x10, 0x10, ["mask", "m"]),
    (0x20, 0x20, ["other", "o"]),
];
/// The permissions of an entry, and the letters for them.
const PERMISSIONS: [(u16, char); 3] = [(4, 'r'), (2, 'w'), (1, 'x')];

const MALFORMED: &str = "an access control list is malformed";
const UNKNOWN_NAME: &str =
    "an access control list names a user or group that /etc/passwd and /etc/group do not contain";

/// Returns the key of the record of the access control list in the attribute `name`; `None` for other attributes.
pub(super) fn list_key(name: &[u8]) -> Option<&'static str> {
    let mut lists = LISTS.into_iter();
    lists.find_map(|(list, key)| (list.as_bytes() == name).then_some(key))
}

/// Returns the attribute with the access control list of the record `key`; `None` for other records.
pub(super) fn list_of(key: &[u8]) -> Option<&'static [u8]> {
    let mut lists = LISTS.into_iter();
    lists.find_map(|(list, other)| (other.as_bytes() == key).then_some(list.as_bytes()))
}

/// Returns the key of the record of the attribute `name`, which is not an access control list.
pub(super) fn key(name: &[u8]) -> Vec<u8> {
    let mut key = XATTR.to_vec();
    for &byte in name {
        match byte {
            b'%' => key.extend_from_slice(b"%25"),
            b'=' => key.extend_from_slice(b"%3D"),
            _ => key.push(byte),
        }
    }
    key
}

/// Returns the name of the attribute of the record `key`; `None` for other records.
pub(super) fn name_of(key: &[u8]) -> Option<Vec<u8>> {
    let mut rest = key.strip_prefix(XATTR)?;
    let mut name = Vec::with_capacity(rest.len());
    while let Some((&byte, after)) = rest.split_first() {
        let (byte, after) = match after.split_at_checked(2) {
            Some((b"25", after)) if byte == b'%' => (b'%', after),
            Some((b"3D", after)) if byte == b'%' => (b'=', after),
            _ => (byte, after),
        };
        name.push(byte);
        rest = after;
    }
    Some(name)
}

/// Returns the long text form of acl(5) of an access control list, with numbers of users and groups. Returns `None` if
/// `value` is not a list.
pub(super) fn list_text(value: &[u8]) -> Option<String> {
    let (version, entries) = value.split_first_chunk::<4>()?;
    let (entries, rest) = entries.as_chunks::<8>();
    if u32::from_le_bytes(*version) != VERSION || !rest.is_empty() {
        return None;
    }
    let mut text = String::new();
    for entry in entries {
        let tag = u16::from_le_bytes([entry[0], entry[1]]);
        let permissions = u16::from_le_bytes([entry[2], entry[3]]);
        let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        let mut kinds = KINDS.into_iter();
        let (plain, _, [kind, _]) =
            kinds.find(|(plain, named, _)| tag == *plain || tag == *named)?;
        // Writing to a string cannot fail.
        let _ = if tag == plain {
            write!(text, "{kind}::")
        } else {
            write!(text, "{kind}:{id}:")
        };
        for (bit, letter) in PERMISSIONS {
            text.push(if permissions & bit == 0 { '-' } else { letter });
        }
        text.push('\n');
    }
    Some(text)
}

/// Returns the access control list of a text in the format of setxattr(2). The volume checks that the list is complete.
///
/// # Errors
/// If an entry is malformed, or names an unknown user or group.
pub(super) fn list_from_text(text: &[u8]) -> Result<Vec<u8>, &'static str> {
    let text = std::str::from_utf8(text).map_err(|_| MALFORMED)?;
    let mut entries = Vec::new();
    for line in text.split([',', '\n']) {
        let line = line.split('#').next().unwrap_or_default().trim();
        let line = line.strip_prefix("default:").unwrap_or(line);
        if !line.is_empty() {
            entries.push(entry(line)?);
        }
    }
    // The kernel requires this order.
    entries.sort_unstable_by_key(|&(tag, _, id)| (tag, id));
    let mut value = VERSION.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        value.extend_from_slice(&tag.to_le_bytes());
        value.extend_from_slice(&permissions.to_le_bytes());
        value.extend_from_slice(&id.to_le_bytes());
    }
    Ok(value)
}

/// Returns the kind, the permissions and the ID of the entry `line`. Its fields are the kind, the name, the permissions
/// and, in archives of star and bsdtar, the ID.
fn entry(line: &str) -> Result<(u16, u16, u32), &'static str> {
    let mut fields = line.split(':').map(str::trim);
    let mut next = || fields.next().ok_or(MALFORMED);
    let (kind, name, permissions) = (next()?, next()?, next()?);
    let mut kinds = KINDS.into_iter();
    let found = kinds.find(|(_, _, words)| words.contains(&kind));
    let (plain, named, _) = found.ok_or(MALFORMED)?;
    let mut bits = 0;
    for letter in permissions.chars().filter(|&letter| letter != '-') {
        let mut permissions = PERMISSIONS.into_iter();
        let found = permissions.find(|(_, other)| *other == letter);
        bits |= found.ok_or(MALFORMED)?.0;
    }
    if name.is_empty() {
        return Ok((plain, bits, NO_ID));
    }
    let id = fields.next().unwrap_or(name);
    let id = id.parse().ok().or_else(|| {
        let accounts = if plain == OWNER {
            "/etc/passwd"
        } else {
            "/etc/group"
        };
        id_in(&fs::read_to_string(accounts).ok()?, name)
    });
    let id = id.ok_or(UNKNOWN_NAME)?;
    Ok((named, bits, id))
}

/// Returns the number of the user or group `name` in the text of `/etc/passwd` or `/etc/group`.
fn id_in(accounts: &str, name: &str) -> Option<u32> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_testkit::model::acl::Acl;
    use std::collections::BTreeMap;

    #[test]
    fn list_and_its_text_are_converted_in_both_directions() {
        let list = Acl {
            owner: 7,
            users: BTreeMap::from([(7, 6), (1000, 5)]),
            group: 4,
            groups: BTreeMap::from([(70_000, 2)]),
            mask: Some(7),
            other: 0,
        };
        let value = list.encode();
        let text = "user::rwx\nuser:7:rw-\nuser:1000:r-x\ngroup::r--\ngroup:70000:-w-\nmask::rwx\nother::---\n";
        assert_eq!(list_text(&value).as_deref(), Some(text));
        // Without an order, and with the forms of other programs.
        let other = "u:1000:r-x,user::rwx,user:lisa:rw-:7\nm::rwx,default:group::r--\ng:70000:w # note\no::---";
        for text in [text, other] {
            assert_eq!(list_from_text(text.as_bytes()), Ok(value.clone()), "{text}");
        }
        for invalid in [
            &value[..3],
            &value[..7],
            &[1, 0, 0, 0],
            &[2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(list_text(invalid), None, "{invalid:?}");
        }
    }

    #[test]
    fn unknown_names_and_malformed_entries_are_refused() {
        assert_eq!(list_from_text(b"user:no such user:rwx"), Err(UNKNOWN_NAME));
        for text in ["user", "user::rwz", "x::r--", "user:1", "\u{e9}"] {
            assert_eq!(list_from_text(text.as_bytes()), Err(MALFORMED), "{text}");
        }
    }

    #[test]
    fn names_are_resolved() {
        let root = list_from_text(b"user:root:rwx,group:root:r-x");
        assert_eq!(root, list_from_text(b"user:0:rwx,group:0:r-x"));
        let accounts = "root:x:0:0::/:/bin/sh\nlisa:x:1000:100::/:/bin/sh\nlis:x:\n";
        assert_eq!(id_in(accounts, "lisa"), Some(1000));
        for name in ["lis", "x", "", "lisa:x"] {
            assert_eq!(id_in(accounts, name), None, "{name}");
        }
    }

    #[test]
    fn names_are_encoded_in_keys() {
        assert_eq!(key(b"user.a=b%"), b"SCHILY.xattr.user.a%3Db%25");
        for name in [&b"user.a=b%"[..], b"user.%3D", b"user.%%25=", b"user.\xff"] {
            assert_eq!(name_of(&key(name)).as_deref(), Some(name));
        }
        // Names of other programs.
        let other = name_of(b"SCHILY.xattr.user.%2%").unwrap();
        assert_eq!(other, b"user.%2%");
        assert_eq!(name_of(b"SCHILY.acl.access"), None);
        for (list, key) in LISTS {
            assert_eq!(list_key(list.as_bytes()), Some(key));
            assert_eq!(list_of(key.as_bytes()), Some(list.as_bytes()));
        }
    }
}
