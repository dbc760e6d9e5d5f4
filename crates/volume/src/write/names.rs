//! Creates files, and checks whether names may change. [`super::link`] adds and replaces names,
//! [`super::unlink`] removes names, and [`super::rename`] changes names.
//!
//! Model: `vfs_create` and related functions, with their counterparts in ext4. The kernel checks
//! permissions before it sends a FUSE request. This module and [`super::unlink`] check the
//! restrictions of the directory itself: immutable, append-only, removed.

use super::{DeviceNumber, FileKind, FileTimes, Make, NewFile};
use crate::lookup::{MAX_NAME_BYTES, entry_of};
use crate::{Error, Ino, Metadata, Result, Volume};
use larder_ext4::ondisk::features::RoCompat;
use larder_ext4::ondisk::inode::InodeFlags;
use larder_ext4::ondisk::superblock::Superblock;
use larder_ext4::{Handle, Inode, NewInode};

/// The credits of one operation on a name. In the worst case a leaf of the directory and each node
/// above it are split, a block is allocated and mapped for each split, and the inodes change.
pub(super) const NAME_CREDITS: u32 = 100;

/// The maximum length of the target of a symbolic link, in bytes.
const MAX_TARGET_BYTES: usize = 4095;

/// The maximum link count of a file, and the largest link count that is stored for a directory.
pub(super) const MAX_LINKS: u16 = 65_000;

/// The link count of a directory that has, or once had, more subdirectories than the link count can
/// represent.
const UNCOUNTED_LINKS: u16 = 1;

pub(super) const SET_GROUP_ID: u16 = 0o2000;

impl Volume {
    /// Creates a regular file with the name `name` in the directory `parent`. The name must not
    /// exist.
    ///
    /// # Errors
    /// `EEXIST`, `ENOSPC`, `EROFS`, …, or an error of the image.
    pub fn create(&self, parent: Ino, name: &[u8], new: &NewFile) -> Result<Metadata> {
        self.make(parent, name, Make::FILE, new)
    }

    /// Creates a directory with the name `name` in the directory `parent`.
    ///
    /// # Errors
    /// The same as for [`Volume::create`].
    pub fn make_dir(&self, parent: Ino, name: &[u8], new: &NewFile) -> Result<Metadata> {
        self.make(parent, name, Make::Directory, new)
    }

    /// Creates a symbolic link to `target`. The permissions of the link are always 0777.
    ///
    /// # Errors
    /// The same as for [`Volume::create`].
    pub fn symlink(
        &self,
        parent: Ino,
        name: &[u8],
        target: &[u8],
        new: &NewFile,
    ) -> Result<Metadata> {
        self.make(parent, name, Make::Symlink { target }, new)
    }

    /// Creates a file of the type `what` with the name `name` in the directory `parent`.
    ///
    /// # Errors
    /// The same as for [`Volume::create`].
    pub fn make(
        &self,
        parent: Ino,
        name: &[u8],
        what: Make<'_>,
        new: &NewFile,
    ) -> Result<Metadata> {
        self.make_named(parent, name, what, new, None)
    }

    /// Creates a file like [`Volume::make`], with exactly the attributes in `new` and the times in `times`. The file does
    /// not inherit the group or the access control lists of the directory, and `new.umask` is ignored. For copies of
    /// files, whose attributes would otherwise be set one after the other.
    ///
    /// # Errors
    /// The same as for [`Volume::create`].
    pub fn make_exactly(
        &self,
        parent: Ino,
        name: &[u8],
        what: Make<'_>,
        new: &NewFile,
        times: FileTimes,
    ) -> Result<Metadata> {
        self.make_named(parent, name, what, new, Some(times))
    }

    /// Creates a file. If `exact` is given, the file has these times, and inherits only flags.
    fn make_named(
        &self,
        parent: Ino,
        name: &[u8],
        what: Make<'_>,
        new: &NewFile,
        exact: Option<FileTimes>,
    ) -> Result<Metadata> {
        self.check_make(parent, what)?;
        self.writer.change(|| {
            check_name(parent, name)?;
            let dir_live = self.live(parent)?;
            let _names = dir_live.lock()?;
            let dir = dir_live.inode()?;
            check_changeable(&dir, name)?;
            if self.inodes.lookup_locked(&dir, name)?.is_some() {
                return Err(larder_ext4::Error::Exists(parent).into());
            }
            let is_directory = what.kind() == FileKind::Directory;
            let fs = self.fs();
            if is_directory {
                check_room_for_subdirectory(fs.superblock(), &dir)?;
            }
            let (handle, (dir, child)) = fs.change(NAME_CREDITS, |handle| -> Result<_> {
                let mut dir = dir_live.inode()?;
                let child = self.make_inode(handle, &dir, what, new, exact)?;
                fs.add_entry(handle, &mut dir, name, entry_of(&child))?;
                if is_directory {
                    add_subdirectory(&mut dir);
                }
                self.writer.stamp(&mut dir);
                fs.write_inode(handle, &dir)?;
                Ok((dir, child))
            })?;
            self.live(child.ino())?.publish(&handle, &child);
            dir_live.publish(&handle, &dir);
            handle.stop();
            self.inodes
                .insert_dentry(parent, name, Some(entry_of(&child)));
            Ok(self.metadata_of(&child))
        })
    }

