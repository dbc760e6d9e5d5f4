//! Sets the attributes, extended attributes and flags of files, and the label of the volume.
//!
//! Model: `notify_change` with `ext4_setattr`, `vfs_setxattr`, `set_posix_acl`,
//! `ext4_ioctl_setflags`. The kernel checks permissions before it sends a FUSE request. This module
//! checks the restrictions of the file itself: immutable, append-only.

use super::names::{FIXED, SET_GROUP_ID, check_flags};
use super::{ChangedBy, SetAttributes, SetTime, XattrMode};
use crate::live::Live;
use crate::volume::permits_xattr;
use crate::{Errno, Error, FileKind, Ino, Metadata, Result, Volume, access_list};
use larder_ext4::ondisk::acl::Acl;
use larder_ext4::ondisk::inode::InodeFlags;
use larder_ext4::{Handle, Inode, MAX_XATTR_VALUE_BYTES, XattrOffer, check_xattr_name_length};

const ACCESS_LIST: &[u8] = access_list::ACCESS.as_bytes();
const DEFAULT_LIST: &[u8] = access_list::DEFAULT.as_bytes();
/// The extended attribute with the capabilities that a program file grants in addition to the
/// rights of its user. A change of the file's content or owner removes the attribute.
const CAPABILITY: &[u8] = b"security.capability";

const SET_USER_ID: u16 = 0o4000;
const GROUP_EXECUTES: u16 = 0o010;
const PERMISSIONS: u16 = 0o7777;

/// The flags that chattr(1) can set on directories. On other files, chattr can set only some of
/// these flags.
const SETTABLE: InodeFlags = InodeFlags::SECRM
    .union(InodeFlags::UNRM)
    .union(InodeFlags::COMPR)
    .union(InodeFlags::SYNC)
    .union(InodeFlags::IMMUTABLE)
    .union(InodeFlags::APPEND)
    .union(InodeFlags::NODUMP)
    .union(InodeFlags::NOATIME)
    .union(InodeFlags::JOURNAL_DATA)
    .union(InodeFlags::NOTAIL)
    .union(DIRECTORY_FLAGS);

/// The flags that can be set only on directories.
const DIRECTORY_FLAGS: InodeFlags = InodeFlags::DIRSYNC
    .union(InodeFlags::TOPDIR)
    .union(InodeFlags::PROJINHERIT);

/// The flags that can be set on files that are neither regular files nor directories.
const SPECIAL_FILE_FLAGS: InodeFlags = InodeFlags::NODUMP.union(InodeFlags::NOATIME);

impl Volume {
    /// Sets the attributes that are given in `set`, and returns all attributes. A change of the
    /// owner or size also removes capabilities and, depending on `set.by`, set-id bits.
    ///
    /// # Errors
    /// `EROFS`, `EPERM` on an immutable file, …, or an error of the image.
    pub fn set_attributes(&self, ino: Ino, set: &SetAttributes) -> Result<Metadata> {
        self.writer.change(|| {
            check_settable(&self.live(ino)?.present()?, set)?;
            if let Some(size_bytes) = set.size_bytes {
                self.remove_privileges(ino, set.by)?;
                self.truncate(ino, size_bytes)?;
            }
            let changes_more = SetAttributes {
                size_bytes: None,
                by: ChangedBy::default(),
                ..*set
            } != SetAttributes::default();
            if changes_more {
                self.change_inode(ino, |handle, inode| {
                    check_settable(inode, set)?;
                    self.apply(handle, inode, set)
                })?;
            }
            self.metadata(ino)
        })
    }

