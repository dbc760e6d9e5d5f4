//! What a mount can be asked that changes the volume.
//!
//! The kernel has checked permissions. What is left to decide here is which set-id bits a file keeps:
//! the kernel leaves that to the server (`FUSE_HANDLE_KILLPRIV_V2`), and does not say whether the
//! caller is in the file's group.
//!
//! With `-o sync`, a change is durable when it is answered ([`Operations::settled`]). Writes are not
//! among those: the kernel, which knows of the option, sends an fsync after each.

use crate::node::NodeId;
use crate::operations::{Answer, Entry, Operations, inode_of};
use larder::{
    ChangedBy, DeviceNumber, Fallocate, FileKind, Ino, Metadata, NewFile, RenameFlags,
    SetAttributes, Volume, XattrMode,
};
use rustix::io::Errno;

/// The most that one request copies; a program that is told of less asks again.
const COPY_BYTES: u64 = 64 << 20;
/// The set-group-id bit of a mode.
const SET_GROUP_ID: u16 = 0o2000;
/// The attribute that holds an access control list.
const ACCESS_LIST: &[u8] = b"system.posix_acl_access";

/// What the writer makes of the count of bytes written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// It goes on where a short write ended, as programs do.
    Short,
    /// It only sees errors: for what the kernel writes back of its cache, mapped stores among it,
    /// nothing but an error reaches msync(2) and fsync(2).
    All,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The thread that called; 0 if it has no number here.
    pub thread: u32,
}

impl Caller {
    fn is_root(self) -> bool {
        self.uid == 0
    }

    /// Whether the caller is in group `gid`. The protocol does not pass supplementary groups: they
    /// are read from /proc, and a caller who cannot be found there has none.
    fn is_in_group(self, gid: u32) -> bool {
        self.gid == gid
            || std::fs::read_to_string(format!("/proc/{}/status", self.thread))
                .is_ok_and(|status| groups_of(&status).any(|group| group == gid))
    }

    /// Who the caller is to the file with `metadata`.
    fn role_for(self, metadata: &Metadata) -> ChangedBy {
        if self.is_root() {
            ChangedBy::Privileged
        } else if metadata.permissions & SET_GROUP_ID != 0 && self.is_in_group(metadata.gid) {
            ChangedBy::GroupMember
        } else {
            ChangedBy::Other
        }
    }
}

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name<'a> {
    /// The directory.
    pub parent: NodeId,
    /// Any bytes but `/` and NUL.
    pub name: &'a [u8],
}

/// What kind of file to make.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Make<'a> {
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink {
        /// Where it leads.
        target: &'a [u8],
    },
    /// Anything else.
    Node {
        /// The type.
        kind: FileKind,
        /// Which device, for devices.
        device: Option<DeviceNumber>,
    },
}

impl Operations {
    /// The volume, if the mount can be written.
    fn writable(&self) -> Answer<&Volume> {
        if self.can_write() {
            Ok(self.volume())
        } else {
            Err(Errno::ROFS)
        }
    }

    fn inode_to_change(&self, node: NodeId) -> Answer<(&Volume, Ino)> {
        Ok((self.writable()?, inode_of(node)?))
    }

    /// Makes a file.
    pub(crate) fn make(&self, place: Name<'_>, what: Make<'_>, new: &NewFile) -> Answer<Entry> {
        let (volume, parent) = self.inode_to_change(place.parent)?;
        let (operation, made) = match what {
            Make::Directory => ("mkdir", volume.make_dir(parent, place.name, new)),
            Make::Symlink { target } => {
                let made = volume.symlink(parent, place.name, target, new);
                ("symlink", made)
            }
            Make::Node { kind, device } => {
                let made = volume.make_node(parent, place.name, kind, device, new);
                ("mknod", made)
            }
        };
        match made {
            Ok(metadata) => self.settled(place.parent, entry_of(metadata)),
            Err(error) => Err(self.failed(operation, place.parent, &error)),
        }
    }

    /// Gives a file one more name.
    pub(crate) fn link(&self, node: NodeId, place: Name<'_>) -> Answer<Entry> {
        let (volume, ino) = self.inode_to_change(node)?;
        match volume.link(ino, inode_of(place.parent)?, place.name) {
            Ok(metadata) => self.settled(place.parent, entry_of(metadata)),
            Err(error) => Err(self.failed("link", node, &error)),
        }
    }