    /// Returns an error if a file of the type `what` cannot be created in any directory.
    fn check_make(&self, parent: Ino, what: Make<'_>) -> Result<()> {
        match what {
            Make::Directory => Ok(()),
            Make::Symlink { target } => self.check_target(parent, target),
            Make::Node { kind, device } => check_node(parent, kind, device),
        }
    }

    /// Returns an error if `target` is not a valid target of a symbolic link.
    fn check_target(&self, parent: Ino, target: &[u8]) -> Result<()> {
        let block_size_bytes = self.fs().superblock().block_size_bytes() as usize;
        if target.is_empty() {
            return Err(Error::NotFound(String::new()));
        }
        let most_bytes = MAX_TARGET_BYTES.min(block_size_bytes - 1);
        if target.len() > most_bytes {
            return Err(larder_ext4::Error::TargetTooLong(most_bytes).into());
        }
        if target.contains(&0) {
            return Err(invalid(
                parent,
                "the target of the symbolic link contains a NUL byte",
            ));
        }
        Ok(())
    }

    /// Creates and writes the inode of a new file in `dir`. Does not add the name to `dir`. If `exact` is given, the file
    /// has these times, and inherits only flags.
    pub(super) fn make_inode(
        &self,
        handle: &mut Handle<'_>,
        dir: &Inode,
        what: Make<'_>,
        new: &NewFile,
        exact: Option<FileTimes>,
    ) -> Result<Inode> {
        let fs = self.fs();
        let inherits_group = exact.is_none() && dir.mode() & SET_GROUP_ID != 0;
        let mut permissions = new.permissions & 0o7777;
        let mut device = None;
        match what {
            Make::Directory if inherits_group => permissions |= SET_GROUP_ID,
            Make::Directory => {}
            Make::Symlink { .. } => permissions = 0o777,
            Make::Node { device: of, .. } => device = of,
        }
        let new_inode = NewInode {
            kind: what.kind(),
            permissions,
            uid: new.uid,
            gid: if inherits_group { dir.gid() } else { new.gid },
            device,
            now: self.writer.now(),
        };
        let mut inode = fs.create_inode(handle, dir, &new_inode)?;
        match what {
            Make::Node { .. } => {}
            Make::Directory => {
                // The dentry cache may contain the entry ".." of a deleted directory that had the
                // same inode number.
                self.inodes.remove_parent_dentry(inode.ino());
                fs.init_directory(handle, &mut inode, dir.ino())?;
            }
            Make::Symlink { target } => fs.write_link(handle, &mut inode, target)?,
        }
        match exact {
            Some(times) => {
                inode.set_atime(times.accessed);
                inode.set_mtime(times.modified);
            }
            None if what.kind() == FileKind::Symlink => {}
            None => fs.inherit_acl(handle, dir, &mut inode, new.umask)?,
        }
        fs.write_inode(handle, &inode)?;
        Ok(inode)
    }

    /// Creates a file without a name, like open(2) with `O_TMPFILE`. The file can have any type
    /// except directory. [`Volume::link`] can add a name. A file that still has no name is deleted
    /// when its last [hold](Volume::hold) is released.
    ///
    /// # Errors
    /// The same as for [`Volume::create`].
    pub fn make_unnamed(&self, parent: Ino, what: Make<'_>, new: &NewFile) -> Result<Metadata> {
        self.check_make(parent, what)?;
        if what == Make::Directory {
            return Err(invalid(
                parent,
                "a directory cannot be created without a name",
            ));
        }
        self.writer.change(|| {
            let dir_live = self.live(parent)?;
            let _names = dir_live.lock_shared()?;
            let dir = dir_live.inode()?;
            check_changeable(&dir, b"")?;
            let fs = self.fs();
            let (handle, inode) = fs.change(NAME_CREDITS, |handle| -> Result<_> {
                let mut inode = self.make_inode(handle, &dir, what, new, None)?;
                inode.set_links(0);
                fs.add_orphan(handle, &mut inode)?;
                fs.write_inode(handle, &inode)?;
                Ok(inode)
            })?;
            self.live(inode.ino())?.publish(&handle, &inode);
            handle.stop();
            Ok(self.metadata_of(&inode))
        })
    }
}