    /// Applies all attributes in `set` to `inode`, except for the size.
    fn apply(&self, handle: &mut Handle<'_>, inode: &mut Inode, set: &SetAttributes) -> Result<()> {
        let now = self.writer.now();
        let time = |set: SetTime| match set {
            SetTime::Now => now,
            SetTime::To(time) => time,
        };
        inode.set_ctime(set.ctime.unwrap_or(now));
        if let Some(time) = set.atime.map(time) {
            inode.set_atime(time);
        }
        if let Some(time) = set.mtime.map(time) {
            inode.set_mtime(time);
        }
        if let Some(uid) = set.uid {
            inode.set_uid(uid);
        }
        if let Some(gid) = set.gid {
            inode.set_gid(gid);
        }
        let changes_owner = set.uid.is_some() || set.gid.is_some();
        if changes_owner && !inode.is_directory() {
            let keeps_set_group_id = set.by != ChangedBy::Other;
            inode.set_mode(without_set_id(inode.mode(), keeps_set_group_id));
            self.remove_if_set(handle, inode, CAPABILITY)?;
        }
        if let Some(permissions) = set.permissions {
            self.set_permissions(handle, inode, permissions)?;
        }
        Ok(())
    }

    /// Sets the permissions of `inode`, and updates its access control list to match.
    fn set_permissions(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        permissions: u16,
    ) -> Result<()> {
        let mode = (inode.mode() & !PERMISSIONS) | (permissions & PERMISSIONS);
        inode.set_mode(mode);
        if inode.kind() == FileKind::Symlink {
            return Ok(());
        }
        if let Some(mut list) = self.fs().access_acl(inode)? {
            list.follow_mode(mode);
            let value = list.to_user();
            self.fs()
                .set_xattr(handle, inode, ACCESS_LIST, &value, XattrMode::Any)?;
        }
        Ok(())
    }

    /// Removes the capabilities of a regular file, and its set-id bits as `by` specifies. Must be
    /// called before a change of the content.
    ///
    /// # Errors
    /// `EPERM` on an immutable file, or an error of the image.
    pub fn remove_privileges(&self, ino: Ino, by: ChangedBy) -> Result<()> {
        let without = |mode| match by {
            ChangedBy::Privileged => mode,
            ChangedBy::GroupMember => without_set_id(mode, true),
            ChangedBy::Other => without_set_id(mode, false),
        };
        self.writer.change(|| {
            let is_privileged = self.inodes.with_inode(ino, |inode| {
                let has_bits = without(inode.mode()) != inode.mode();
                let capability = || self.fs().xattr(inode, CAPABILITY, XattrOffer::UnderLock);
                Ok(inode.kind() == FileKind::Regular && (has_bits || capability()?.is_some()))
            })?;
            if !is_privileged {
                return Ok(());
            }
            self.change_inode(ino, |handle, inode| {
                check_flags(inode, InodeFlags::IMMUTABLE)?;
                inode.set_ctime(self.writer.now());
                inode.set_mode(without(inode.mode()));
                self.remove_if_set(handle, inode, CAPABILITY)
            })
        })
    }

