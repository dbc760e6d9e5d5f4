//! Operations on a volume, as plain data: made from a seed, applied to a volume and to a model,
//! and left out one by one until only those remain that a failure needs.
//!
//! An operation says by paths and slots what it works on, so that a sequence stays one whichever
//! of its operations are taken out; what then leads nowhere is skipped or fails as it should.

mod choice;
mod generate;
mod path;
mod perform;
mod shared;
mod shrink;

pub use generate::{Generator, Mix};
pub use path::NodePath;
pub use perform::{Performer, Places};
pub use shrink::{Listing, kind_of_failure, shrink};

use crate::model::acl::Acl;
use larder::{Fallocate, FileKind, RenameFlags, Timestamp, XattrMode};

/// A place for a file that is held open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u8);

/// What an operation works on.
#[derive(Clone, PartialEq, Eq)]
pub enum Target {
    /// What has this name; a symbolic link is not followed.
    Path(NodePath),
    /// What is open there.
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

/// What a new file starts with, but for its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owned {
    /// The lower 12 bits of the mode.
    pub permissions: u16,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// Permissions that are taken from every new file.
pub const UMASK: u16 = 0o022;

/// What is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewNode {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link to this.
    Symlink(Vec<u8>),
    /// A device special file with major and minor number.
    Device(FileKind, u32, u32),
    /// A FIFO or a socket.
    Special(FileKind),
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Makes a file of any type.
    Make {
        /// Its path.
        at: NodePath,
        /// What.
        node: NewNode,
        /// Owner and permissions.
        owned: Owned,
    },
    /// Makes a file without a name and opens it, as `O_TMPFILE`.
    MakeUnnamed {
        /// Where it would be.
        parent: NodePath,
        /// Where it is open.
        slot: Slot,
        /// Owner and permissions.
        owned: Owned,
    },
    /// Opens a file.
    Open {
        /// Its path.
        at: NodePath,
        /// Where it is open then; what was open there is closed.
        slot: Slot,
    },
    /// Closes it.
    Close {
        /// Where it is open.
        slot: Slot,
    },
    /// Gives it one more name.
    Link {
        /// What.
        from: Target,
        /// The name.
        to: NodePath,
    },
    /// Gives it the name of another file, if one has it.
    LinkReplacing {
        /// What.
        from: Target,
        /// The name.
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
    /// Renames.
    Rename {
        /// The old name.
        from: NodePath,
        /// The new one.
        to: NodePath,
        /// How.
        flags: RenameFlags,
    },
    /// Writes; the content tells the operation and the offset.
    Write {
        /// The file.
        file: Target,
        /// Where.
        offset_bytes: u64,
        /// How much.
        len_bytes: u32,
    },
    /// Sets the size.
    Truncate {
        /// The file.
        file: Target,
        /// To this.
        size_bytes: u64,
    },
    /// Allocates, removes or moves a range.
    Allocate {
        /// The file.
        file: Target,
        /// Which of it.
        mode: Fallocate,
        /// The range's start.
        offset_bytes: u64,
        /// Its length.
        len_bytes: u64,
    },
    /// Copies from one file into another.
    Copy {
        /// From this file.
        from: Target,
        /// From here.
        from_bytes: u64,
        /// Into this file.
        to: Target,
        /// To here.
        to_bytes: u64,
        /// At most so much.
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
        /// Whether it may or must be there.
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
        /// Whether it is the list that new files get.
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
    /// Sets the times of access and change.
    SetTimes {
        /// The file.
        file: Target,
        /// The last access.
        accessed: Timestamp,
        /// The last change of the content.
        modified: Timestamp,
    },
    /// Sets the flags that [`crate::model::SETTABLE_FLAGS`] names.
    SetFlags {
        /// The file.
        file: Target,
        /// Those that are set; the others are cleared.
        flags: u32,
    },
    /// Makes a file or directory durable.
    SyncFile {
        /// The file.
        file: Target,
        /// As fdatasync(2).
        data_only: bool,
    },
    /// Makes everything durable.
    Sync,
    /// Closes the volume and opens it again; nothing stays open.
    Reopen,
}

/// Fills `buf`, which operation `number` writes at `offset_bytes`: each aligned eight bytes tell
/// the operation and the offset.
pub fn fill_content(number: u32, offset_bytes: u64, buf: &mut [u8]) {
    for (at, byte) in (offset_bytes..).zip(buf) {
        let mut word = *b"w  @    ";
        word[1..3].copy_from_slice(&number.to_le_bytes()[..2]);
        word[4..].copy_from_slice(&(at / 8).to_le_bytes()[..4]);
        word[7] ^= 0x80;
        *byte = word[usize::try_from(at % 8).unwrap_or(0)];
    }
}

/// What [`fill_content`] put where these bytes are, for messages.
#[must_use]
pub fn describe_content(bytes: &[u8]) -> String {
    match bytes {
        [b'w', low, high, b'@', word @ ..] if word.len() >= 4 => {
            let number = u16::from_le_bytes([*low, *high]);
            let word = u32::from_le_bytes([word[0], word[1], word[2], word[3] ^ 0x80]);
            format!("what operation {number} wrote at {}", u64::from(word) * 8)
        }
        _ => format!("{:02x?}", bytes.get(..16).unwrap_or(bytes)),
    }
}