    /// Removes a name of what is no directory.
    pub(crate) fn unlink(&self, place: Name<'_>) -> Answer<()> {
        let (volume, parent) = self.inode_to_change(place.parent)?;
        match volume.unlink(parent, place.name) {
            Ok(_) => self.settled(place.parent, ()),
            Err(error) => Err(self.failed("unlink", place.parent, &error)),
        }
    }

    /// Removes an empty directory.
    pub(crate) fn remove_dir(&self, place: Name<'_>) -> Answer<()> {
        let (volume, parent) = self.inode_to_change(place.parent)?;
        match volume.remove_dir(parent, place.name) {
            Ok(_) => self.settled(place.parent, ()),
            Err(error) => Err(self.failed("rmdir", place.parent, &error)),
        }
    }

    /// Renames, with the flags of renameat2(2).
    pub(crate) fn rename(&self, old: Name<'_>, new: Name<'_>, flags: u32) -> Answer<()> {
        let (volume, parent) = self.inode_to_change(old.parent)?;
        let flags = RenameFlags::from_bits(flags).ok_or(Errno::INVAL)?;
        volume
            .rename(parent, old.name, inode_of(new.parent)?, new.name, flags)
            .map_err(|error| self.failed("rename", old.parent, &error))?;
        self.settled(new.parent, ())
    }

    /// Sets what stat(2) returns. Where chown(2) is given neither an owner nor a group, the kernel asks
    /// for no attribute, or for the time of the change alone: for the owner, that takes set-id bits
    /// off. It asks the same of others, whom ext4 would refuse, and before root's writes, which
    /// take none off.
    pub(crate) fn set_attributes(
        &self,
        caller: Caller,
        node: NodeId,
        set: &SetAttributes,
    ) -> Answer<Metadata> {
        let (volume, ino) = self.inode_to_change(node)?;
        let failed = |error| self.failed("setattr", node, &error);
        let present = volume.metadata(ino).map_err(failed)?;
        let by = caller.role_for(&present);
        let ctime = set.ctime;
        let times_alone = SetAttributes {
            ctime,
            ..SetAttributes::default()
        };
        let is_chown_to_nobody =
            *set == times_alone && by != ChangedBy::Privileged && caller.uid == present.uid;
        let uid = set.uid.or(is_chown_to_nobody.then_some(present.uid));
        let set = SetAttributes { by, uid, ..*set };
        let metadata = volume.set_attributes(ino, &set).map_err(failed)?;
        self.settled(node, metadata)
    }

    /// Writes `buf` at an offset in bytes, and returns how much of it. `unprivileged` is who wrote it, if the kernel says
    /// that they may not keep the set-id bits.
    pub(crate) fn write(
        &self,
        unprivileged: Option<Caller>,
        node: NodeId,
        (buf, offset_bytes): (&[u8], u64),
        count: Count,
    ) -> Answer<usize> {
        let (volume, ino) = self.inode_to_change(node)?;
        if let Some(caller) = unprivileged {
            self.remove_privileges(caller, node, ino)?;
        } else if self.is_direct() {
            // Elsewhere the kernel removes capabilities before a privileged write.
            volume
                .remove_privileges(ino, ChangedBy::Privileged)
                .map_err(|error| self.failed("write", node, &error))?;
        }
        let written = match count {
            Count::Short => volume.write_at(ino, buf, offset_bytes),
            Count::All => volume
                .write_all_at(ino, buf, offset_bytes)
                .map(|()| buf.len()),
        };
        written.map_err(|error| self.failed("write", node, &error))
    }

