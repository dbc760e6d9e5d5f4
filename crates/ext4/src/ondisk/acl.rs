//! POSIX access control lists: the on-disk format, the format of the system calls, and the meaning
//! of entries.
//!
//! Both formats consist of a version and a sequence of entries. All numbers are little-endian. On disk
//! (version 1), only the entries of named users and groups have an id. In system calls (version 2), every
//! entry has an id. If an entry is not for a named user or group, all bits of its id are set.
//!
//! A list is valid if it has exactly one entry each for the owner, the group and others, in this
//! order. Entries of named users follow the entry of the owner, and entries of named groups follow
//! the entry of the group. If any user or group is named, a mask precedes the entry of others. As
//! in the kernel, a list is validated when a program sets it, but not when it is read from disk.

use super::Damage;
use crate::{Error, Ino};

const DISK_VERSION: u32 = 1;
const USER_VERSION: u32 = 2;
const NO_ID: u32 = u32::MAX;

const NO_VERSION: &str = "access control list has no version";
const CUT_OFF: &str = "access control list ends inside an entry";
const UNKNOWN_KIND: &str = "access control list has an entry of an unknown type";

/// The kinds of entries, with their numbers in both formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tag {
    Owner = 0x01,
    User = 0x02,
    OwningGroup = 0x04,
    Group = 0x08,
    Mask = 0x10,
    Other = 0x20,
}

impl Tag {
    fn from_number(number: u16) -> Option<Self> {
        Some(match number {
            0x01 => Self::Owner,
            0x02 => Self::User,
            0x04 => Self::OwningGroup,
            0x08 => Self::Group,
            0x10 => Self::Mask,
            0x20 => Self::Other,
            _ => return None,
        })
    }

    fn is_named(self) -> bool {
        matches!(self, Self::User | Self::Group)
    }

    /// Returns the position, as a shift, of the mode bits that correspond to this entry. If there
    /// is a mask, the mask corresponds to the bits of the group.
    fn shift(self, has_mask: bool) -> Option<u32> {
        match self {
            Self::Owner => Some(6),
            Self::OwningGroup if has_mask => None,
            Self::OwningGroup | Self::Mask => Some(3),
            Self::Other => Some(0),
            Self::User | Self::Group => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    tag: Tag,
    permissions: u16,
    /// The id of the named user or group; [`NO_ID`] in all other entries.
    id: u32,
}

/// An access control list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    entries: Vec<Entry>,
}

impl Acl {
    /// Parses a list in the on-disk format.
    pub fn from_disk(disk: &[u8]) -> Result<Self, Damage> {
        let (version, mut rest) = disk.split_first_chunk().ok_or(NO_VERSION)?;
        if u32::from_le_bytes(*version) != DISK_VERSION {
            return Err("access control list has an unknown version");
        }
        let mut entries = Vec::with_capacity(rest.len() / 4);
        while !rest.is_empty() {
            let (&[tag0, tag1, perm0, perm1], after) = rest.split_first_chunk().ok_or(CUT_OFF)?;
            rest = after;
            let tag = Tag::from_number(u16::from_le_bytes([tag0, tag1])).ok_or(UNKNOWN_KIND)?;
            let mut id = NO_ID;
            if tag.is_named() {
                let (bytes, after) = rest.split_first_chunk().ok_or(CUT_OFF)?;
                rest = after;
                id = u32::from_le_bytes(*bytes);
            }
            entries.push(Entry {
                tag,
                permissions: u16::from_le_bytes([perm0, perm1]),
                id,
            });
        }
        Ok(Self { entries })
    }

    /// Parses a list for `ino` in the format of the system calls. Returns `None` for an empty list,
    /// which means that the list is to be removed. The caller must validate the list with
    /// [`Acl::check`].
    ///
    /// # Errors
    /// [`Error::NotSupported`] for another version; [`Error::Invalid`] for malformed bytes.
    pub fn from_user(ino: Ino, user: &[u8]) -> Result<Option<Self>, Error> {
        let invalid = |what| Error::Invalid(ino, what);
        let (version, rest) = user.split_first_chunk().ok_or(invalid(NO_VERSION))?;
        if u32::from_le_bytes(*version) != USER_VERSION {
            let what = "this version of access control lists";
            return Err(Error::NotSupported(ino, what));
        }
        let (chunks, []) = rest.as_chunks::<8>() else {
            return Err(invalid(CUT_OFF));
        };
        let entries: Option<Vec<Entry>> = chunks
            .iter()
            .map(|&[tag0, tag1, perm0, perm1, id @ ..]| {
                let tag = Tag::from_number(u16::from_le_bytes([tag0, tag1]))?;
                Some(Entry {
                    tag,
                    permissions: u16::from_le_bytes([perm0, perm1]),
                    id: if tag.is_named() {
                        u32::from_le_bytes(id)
                    } else {
                        NO_ID
                    },
                })
            })
            .collect();
        let entries = entries.ok_or(invalid(UNKNOWN_KIND))?;
        Ok((!entries.is_empty()).then_some(Self { entries }))
    }

