//! The rules by which a copy into an image differs from its source.

use crate::access_list;
use std::borrow::Cow;
use std::fmt::Debug;

/// Chooses the owners of copies, and the files that are not copied. By default, each file is copied with its owner.
pub trait Rules: Debug {
    /// Returns the user and the group of the copy of a file that belongs to `uid` and `gid`.
    fn owner(&self, uid: u32, gid: u32) -> (u32, u32) {
        (uid, gid)
    }

    /// Returns the user that replaces `uid` in the access control lists of copies.
    fn user(&self, uid: u32) -> u32 {
        uid
    }

    /// Returns the group that replaces `gid` in the access control lists of copies.
    fn group(&self, gid: u32) -> u32 {
        gid
    }

    /// Returns whether files with this name are left out. A directory is left out with everything in it.
    fn excludes(&self, _name: &[u8]) -> bool {
        false
    }
}

/// Returns the value of the attribute `name` of a copy: that of the source, with the users and groups of an access control
/// list replaced by `rules`.
pub fn attribute_value<'a>(rules: &dyn Rules, name: &[u8], value: &'a [u8]) -> Cow<'a, [u8]> {
    const USER: u16 = 0x02;
    const GROUP: u16 = 0x08;
    if !access_list::is_list(name) {
        return Cow::Borrowed(value);
    }
    let mut value = value.to_vec();
    // The entries follow the version. Each has a kind, permissions and an ID.
    let (entries, _) = value.get_mut(4..).unwrap_or_default().as_chunks_mut::<8>();
    for entry in entries {
        let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        let id = match u16::from_le_bytes([entry[0], entry[1]]) {
            USER => rules.user(id),
            GROUP => rules.group(id),
            _ => continue,
        };
        entry[4..].copy_from_slice(&id.to_le_bytes());
    }
    Cow::Owned(value)
}

/// The rules of a copy that keeps all files and owners.
#[derive(Debug)]
pub(super) struct KeepAll;

impl Rules for KeepAll {}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Add;

    impl Rules for Add {
        fn user(&self, uid: u32) -> u32 {
            uid + 1
        }

        fn group(&self, gid: u32) -> u32 {
            gid + 2
        }
    }

    #[test]
    fn only_named_users_and_groups_of_lists_are_replaced() {
        let entries = |owner: u8, user: u8, group: u8| {
            [
                &[2, 0, 0, 0][..],
                &[1, 0, 7, 0, owner, 0, 0, 0],
                &[2, 0, 7, 0, user, 0, 0, 0],
                &[8, 0, 7, 0, group, 0, 0, 0],
            ]
            .concat()
        };
        let list = access_list::ACCESS.as_bytes();
        let value = entries(9, 1, 1);
        assert_eq!(*attribute_value(&Add, list, &value), *entries(9, 2, 3));
        assert_eq!(*attribute_value(&Add, b"user.note", &value), *value);
        for len in [0, 3, 4, 11] {
            let short = value.get(..len).unwrap_or_default();
            assert_eq!(*attribute_value(&Add, list, short), *short);
        }
    }
}
