//! The operations and their parameters.

use super::path::NodePath;
use crate::model::acl::Acl;
use larder::{Fallocate, FileKind, RenameFlags, Timestamp, XattrMode};

/// The number of a file that is held open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u8);

/// The target of an operation.
#[derive(Clone, PartialEq, Eq)]
pub enum Target {
    /// The file at this path. A symbolic link is not followed.
    Path(NodePath),
    /// The file that is open in this slot.
    Open(Slot),
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{path:?}"),
            Self::Open(slot) => write!(f, "slot {}", slot.0),
        }
    }
}

/// The initial properties of a new file, except for its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owned {
    /// The lower 12 bits of the mode.
    pub permissions: u16,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// The permissions that are removed from every new file.
pub const UMASK: u16 = 0o022;

/// The type and the initial content of a new file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewNode {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link with this target.
    Symlink(Vec<u8>),
    /// A device special file with its major and minor number.
    Device(FileKind, u32, u32),
    /// A FIFO or a socket.
    Special(FileKind),
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Creates a file of any type.
    Make {
        /// Its path.
        at: NodePath,
        /// The type.
        node: NewNode,
        /// Owner and permissions.
        owned: Owned,
    },
    /// Creates a file without a name and opens it, like `O_TMPFILE`.
    MakeUnnamed {
        /// The directory of the file.
        parent: NodePath,
        /// The slot in which it is opened.
        slot: Slot,
        /// Owner and permissions.
        owned: Owned,
    },
    /// Opens a file.
    Open {
        /// Its path.
        at: NodePath,
        /// The slot in which it is opened. If the slot is in use, the operation is skipped.
        slot: Slot,
    },
    /// Closes a file.
    Close {
        /// The slot of the file.
        slot: Slot,
    },
    /// Adds a name to a file.
    Link {
        /// The file.
        from: Target,
        /// The new name.
        to: NodePath,
    },
    /// Adds a name to a file, and replaces the file that has this name, if there is one.
    LinkReplacing {
        /// The file.
        from: Target,
        /// The new name.
        to: NodePath,
    },
    /// Removes a name.
    Unlink {
        /// The name.
        at: NodePath,
    },
    /// Removes an empty directory.
    RemoveDir {
        /// Its name.
        at: NodePath,
    },
    /// Renames a file.
    Rename {
        /// The old name.
        from: NodePath,
        /// The new name.
        to: NodePath,
        /// The flags.
        flags: RenameFlags,
    },
    /// Writes. The content encodes the number of the operation and the offset.
    Write {
        /// The file.
        file: Target,
        /// The offset.
        offset_bytes: u64,
        /// The length.
        len_bytes: u32,
    },
    /// Sets the size.
    Truncate {
        /// The file.
        file: Target,
        /// The new size.
        size_bytes: u64,
    },
    /// Allocates, punches, zeroes or moves a range.
    Allocate {
        /// The file.
        file: Target,
        /// The mode.
        mode: Fallocate,
        /// The range's start.
        offset_bytes: u64,
        /// Its length.
        len_bytes: u64,
    },
    /// Copies from one file into another.
    Copy {
        /// The source file.
        from: Target,
        /// The offset in the source.
        from_bytes: u64,
        /// The destination file.
        to: Target,
        /// The offset in the destination.
        to_bytes: u64,
        /// The maximum length.
        len_bytes: u64,
    },
    /// Sets an attribute.
    SetXattr {
        /// The file.
        file: Target,
        /// The attribute's full name.
        name: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
        /// Whether the attribute may or must exist.
        mode: XattrMode,
    },
    /// Removes an attribute.
    RemoveXattr {
        /// The file.
        file: Target,
        /// The attribute's full name.
        name: Vec<u8>,
    },
    /// Sets an access control list.
    SetAcl {
        /// The file.
        file: Target,
        /// Whether it is the default list, which new files inherit.
        is_default: bool,
        /// The list.
        acl: Acl,
    },
    /// Changes permissions.
    SetPermissions {
        /// The file.
        file: Target,
        /// The lower 12 bits of the mode.
        permissions: u16,
    },
    /// Changes owner and group.
    SetOwner {
        /// The file.
        file: Target,
        /// The owner, if it changes.
        uid: Option<u32>,
        /// The group, if it changes.
        gid: Option<u32>,
    },
    /// Sets the times of access and modification.
    SetTimes {
        /// The file.
        file: Target,
        /// The last access.
        accessed: Timestamp,
        /// The last change of the content.
        modified: Timestamp,
    },
    /// Sets the flags in [`crate::model::SETTABLE_FLAGS`].
    SetFlags {
        /// The file.
        file: Target,
        /// The flags to set; the others are cleared.
        flags: u32,
    },
    /// Makes a file or directory durable.
    SyncFile {
        /// The file.
        file: Target,
        /// Whether to sync as fdatasync(2) does.
        data_only: bool,
    },
    /// Makes everything durable.
    Sync,
    /// Closes the volume and opens it again. No file remains open.
    Reopen,
}

/// Fills `buf`, which operation `number` writes at `offset_bytes`: each aligned word of eight bytes
/// encodes the number of the operation and the offset.
pub fn fill_content(number: u32, offset_bytes: u64, buf: &mut [u8]) {
    for (at, byte) in (offset_bytes..).zip(buf) {
        let mut word = *b"w  @    ";
        word[1..3].copy_from_slice(&number.to_le_bytes()[..2]);
        word[4..].copy_from_slice(&(at / 8).to_le_bytes()[..4]);
        word[7] ^= 0x80;
        *byte = word[usize::try_from(at % 8).unwrap_or(0)];
    }
}

/// Describes bytes that [`fill_content`] wrote, for messages.
#[must_use]
pub fn describe_content(bytes: &[u8]) -> String {
    match bytes {
        [b'w', low, high, b'@', word @ ..] if word.len() >= 4 => {
            let number = u16::from_le_bytes([*low, *high]);
            let word = u32::from_le_bytes([word[0], word[1], word[2], word[3] ^ 0x80]);
            format!(
                "the content that operation {number} wrote at {}",
                u64::from(word) * 8
            )
        }
        _ => format!("{:02x?}", bytes.get(..16).unwrap_or(bytes)),
    }
}