    /// Returns an error if the list is not [valid](self).
    pub fn check(&self) -> Result<(), Damage> {
        let count = |tag| self.entries.iter().filter(|entry| entry.tag == tag).count();
        let once = [Tag::Owner, Tag::OwningGroup, Tag::Other];
        if once.into_iter().any(|tag| count(tag) != 1) {
            return Err("access control list must have one entry each for owner, group and others");
        }
        // The tags are numbered in the required order.
        if !self.entries.is_sorted_by_key(|entry| entry.tag) {
            return Err("entries of the access control list are not in order");
        }
        let has_named = self.entries.iter().any(|entry| entry.tag.is_named());
        if count(Tag::Mask) > 1 || (has_named && count(Tag::Mask) == 0) {
            return Err("access control list must have one mask");
        }
        let is_sane =
            |entry: &Entry| entry.permissions <= 7 && !(entry.tag.is_named() && entry.id == NO_ID);
        if !self.entries.iter().all(is_sane) {
            return Err(
                "access control list has unknown permissions, or a named entry without an ID",
            );
        }
        Ok(())
    }

    /// Encodes the list in the on-disk format.
    #[must_use]
    pub fn to_disk(&self) -> Vec<u8> {
        let mut list = DISK_VERSION.to_le_bytes().to_vec();
        for entry in &self.entries {
            list.extend((entry.tag as u16).to_le_bytes());
            list.extend(entry.permissions.to_le_bytes());
            if entry.tag.is_named() {
                list.extend(entry.id.to_le_bytes());
            }
        }
        list
    }

    /// Encodes the list in the format of the system calls.
    #[must_use]
    pub fn to_user(&self) -> Vec<u8> {
        let mut list = USER_VERSION.to_le_bytes().to_vec();
        for entry in &self.entries {
            list.extend((entry.tag as u16).to_le_bytes());
            list.extend(entry.permissions.to_le_bytes());
            list.extend(entry.id.to_le_bytes());
        }
        list
    }

    /// Returns whether the nine permission bits of a mode can represent the whole list.
    #[must_use]
    pub fn is_mode(&self) -> bool {
        !self.has_mask() && !self.entries.iter().any(|entry| entry.tag.is_named())
    }

    fn has_mask(&self) -> bool {
        self.entries.iter().any(|entry| entry.tag == Tag::Mask)
    }

    /// Returns `mode` with the permission bits of this list, which must be an access list.
    #[must_use]
    pub fn apply_to_mode(&self, mode: u16) -> u16 {
        let has_mask = self.has_mask();
        self.entries
            .iter()
            .filter_map(|entry| Some((entry.permissions & 7, entry.tag.shift(has_mask)?)))
            .fold(mode, |mode, (permissions, shift)| {
                (mode & !(7 << shift)) | (permissions << shift)
            })
    }

    /// Updates the list after the file's mode was set to `mode`.
    pub fn follow_mode(&mut self, mode: u16) {
        self.intersect(mode, |_, bits| bits);
    }

    /// Converts a default list to the access list of a new file that is created with `mode`. The
    /// result allows only what both the default list and `mode` allow. Returns the mode of the
    /// file.
    pub fn inherit(&mut self, mode: u16) -> u16 {
        self.intersect(mode, |permissions, bits| permissions & bits);
        self.apply_to_mode(mode)
    }

