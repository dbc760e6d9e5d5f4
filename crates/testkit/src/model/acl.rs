//! POSIX access control lists, as acl(5) describes them.

use std::collections::BTreeMap;

/// The attribute that holds the list itself.
pub const ACCESS: &[u8] = b"system.posix_acl_access";
/// The attribute that holds the list for new files.
pub const DEFAULT: &[u8] = b"system.posix_acl_default";

/// An access control list. Permissions are the usual three bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    /// The owner's permissions.
    pub owner: u16,
    /// The permissions of named users.
    pub users: BTreeMap<u32, u16>,
    /// The group's permissions.
    pub group: u16,
    /// The permissions of named groups.
    pub groups: BTreeMap<u32, u16>,
    /// The maximum for named users, named groups and the group. Required if any user or group is named.
    pub mask: Option<u16>,
    /// The permissions of all others.
    pub other: u16,
}

impl Acl {
    /// Returns whether the list is equivalent to the permissions of a mode.
    #[must_use]
    pub fn is_minimal(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty() && self.mask.is_none()
    }

    /// Returns the permissions of the equivalent mode.
    #[must_use]
    pub fn permissions(&self) -> u16 {
        self.owner << 6 | self.mask.unwrap_or(self.group) << 3 | self.other
    }

    /// Updates the list after a change of the mode.
    pub fn set_permissions(&mut self, permissions: u16) {
        self.owner = permissions >> 6 & 7;
        *self.mask.as_mut().unwrap_or(&mut self.group) = permissions >> 3 & 7;
        self.other = permissions & 7;
    }

    /// Returns the list that a new file with the mode `permissions` inherits from this default list.
    #[must_use]
    pub fn inherited(&self, permissions: u16) -> Self {
        let mut acl = self.clone();
        acl.set_permissions(self.permissions() & permissions);
        acl
    }

    /// Returns the value of the attribute, as programs see it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        const UNDEFINED_ID: u32 = u32::MAX;
        let mut bytes = 2_u32.to_le_bytes().to_vec();
        let mut entry = |tag: u16, permissions: u16, id: u32| {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(permissions.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        };
        entry(0x01, self.owner, UNDEFINED_ID);
        for (id, permissions) in &self.users {
            entry(0x02, *permissions, *id);
        }
        entry(0x04, self.group, UNDEFINED_ID);
        for (id, permissions) in &self.groups {
            entry(0x08, *permissions, *id);
        }
        if let Some(mask) = self.mask {
            entry(0x10, mask, UNDEFINED_ID);
        }
        entry(0x20, self.other, UNDEFINED_ID);
        bytes
    }
}