    /// Sets the extended attribute `name`, which includes the prefix. An access ACL
    /// (`system.posix_acl_access`) also changes the mode.
    ///
    /// # Errors
    /// `EEXIST`, `ENODATA`, `ENOSPC`, `E2BIG` if the value is longer than 64 KiB, those of
    /// [`Volume::xattr`], …, or an error of the image.
    pub fn set_xattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        check_xattr_name_length(ino, name)?;
        if value.len() > MAX_XATTR_VALUE_BYTES as usize {
            return Err(Error::Errno(Errno::TOOBIG));
        }
        self.writer.change(|| {
            let live = self.live(ino)?;
            let _exclusive = live.lock()?;
            let inode = live.inode()?;
            check_xattr(&inode, name)?;
            if access_list::is_list(name) {
                return self.change_and_write(&live, |handle, inode| {
                    self.set_acl(handle, inode, name, value)
                });
            }
            let Some(change) = self.fs().plan_set_xattr(&inode, name, value, mode)? else {
                return Ok(());
            };
            self.change_locked(&live, |handle, inode| {
                inode.set_ctime(self.writer.now());
                Ok(self.fs().change_xattrs(handle, inode, change.clone())?)
            })
        })
    }

    /// Sets the access control list `name` from `value`, which is in the format of setxattr(2).
    /// Removes the list if `value` contains no more than the mode can express.
    fn set_acl(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        name: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let ino = inode.ino();
        let mut list = Acl::from_user(ino, value)?;
        if name == DEFAULT_LIST && !inode.is_directory() {
            return match list {
                None => Ok(()),
                Some(_) => Err(Error::DefaultAclOfFile(ino)),
            };
        }
        if let Some(list) = &list {
            let invalid = |what| larder_ext4::Error::Invalid(ino, what);
            list.check().map_err(invalid)?;
        }
        inode.set_ctime(self.writer.now());
        if name == ACCESS_LIST {
            if let Some(list) = &list {
                inode.set_mode(list.apply_to_mode(inode.mode()));
            }
            list = list.filter(|list| !list.is_mode());
        }
        match list {
            Some(_) => self
                .fs()
                .set_xattr(handle, inode, name, value, XattrMode::Any)?,
            None => self.remove_if_set(handle, inode, name)?,
        }
        Ok(())
    }

    /// Removes the extended attribute `name` if it exists.
    fn remove_if_set(&self, handle: &mut Handle<'_>, inode: &mut Inode, name: &[u8]) -> Result<()> {
        match self.fs().remove_xattr(handle, inode, name) {
            Err(larder_ext4::Error::NoAttribute(_)) => Ok(()),
            removed => Ok(removed?),
        }
    }

    /// Removes the extended attribute `name`.
    ///
    /// # Errors
    /// `ENODATA` if the attribute does not exist and is not an access control list, …, or an error
    /// of the image.
    pub fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        check_xattr_name_length(ino, name)?;
        self.writer.change(|| {
            self.change_inode(ino, |handle, inode| {
                check_xattr(inode, name)?;
                inode.set_ctime(self.writer.now());
                if access_list::is_list(name) {
                    return self.remove_if_set(handle, inode, name);
                }
                Ok(self.fs().remove_xattr(handle, inode, name)?)
            })
        })
    }

    /// Sets the flags that chattr(1) can set to their values in `flags`, like `FS_IOC_SETFLAGS`.
    /// All other flags keep their values: `flags` may contain one of them only if it is already
    /// set.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if `flags` requires a change that is not supported, …, or an error of the
    /// image.
    pub fn set_flags(&self, ino: Ino, flags: u32) -> Result<()> {
        self.writer.change(|| {
            let wanted = InodeFlags::from_bits_retain(flags);
            self.change_inode(ino, |_, inode| {
                inode.set_flags(changed_flags(inode, wanted)?);
                inode.set_ctime(self.writer.now());
                Ok(())
            })
        })
    }

    /// Returns the current label of the volume.
    ///
    /// # Errors
    /// An error of the image.
    pub fn label(&self) -> Result<Vec<u8>> {
        Ok(self.fs().label()?)
    }

    /// Sets the label of the volume, which can have at most 16 bytes.
    ///
    /// # Errors
    /// `EINVAL`, `EROFS`, or an error of the image.
    pub fn set_label(&self, label: &[u8]) -> Result<()> {
        self.writer.change(|| {
            let (handle, ()) = self
                .fs()
                .change(1, |handle| self.fs().set_label(handle, label))?;
            handle.stop();
            Ok(())
        })
    }

    /// Locks `rw` of the inode `ino` exclusively, calls `change` in one handle, and writes the
    /// inode if it differs.
    fn change_inode(
        &self,
        ino: Ino,
        change: impl FnMut(&mut Handle<'_>, &mut Inode) -> Result<()>,
    ) -> Result<()> {
        let live = self.live(ino)?;
        let _exclusive = live.lock()?;
        self.change_and_write(&live, change)
    }

    /// Calls `change` in one handle, and writes the inode if it differs. The caller must hold `rw`
    /// exclusively.
    fn change_and_write(
        &self,
        live: &Live<'_>,
        mut change: impl FnMut(&mut Handle<'_>, &mut Inode) -> Result<()>,
    ) -> Result<()> {
        self.change_locked(live, |handle, inode| {
            let before = *inode;
            change(handle, inode)?;
            if *inode != before {
                self.fs().write_inode(handle, inode)?;
            }
            Ok(())
        })
    }

    /// Calls `change` in one handle, and publishes the inode if anything changed. `change` must
    /// write the inode. The caller must hold `rw` exclusively.
    fn change_locked(
        &self,
        live: &Live<'_>,
        mut change: impl FnMut(&mut Handle<'_>, &mut Inode) -> Result<()>,
    ) -> Result<()> {
        let credits = self.fs().xattr_credits(&live.inode()?);
        let (handle, (before, inode)) = self.fs().change(credits, |handle| -> Result<_> {
            let before = live.inode()?;
            let mut inode = before;
            change(handle, &mut inode)?;
            Ok((before, inode))
        })?;
        // If a change affects only an attribute block, the inode may be unchanged: even the time is
        // the same if it was set within the resolution of the clock. Compare the credits to detect
        // such a change.
        if inode != before || handle.credits() != credits {
            live.publish_attributes(&handle, &inode);
        }
        handle.stop();
        Ok(())
    }
}

/// Returns `mode` without the set-id bits. With `keeps_set_group_id`, keeps the set-group-id bit if
/// the group cannot execute the file, because the bit then does not change the rights with which
/// the file runs.
fn without_set_id(mode: u16, keeps_set_group_id: bool) -> u16 {
    if keeps_set_group_id && mode & GROUP_EXECUTES == 0 {
        mode & !SET_USER_ID
    } else {
        mode & !(SET_USER_ID | SET_GROUP_ID)
    }
}

/// Returns an error if the flags of the file forbid one of the changes in `set`.
fn check_settable(inode: &Inode, set: &SetAttributes) -> Result<()> {
    // A caller that sets `ctime` reports the times of earlier changes, which the flags did not
    // forbid.
    let is_report = set.ctime.is_some();
    let now = Some(SetTime::Now);
    let touches = set.atime == now && set.mtime == now;
    let sets_times = !touches && (set.atime.is_some() || set.mtime.is_some());
    let sets_more = set.permissions.is_some() || set.uid.is_some() || set.gid.is_some();
    let forbidding = if sets_more || set.size_bytes.is_some() || (sets_times && !is_report) {
        FIXED
    } else if touches && !is_report {
        InodeFlags::IMMUTABLE
    } else {
        InodeFlags::empty()
    };
    check_flags(inode, forbidding)
}

/// Returns an error if the file cannot have the extended attribute `name`, or if its attributes are
/// protected from changes.
fn check_xattr(inode: &Inode, name: &[u8]) -> Result<()> {
    check_flags(inode, FIXED)?;
    if !permits_xattr(inode, name) {
        let what = "only regular files and directories can have user.* attributes";
        return Err(Error::NotPermitted(inode.ino(), what));
    }
    access_list::check(inode, name)
}

/// Returns the flags that `inode` has after a request to set its flags to `wanted`.
fn changed_flags(inode: &Inode, wanted: InodeFlags) -> Result<InodeFlags> {
    let old = inode.flags();
    let settable = match inode.kind() {
        FileKind::Directory => SETTABLE,
        FileKind::Regular => SETTABLE - DIRECTORY_FLAGS,
        _ => SPECIAL_FILE_FLAGS,
    };
    let unknown = wanted - old - settable;
    // The kernel can convert between extents and block maps. This is not implemented here.
    let other_mapping = (wanted ^ old) & InodeFlags::EXTENTS;
    if !unknown.is_empty() || !other_mapping.is_empty() {
        let what = "setting or clearing these flags on this file";
        return Err(larder_ext4::Error::NotSupported(inode.ino(), what).into());
    }
    let new = (old - settable) | (wanted & settable);
    // While the immutable flag remains set, no other flag can change.
    if (old & new).contains(InodeFlags::IMMUTABLE) && old != new {
        check_flags(inode, InodeFlags::IMMUTABLE)?;
    }
    Ok(new)
}
