//! The operations of a mount that change its volume.
//!
//! The kernel has already checked permissions, unless the mount has the option `fakeroot`. The server only
//! decides which set-id bits a file keeps after a change. The kernel leaves this decision to the server
//! (`FUSE_HANDLE_KILLPRIV_V2`). The kernel does not pass the caller's supplementary groups, so the server
//! looks them up.
//!
//! With `-o sync`, each change is made durable before the reply is sent ([`Operations::synced`]). Writes
//! are an exception, because the kernel knows the option and sends an fsync after each write.

use crate::node::NodeId;
use crate::operations::{Answer, Entry, Operations, inode_of};
use larder::{
    ChangedBy, Fallocate, Ino, Make, Metadata, NewFile, RenameFlags, SetAttributes, Volume,
    XattrMode,
};
use rustix::io::Errno;

/// The maximum number of bytes that one request copies. `copy_file_range` may copy less than requested; the
/// program then calls it again for the rest.
const COPY_BYTES: u64 = 64 << 20;
/// The set-group-id bit of a mode.
const SET_GROUP_ID: u16 = 0o2000;
/// The name of the attribute that contains an access control list.
const ACCESS_LIST: &[u8] = b"system.posix_acl_access";

/// Whether a write may write fewer bytes than requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// The write may be short. The writer is a program, which writes the rest with another system call.
    Short,
    /// The write must write all bytes or return an error. The writer is the kernel, which writes back its
    /// cache. msync(2) and fsync(2) can report an error, but not a short write.
    All,
}

/// The process that sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The user ID.
    pub uid: u32,
    /// The group ID.
    pub gid: u32,
    /// The ID of the calling thread, or 0 if the thread is not visible in the server's PID namespace.
    pub thread: u32,
}

impl Caller {
    fn is_root(self) -> bool {
        self.uid == 0
    }

    /// Returns whether the caller is in group `gid`. Supplementary groups are read from /proc, because the
    /// protocol does not pass them. A caller that is not in /proc is treated as if it had no supplementary
    /// groups.
    fn is_in_group(self, gid: u32) -> bool {
        self.gid == gid
            || std::fs::read_to_string(format!("/proc/{}/status", self.thread))
                .is_ok_and(|status| groups_of(&status).any(|group| group == gid))
    }

    /// Returns the privileges that the caller has for the file with `metadata`.
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
    /// The name, which may contain any bytes except `/` and NUL.
    pub name: &'a [u8],
}

impl Operations {
    /// Fails with `EROFS` on a read-only mount.
    fn check_writable(&self) -> Answer<()> {
        if self.can_write() {
            Ok(())
        } else {
            Err(Errno::ROFS)
        }
    }

    /// Runs `change` on the inode of `node`. On a mount with `-o sync`, makes the change durable.
    fn change<T>(
        &self,
        operation: &'static str,
        node: NodeId,
        change: impl FnOnce(&Volume, Ino) -> larder::Result<T>,
    ) -> Answer<T> {
        self.check_writable()?;
        let answer = self.with_inode(operation, node, change)?;
        self.synced(node, answer)
    }