/// Returns an error if `dir` cannot have one more subdirectory.
pub(super) fn check_room_for_subdirectory(sb: &Superblock, dir: &Inode) -> Result<()> {
    let may_be_uncounted =
        sb.ro_compat.contains(RoCompat::DIR_NLINK) && dir.flags().contains(InodeFlags::INDEX);
    if dir.links() >= MAX_LINKS && !may_be_uncounted {
        return Err(larder_ext4::Error::TooManyLinks(dir.ino()).into());
    }
    Ok(())
}

/// Returns an error if mknod(2) cannot create a file of type `kind`, or if `kind` does not match
/// `device`.
fn check_node(parent: Ino, kind: FileKind, device: Option<DeviceNumber>) -> Result<()> {
    if matches!(kind, FileKind::Directory | FileKind::Symlink) {
        return Err(invalid(
            parent,
            "a node cannot be a directory or a symbolic link",
        ));
    }
    let is_device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
    if is_device != device.is_some() {
        return Err(invalid(
            parent,
            "a device number is required for devices, and invalid for other files",
        ));
    }
    Ok(())
}

/// Adds one subdirectory to the link count of `dir`. At [`MAX_LINKS`], sets the count to
/// [`UNCOUNTED_LINKS`]. From then on, subdirectories are not counted any more.
pub(super) fn add_subdirectory(dir: &mut Inode) {
    match dir.links() {
        UNCOUNTED_LINKS => {}
        links if links >= MAX_LINKS => dir.set_links(UNCOUNTED_LINKS),
        links => dir.set_links(links + 1),
    }
}

/// Subtracts one subdirectory of `dir` from its link count. Keeps a count of 2, which means no
/// subdirectories, and [`UNCOUNTED_LINKS`].
pub(super) fn remove_subdirectory(dir: &mut Inode) {
    if dir.links() > 2 {
        dir.set_links(dir.links() - 1);
    }
}

/// The flags that protect a file and its names from changes.
pub(super) const FIXED: InodeFlags = InodeFlags::IMMUTABLE.union(InodeFlags::APPEND);

/// Returns an error if the file has one of the flags `forbidding`.
pub(super) fn check_flags(inode: &Inode, forbidding: InodeFlags) -> Result<()> {
    if inode.flags().intersects(forbidding) {
        let what = "the file is immutable or append-only";
        return Err(Error::NotPermitted(inode.ino(), what));
    }
    Ok(())
}

/// Returns an error if `name` is not a valid name for a new entry.
pub(super) fn check_name(dir: Ino, name: &[u8]) -> Result<()> {
    if name.len() > MAX_NAME_BYTES {
        return Err(larder_ext4::Error::NameTooLong(dir).into());
    }
    if name.is_empty() || name.iter().any(|&byte| matches!(byte, 0 | b'/')) {
        return Err(invalid(
            dir,
            "the file name is empty, or contains a slash or a NUL byte",
        ));
    }
    Ok(())
}

/// Returns an error if `name` cannot be added to or removed from `dir`, because `dir` is not a
/// directory, was removed or is immutable, or because `name` is "." or "..".
pub(super) fn check_changeable(dir: &Inode, name: &[u8]) -> Result<()> {
    if !dir.is_directory() {
        return Err(larder_ext4::Error::NotDirectory(dir.ino()).into());
    }
    if matches!(name, b"." | b"..") {
        return Err(larder_ext4::Error::Exists(dir.ino()).into());
    }
    if dir.links() == 0 {
        return Err(Error::not_found(name));
    }
    if dir.flags().contains(InodeFlags::IMMUTABLE) {
        let what = "the directory is immutable";
        return Err(Error::NotPermitted(dir.ino(), what));
    }
    Ok(())
}

/// Returns an error if files in `dir` inherit its project, and `inode` belongs to another project.
pub(super) fn check_project(dir: &Inode, inode: &Inode) -> Result<()> {
    let inherits = dir.flags().contains(InodeFlags::PROJINHERIT);
    if inherits && dir.project_id() != inode.project_id() {
        return Err(Error::OtherProject(inode.ino()));
    }
    Ok(())
}

pub(super) fn invalid(ino: Ino, what: &'static str) -> Error {
    larder_ext4::Error::Invalid(ino, what).into()
}