    /// Sets the permissions of the entries that correspond to mode bits. `both` must combine the
    /// current permissions with those in `mode`.
    fn intersect(&mut self, mode: u16, both: impl Fn(u16, u16) -> u16) {
        let has_mask = self.has_mask();
        for entry in &mut self.entries {
            if let Some(shift) = entry.tag.shift(has_mask) {
                entry.permissions = both(entry.permissions, (mode >> shift) & 7);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [u8; 4] = [255; 4];

    fn from_user(user: &[u8]) -> Result<Option<Acl>, Error> {
        Acl::from_user(Ino(12), user)
    }

    /// Encodes a list in the format of the system calls.
    fn user(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut list = vec![2, 0, 0, 0];
        for (tag, permissions, id) in entries {
            list.extend(tag.to_le_bytes());
            list.extend(permissions.to_le_bytes());
            list.extend(id.to_le_bytes());
        }
        list
    }

    /// Returns the list with these entries, which must be valid.
    fn list(entries: &[(u16, u16, u32)]) -> Acl {
        let list = from_user(&user(entries)).unwrap().unwrap();
        list.check().unwrap();
        list
    }

    const NAMED: [(u16, u16, u32); 5] = [
        (0x01, 7, NO_ID),
        (0x02, 6, 1000),
        (0x04, 5, NO_ID),
        (0x10, 6, NO_ID),
        (0x20, 1, NO_ID),
    ];

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
            &[1, 0, 6, 0],
            &ALL,
            &[2, 0, 4, 0, 0xe8, 3, 0, 0],
            &[4, 0, 4, 0],
            &ALL,
            &[0x10, 0, 4, 0],
            &ALL,
            &[0x20, 0, 0, 0],
            &ALL,
        ]
        .concat();
        let list = Acl::from_disk(&disk).unwrap();
        assert_eq!(list.to_user(), user);
        assert_eq!(from_user(&user).unwrap(), Some(list.clone()));
        assert_eq!(list.to_disk(), disk);
    }

    #[test]
    fn list_on_disk_that_is_malformed_is_refused() {
        let bad: [&[u8]; 5] = [
            &[],
            &[2, 0, 0, 0],
            &[1, 0, 0, 0, 1, 0],
            &[1, 0, 0, 0, 2, 0, 7, 0, 1],
            &[1, 0, 0, 0, 3, 0, 7, 0],
        ];
        for disk in bad {
            assert!(Acl::from_disk(disk).is_err(), "{disk:?}");
        }
    }

    #[test]
    fn invalid_list_from_a_program_is_refused() {
        let (owner, group, other) = ((1, 7, NO_ID), (4, 7, NO_ID), (0x20, 7, NO_ID));
        let (named, mask) = ((2, 7, 5), (0x10, 7, NO_ID));
        let bad: [&[(u16, u16, u32)]; 11] = [
            &[owner],
            &[owner, other],
            &[owner, owner, group, other],
            &[group, owner, other],
            &[owner, named, group, other],
            &[owner, group, named, mask, other],
            &[owner, group, other, mask],
            &[owner, group, mask, mask, other],
            &[owner, (2, 7, NO_ID), group, mask, other],
            &[(1, 8, NO_ID), group, other],
            &[owner, group, (0x40, 7, NO_ID), other],
        ];
        for entries in bad {
            let list = from_user(&user(entries));
            let is_valid = list.is_ok_and(|list| list.is_none_or(|list| list.check().is_ok()));
            assert!(!is_valid, "{entries:?}");
        }
        assert!(from_user(&[2, 0, 0]).is_err());
        let version = from_user(&[1, 0, 0, 0]);
        assert!(matches!(version, Err(Error::NotSupported(Ino(12), _))));
        assert!(from_user(&[&user(&NAMED)[..], &[1]].concat()).is_err());
        assert_eq!(from_user(&[2, 0, 0, 0]).unwrap(), None);
    }

    #[test]
    fn mode_of_a_list_has_the_mask_as_group_bits() {
        let named = list(&NAMED);
        assert!(!named.is_mode());
        assert_eq!(named.apply_to_mode(0o102_000), 0o102_761);
        let plain = list(&[NAMED[0], NAMED[2], NAMED[4]]);
        assert!(plain.is_mode());
        assert_eq!(plain.apply_to_mode(0o100_000), 0o100_751);
    }

    #[test]
    fn chmod_changes_owner_mask_and_other_of_a_list() {
        let mut named = list(&NAMED);
        named.follow_mode(0o100_014);
        let expected = list(&[
            (0x01, 0, NO_ID),
            NAMED[1],
            NAMED[2],
            (0x10, 1, NO_ID),
            (0x20, 4, NO_ID),
        ]);
        assert_eq!(named, expected);
    }

    #[test]
    fn inherited_list_and_mode_restrict_each_other() {
        let mut named = list(&NAMED);
        assert_eq!(named.inherit(0o100_646), 0o100_640);
        let expected = list(&[
            (0x01, 6, NO_ID),
            NAMED[1],
            NAMED[2],
            (0x10, 4, NO_ID),
            (0x20, 0, NO_ID),
        ]);
        assert_eq!(named, expected);
    }

    proptest! {
        #[test]
        fn list_of_arbitrary_bytes_at_most_doubles_in_size(tail in prop::collection::vec(0_u8..34, 0..200)) {
            let disk = [&[1, 0, 0, 0][..], &tail].concat();
            if let Ok(list) = Acl::from_disk(&disk) {
                let user = list.to_user();
                prop_assert!(user.len() <= 4 + 2 * tail.len());
                prop_assert_eq!((user.len() - 4) % 8, 0);
                prop_assert_eq!(list.to_disk(), disk);
            }
            let _ = from_user(&[&[2, 0, 0, 0][..], &tail].concat());
        }
    }
}