    /// Allocates, removes or moves a range.
    pub(crate) fn fallocate(
        &self,
        caller: Caller,
        node: NodeId,
        mode: Fallocate,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Answer<()> {
        let (volume, ino) = self.inode_to_change(node)?;
        self.remove_privileges(caller, node, ino)?;
        volume
            .fallocate(ino, mode, offset_bytes, len_bytes)
            .map_err(|error| self.failed("fallocate", node, &error))?;
        self.settled(node, ())
    }

    /// Copies at most `len_bytes`, and returns how many it were.
    pub(crate) fn copy_range(
        &self,
        caller: Caller,
        from: (NodeId, u64),
        to: (NodeId, u64),
        len_bytes: u64,
    ) -> Answer<u64> {
        let (volume, target) = self.inode_to_change(to.0)?;
        let source = inode_of(from.0)?;
        self.remove_privileges(caller, to.0, target)?;
        let copied_bytes = volume
            .copy_range(source, from.1, target, to.1, len_bytes.min(COPY_BYTES))
            .map_err(|error| self.failed("copy_file_range", to.0, &error))?;
        self.settled(to.0, copied_bytes)
    }

    /// Makes a file or a directory durable. On a read-only mount everything is.
    pub(crate) fn sync(&self, node: NodeId, data_only: bool) -> Answer<()> {
        if !self.can_write() {
            return Ok(());
        }
        self.volume()
            .sync_file(inode_of(node)?, data_only)
            .map_err(|error| self.failed("fsync", node, &error))
    }

    /// Sets an attribute. A new access control list takes the set-group-id bit from a file of
    /// another group, as chmod(2) would.
    pub(crate) fn set_xattr(
        &self,
        caller: Caller,
        node: NodeId,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Answer<()> {
        let (volume, ino) = self.inode_to_change(node)?;
        let failed = |error| self.failed("setxattr", node, &error);
        volume.set_xattr(ino, name, value, mode).map_err(failed)?;
        if name != ACCESS_LIST || caller.is_root() {
            return self.settled(node, ());
        }
        let metadata = volume.metadata(ino).map_err(failed)?;
        let has_bit = metadata.permissions & SET_GROUP_ID != 0;
        if has_bit && caller.role_for(&metadata) == ChangedBy::Other {
            let set = SetAttributes {
                permissions: Some(metadata.permissions & !SET_GROUP_ID),
                ..SetAttributes::default()
            };
            volume.set_attributes(ino, &set).map_err(failed)?;
        }
        self.settled(node, ())
    }

    /// Removes an attribute.
    pub(crate) fn remove_xattr(&self, node: NodeId, name: &[u8]) -> Answer<()> {
        let (volume, ino) = self.inode_to_change(node)?;
        volume
            .remove_xattr(ino, name)
            .map_err(|error| self.failed("removexattr", node, &error))?;
        self.settled(node, ())
    }

    /// Sets the flags of chattr(1).
    pub(crate) fn set_flags(&self, node: NodeId, flags: u32) -> Answer<()> {
        let (volume, ino) = self.inode_to_change(node)?;
        volume
            .set_flags(ino, flags)
            .map_err(|error| self.failed("ioctl", node, &error))?;
        self.settled(node, ())
    }

    /// Sets the label.
    pub(crate) fn set_label(&self, label: &[u8]) -> Answer<()> {
        self.writable()?
            .set_label(label)
            .map_err(|error| self.failed("ioctl", NodeId::ROOT, &error))
    }

    /// Discards free space; returns the bytes discarded.
    pub(crate) fn trim(&self, bytes: std::ops::Range<u64>, min_bytes: u64) -> Answer<u64> {
        self.writable()?
            .trim(bytes, min_bytes)
            .map_err(|error| self.failed("ioctl", NodeId::ROOT, &error))
    }

    /// What a change is answered with, once it is durable if the mount is synchronous. `node` is
    /// what was changed: a file, or the directory of a name.
    fn settled<T>(&self, node: NodeId, answer: T) -> Answer<T> {
        if self.is_synchronous() {
            self.sync(node, false)?;
        }
        Ok(answer)
    }

    /// Takes off a file what it may not keep when `caller` changes its content.
    fn remove_privileges(&self, caller: Caller, node: NodeId, ino: Ino) -> Answer<()> {
        let failed = |error| self.failed("setattr", node, &error);
        let by = caller.role_for(&self.volume().metadata(ino).map_err(failed)?);
        self.volume().remove_privileges(ino, by).map_err(failed)
    }
}

/// The supplementary groups in /proc/PID/status.
fn groups_of(status: &str) -> impl Iterator<Item = u32> {
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    let words = groups.unwrap_or_default().split_ascii_whitespace();
    words.filter_map(|word| word.parse().ok())
}

fn entry_of(metadata: Metadata) -> Entry {
    Entry {
        node: NodeId::of(metadata.ino),
        metadata,
    }
}
