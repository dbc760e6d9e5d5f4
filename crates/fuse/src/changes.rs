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
    ChangedBy, Fallocate, Ino, Make, Metadata, NewFile, RenameFlags, SetAttributes, Volume,
    XattrMode,
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

impl Operations {
    /// Fails with `EROFS` on a mount that cannot be written.
    fn check_writable(&self) -> Answer<()> {
        if self.can_write() {
            Ok(())
        } else {
            Err(Errno::ROFS)
        }
    }

    /// Runs `change` on a node's inode, and makes that durable if the mount is synchronous.
    fn change<T>(
        &self,
        operation: &'static str,
        node: NodeId,
        change: impl FnOnce(&Volume, Ino) -> larder::Result<T>,
    ) -> Answer<T> {
        self.check_writable()?;
        let answer = self.with_inode(operation, node, change)?;
        self.settled(node, answer)
    }

    /// Makes a file.
    pub(crate) fn make(&self, place: Name<'_>, what: Make<'_>, new: &NewFile) -> Answer<Entry> {
        let Name { parent, name } = place;
        let operation = match what {
            Make::Directory => "mkdir",
            Make::Symlink { .. } => "symlink",
            Make::Node { .. } => "mknod",
        };
        let made = self.change(operation, parent, |volume, parent| {
            volume.make(parent, name, what, new)
        });
        made.map(entry_of)
    }

    /// Gives a file one more name.
    pub(crate) fn link(&self, node: NodeId, place: Name<'_>) -> Answer<Entry> {
        self.check_writable()?;
        let parent = inode_of(place.parent)?;
        let linked = self.with_inode("link", node, |volume, ino| {
            volume.link(ino, parent, place.name)
        })?;
        self.settled(place.parent, entry_of(linked))
    }

    /// Removes a name of what is no directory.
    pub(crate) fn unlink(&self, place: Name<'_>) -> Answer<()> {
        self.change("unlink", place.parent, |volume, parent| {
            volume.unlink(parent, place.name).map(drop)
        })
    }

    /// Removes an empty directory.
    pub(crate) fn remove_dir(&self, place: Name<'_>) -> Answer<()> {
        self.change("rmdir", place.parent, |volume, parent| {
            volume.remove_dir(parent, place.name).map(drop)
        })
    }

    /// Renames, with the flags of renameat2(2).
    pub(crate) fn rename(&self, old: Name<'_>, new: Name<'_>, flags: u32) -> Answer<()> {
        self.check_writable()?;
        let flags = RenameFlags::from_bits(flags).ok_or(Errno::INVAL)?;
        let to = inode_of(new.parent)?;
        self.with_inode("rename", old.parent, |volume, from| {
            volume.rename(from, old.name, to, new.name, flags)
        })?;
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
        self.change("setattr", node, |volume, ino| {
            let present = volume.metadata(ino)?;
            let by = caller.role_for(&present);
            let ctime = set.ctime;
            let times_alone = SetAttributes {
                ctime,
                ..SetAttributes::default()
            };
            let is_chown_to_nobody =
                *set == times_alone && by != ChangedBy::Privileged && caller.uid == present.uid;
            let uid = set.uid.or(is_chown_to_nobody.then_some(present.uid));
            volume.set_attributes(ino, &SetAttributes { by, uid, ..*set })
        })
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
        self.check_writable()?;
        if let Some(caller) = unprivileged {
            self.remove_privileges(caller, node)?;
        }
        self.with_inode("write", node, |volume, ino| {
            if unprivileged.is_none() && self.direct_io {
                // Elsewhere the kernel removes capabilities before a privileged write.
                volume.remove_privileges(ino, ChangedBy::Privileged)?;
            }
            match count {
                Count::Short => volume.write_at(ino, buf, offset_bytes),
                Count::All => {
                    volume.write_all_at(ino, buf, offset_bytes)?;
                    Ok(buf.len())
                }
            }
        })
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
        self.check_writable()?;
        self.remove_privileges(caller, node)?;
        self.change("fallocate", node, |volume, ino| {
            volume.fallocate(ino, mode, offset_bytes, len_bytes)
        })
    }

    /// Copies at most `len_bytes`, and returns how many it were.
    pub(crate) fn copy_range(
        &self,
        caller: Caller,
        from: (NodeId, u64),
        to: (NodeId, u64),
        len_bytes: u64,
    ) -> Answer<u64> {
        self.check_writable()?;
        let source = inode_of(from.0)?;
        self.remove_privileges(caller, to.0)?;
        self.change("copy_file_range", to.0, |volume, target| {
            volume.copy_range(source, from.1, target, to.1, len_bytes.min(COPY_BYTES))
        })
    }

    /// Makes a file or a directory durable. On a read-only mount everything is.
    pub(crate) fn sync(&self, node: NodeId, data_only: bool) -> Answer<()> {
        if !self.can_write() {
            return Ok(());
        }
        self.with_inode("fsync", node, |volume, ino| {
            volume.sync_file(ino, data_only)
        })
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
        self.change("setxattr", node, |volume, ino| {
            volume.set_xattr(ino, name, value, mode)?;
            if name != ACCESS_LIST || caller.is_root() {
                return Ok(());
            }
            let metadata = volume.metadata(ino)?;
            let has_bit = metadata.permissions & SET_GROUP_ID != 0;
            if has_bit && caller.role_for(&metadata) == ChangedBy::Other {
                let set = SetAttributes {
                    permissions: Some(metadata.permissions & !SET_GROUP_ID),
                    ..SetAttributes::default()
                };
                volume.set_attributes(ino, &set)?;
            }
            Ok(())
        })
    }

    /// Removes an attribute.
    pub(crate) fn remove_xattr(&self, node: NodeId, name: &[u8]) -> Answer<()> {
        self.change("removexattr", node, |volume, ino| {
            volume.remove_xattr(ino, name)
        })
    }

    /// Sets the flags of chattr(1).
    pub(crate) fn set_flags(&self, node: NodeId, flags: u32) -> Answer<()> {
        self.change("ioctl", node, |volume, ino| volume.set_flags(ino, flags))
    }

    /// Sets the label.
    pub(crate) fn set_label(&self, label: &[u8]) -> Answer<()> {
        self.check_writable()?;
        self.with_inode("ioctl", NodeId::ROOT, |volume, _| volume.set_label(label))
    }

    /// Discards free space; returns the bytes discarded.
    pub(crate) fn trim(&self, bytes: std::ops::Range<u64>, min_bytes: u64) -> Answer<u64> {
        self.check_writable()?;
        self.with_inode("ioctl", NodeId::ROOT, |volume, _| {
            volume.trim(bytes, min_bytes)
        })
    }

    /// What a change is answered with, once it is durable if the mount is synchronous. `node` is
    /// what was changed: a file, or the directory of a name.
    fn settled<T>(&self, node: NodeId, answer: T) -> Answer<T> {
        if self.sync {
            self.sync(node, false)?;
        }
        Ok(answer)
    }

    /// Takes off a file what it may not keep when `caller` changes its content.
    fn remove_privileges(&self, caller: Caller, node: NodeId) -> Answer<()> {
        self.with_inode("setattr", node, |volume, ino| {
            let by = caller.role_for(&volume.metadata(ino)?);
            volume.remove_privileges(ino, by)
        })
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
