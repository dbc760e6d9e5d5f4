//! POSIX access control lists: from the form on disk to the form of `getxattr(2)`.
//!
//! Both are a version and a row of entries, all numbers little endian. On disk
//! (version 1) only the entries of named users and groups have an id; for
//! programs (version 2) every entry has one, which is all ones if it means nothing.

const DISK_VERSION: u32 = 1;
const USER_VERSION: u32 = 2;
const NO_ID: u32 = u32::MAX;

/// Who an entry is for, as numbers in both forms.
const TAG_USER_OBJ: u16 = 0x01;
const TAG_USER: u16 = 0x02;
const TAG_GROUP_OBJ: u16 = 0x04;
const TAG_GROUP: u16 = 0x08;
const TAG_MASK: u16 = 0x10;
const TAG_OTHER: u16 = 0x20;

/// The list `disk` in the form that programs get.
pub fn to_user_form(disk: &[u8]) -> Result<Vec<u8>, &'static str> {
    let Some((version, mut rest)) = disk.split_first_chunk() else {
        return Err("access control list has no version");
    };
    if u32::from_le_bytes(*version) != DISK_VERSION {
        return Err("access control list is of an unknown version");
    }
    let mut list = Vec::with_capacity(4 + disk.len() * 2);
    list.extend(USER_VERSION.to_le_bytes());
    while !rest.is_empty() {
        let Some((&[tag0, tag1, perm0, perm1], after)) = rest.split_first_chunk() else {
            return Err("access control list ends inside an entry");
        };
        rest = after;
        let id = match u16::from_le_bytes([tag0, tag1]) {
            TAG_USER | TAG_GROUP => {
                let Some((id, after)) = rest.split_first_chunk() else {
                    return Err("access control list ends inside an entry");
                };
                rest = after;
                *id
            }
            TAG_USER_OBJ | TAG_GROUP_OBJ | TAG_MASK | TAG_OTHER => NO_ID.to_le_bytes(),
            _ => return Err("access control list has an entry of an unknown kind"),
        };
        list.extend([tag0, tag1, perm0, perm1]);
        list.extend(id);
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn list_with_named_users_keeps_their_ids() {
        let disk = [
            &[1, 0, 0, 0][..],
            &[1, 0, 6, 0],
            &[2, 0, 4, 0, 0xe8, 3, 0, 0],
            &[4, 0, 4, 0],
            &[0x10, 0, 4, 0],
            &[0x20, 0, 0, 0],
        ]
        .concat();
        let user = [
            &[2, 0, 0, 0][..],
            &[1, 0, 6, 0, 255, 255, 255, 255],
            &[2, 0, 4, 0, 0xe8, 3, 0, 0],
            &[4, 0, 4, 0, 255, 255, 255, 255],
            &[0x10, 0, 4, 0, 255, 255, 255, 255],
            &[0x20, 0, 0, 0, 255, 255, 255, 255],
        ]
        .concat();
        assert_eq!(to_user_form(&disk), Ok(user));
    }

    #[test]
    fn list_that_is_malformed_is_refused() {
        let bad: [&[u8]; 5] = [
            &[],
            &[2, 0, 0, 0],
            &[1, 0, 0, 0, 1, 0],
            &[1, 0, 0, 0, 2, 0, 7, 0, 1],
            &[1, 0, 0, 0, 3, 0, 7, 0],
        ];
        for disk in bad {
            assert!(to_user_form(disk).is_err(), "{disk:?}");
        }
    }

    proptest! {
        #[test]
        fn list_of_any_bytes_is_at_most_doubled(tail in prop::collection::vec(0_u8..34, 0..200)) {
            let disk = [&[1, 0, 0, 0][..], &tail].concat();
            if let Ok(user) = to_user_form(&disk) {
                prop_assert!(user.len() <= 4 + 2 * tail.len());
                prop_assert_eq!((user.len() - 4) % 8, 0);
            }
        }
    }
}