    /// Creates a directory, a symbolic link or a special file.
    pub(crate) fn make(
        &self,
        entry_name: Name<'_>,
        what: Make<'_>,
        new: &NewFile,
    ) -> Answer<Entry> {
        let Name { parent, name } = entry_name;
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

    /// Creates a regular file without a name, in the file system of the directory `parent`.
    pub(crate) fn make_unnamed(&self, parent: NodeId, new: &NewFile) -> Answer<Entry> {
        let made = self.change("tmpfile", parent, |volume, parent| {
            volume.make_unnamed(parent, Make::FILE, new)
        });
        made.map(entry_of)
    }

    /// Creates a hard link to a file.
    pub(crate) fn link(&self, node: NodeId, entry_name: Name<'_>) -> Answer<Entry> {
        self.check_writable()?;
        let parent = inode_of(entry_name.parent)?;
        let linked = self.with_inode("link", node, |volume, ino| {
            volume.link(ino, parent, entry_name.name)
        })?;
        self.synced(entry_name.parent, entry_of(linked))
    }

    /// Removes the name of a file that is not a directory.
    pub(crate) fn unlink(&self, entry_name: Name<'_>) -> Answer<()> {
        self.change("unlink", entry_name.parent, |volume, parent| {
            volume.unlink(parent, entry_name.name).map(drop)
        })
    }

    /// Removes an empty directory.
    pub(crate) fn remove_dir(&self, entry_name: Name<'_>) -> Answer<()> {
        self.change("rmdir", entry_name.parent, |volume, parent| {
            volume.remove_dir(parent, entry_name.name).map(drop)
        })
    }

    /// Renames a file, with the flags of renameat2(2).
    pub(crate) fn rename(
        &self,
        caller: Caller,
        old: Name<'_>,
        new: Name<'_>,
        flags: u32,
    ) -> Answer<()> {
        self.check_writable()?;
        let flags = RenameFlags::from_bits(flags).ok_or(Errno::INVAL)?;
        let to = inode_of(new.parent)?;
        self.with_inode("rename", old.parent, |volume, from| {
            let by = (caller.uid, caller.gid);
            volume.rename_by(by, from, old.name, to, new.name, flags)
        })?;
        self.synced(new.parent, ())
    }

    /// Sets the attributes that stat(2) returns.
    ///
    /// If chown(2) is called with neither an owner nor a group, the kernel sends a request with no
    /// attribute or with only the change time. Such a request removes set-id bits only if the caller is the
    /// owner of the file, and is not root. The bits must be kept in two other cases, in which the kernel
    /// sends the same request:
    ///
    /// - A user who does not own the file calls chown(2). ext4 would deny this call.
    /// - Root is about to write to the file.
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
            let is_empty_chown =
                *set == times_alone && by != ChangedBy::Privileged && caller.uid == present.uid;
            let uid = set.uid.or(is_empty_chown.then_some(present.uid));
            volume.set_attributes(ino, &SetAttributes { by, uid, ..*set })
        })
    }

    /// Writes `buf` at an offset in bytes, and returns the number of bytes written. If the kernel requests
    /// that the set-id bits be removed, `unprivileged` is the writer. Otherwise it is `None`.
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
                // With direct I/O, the kernel does not remove capabilities before root writes.
                volume.remove_privileges(ino, ChangedBy::Privileged)?;
            }
            match count {
                Count::Short => volume.write_at(ino, buf, offset_bytes),
                Count::All => {
                    volume.write_accepted_at(ino, buf, offset_bytes)?;
                    Ok(buf.len())
                }
            }
        })
    }

    /// Allocates, removes or moves a range of a file.
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

    /// Copies at most `len_bytes` from one file to another, and returns the number of bytes copied.
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

    /// Makes all changes of a file or a directory durable. On a read-only mount, has no effect.
    pub(crate) fn sync(&self, node: NodeId, data_only: bool) -> Answer<()> {
        if !self.can_write() {
            return Ok(());
        }
        self.with_inode("fsync", node, |volume, ino| {
            volume.sync_file(ino, data_only)
        })
    }

    /// Sets an extended attribute. If the attribute is an access control list and the caller is not in the
    /// file's group, removes the set-group-id bit, as chmod(2) does.
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

    /// Removes an extended attribute.
    pub(crate) fn remove_xattr(&self, node: NodeId, name: &[u8]) -> Answer<()> {
        self.change("removexattr", node, |volume, ino| {
            volume.remove_xattr(ino, name)
        })
    }

    /// Sets the flags of chattr(1).
    pub(crate) fn set_flags(&self, node: NodeId, flags: u32) -> Answer<()> {
        self.change("ioctl", node, |volume, ino| volume.set_flags(ino, flags))
    }

    /// Sets the label of the volume.
    pub(crate) fn set_label(&self, label: &[u8]) -> Answer<()> {
        self.check_writable()?;
        self.with_inode("ioctl", NodeId::ROOT, |volume, _| volume.set_label(label))
    }

    /// Discards the free space in the range `bytes`, in runs of at least `min_bytes`, and returns the number
    /// of bytes discarded.
    pub(crate) fn trim(&self, bytes: std::ops::Range<u64>, min_bytes: u64) -> Answer<u64> {
        self.check_writable()?;
        self.with_inode("ioctl", NodeId::ROOT, |volume, _| {
            volume.trim(bytes, min_bytes)
        })
    }

    /// Returns `answer`. On a mount with `-o sync`, first makes the changes of `node` durable. `node` must be
    /// the changed file, or the directory in which a name was changed.
    fn synced<T>(&self, node: NodeId, answer: T) -> Answer<T> {
        if self.sync {
            self.sync(node, false)?;
        }
        Ok(answer)
    }

    /// Removes the set-id bits and capabilities that a file must lose when `caller` changes its
    /// content.
    fn remove_privileges(&self, caller: Caller, node: NodeId) -> Answer<()> {
        self.with_inode("setattr", node, |volume, ino| {
            let by = caller.role_for(&volume.metadata(ino)?);
            volume.remove_privileges(ino, by)
        })
    }
}

/// Returns the supplementary groups in `status`, the text of /proc/PID/status.
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
