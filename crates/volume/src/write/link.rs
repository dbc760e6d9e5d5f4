//! Adds a new name to a file, or transfers a name from another file to it.
//!
//! Model: `vfs_link`. Linux cannot link a file to a name that exists: a program must link the file
//! to a temporary name, and then rename it. `AT_LINK_REPLACE` was proposed for this purpose, but
//! never merged.

use super::names::{
    FIXED, MAX_LINKS, NAME_CREDITS, check_changeable, check_flags, check_name, check_project,
};
use super::unlink::check_removable;
use crate::live::{Live, lock_exclusively};
use crate::lookup::{check_not_itself, entry_of};
use crate::{Error, Ino, Metadata, Result, Volume};
use larder_ext4::Inode;

impl Volume {
    /// Adds the name `name` in the directory `parent` to `ino`, which must not be a directory. The
    /// name must not exist.
    ///
    /// # Errors
    /// The same as for [`Volume::create`], and also `EMLINK` and `EPERM`.
    pub fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Metadata> {
        self.link_as(ino, parent, name, false)
    }

    /// Adds the name `name` in the directory `parent` to `ino`, which must not be a directory. If
    /// another file has the name, removes the name from that file in the same step.
    ///
    /// The content of `ino` is written back first, and the name is replaced in one handle. After a
    /// crash, the name refers either to the old file or to `ino` with all its content. The old file
    /// is deleted when it has neither names nor [holds](Volume::hold).
    ///
    /// # Errors
    /// The same as for [`Volume::link`], except that the name may exist, and `EISDIR` if a
    /// directory has the name. After an error, no name is changed.
    pub fn link_replacing(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Metadata> {
        self.link_as(ino, parent, name, true)
    }

    fn link_as(&self, ino: Ino, parent: Ino, name: &[u8], may_replace: bool) -> Result<Metadata> {
        self.writer.change(|| {
            check_name(parent, name)?;
            let (dir, live) = (self.live(parent)?, self.live(ino)?);
            loop {
                // The name is looked up here without locks, and again below with the locks held.
                let found = if may_replace {
                    self.inodes.lookup(parent, name)?.map(|(old, _)| old)
                } else {
                    None
                };
                let replaced = found.filter(|old| *old != ino);
                let replaced = replaced.map(|old| self.live(old)).transpose()?;
                let _locked = lock_exclusively([&dir, &live].into_iter().chain(&replaced))?;
                check_link(&dir.inode()?, name, &live.inode()?)?;
                let present = self
                    .inodes
                    .lookup_locked(&dir.inode()?, name)?
                    .map(|(old, _)| old);
                if present.is_some() && !may_replace {
                    return Err(larder_ext4::Error::Exists(parent).into());
                }
                if present == found {
                    if present != Some(ino) {
                        self.link_locked(&dir, name, &live, replaced.as_ref(), may_replace)?;
                    }
                    return self.metadata(ino);
                }
            }
        })
    }

    /// Adds the name to `live`, and removes it from `replaced` if that is given. `rw` of all these
    /// inodes, and of `dir`, must be held exclusively, and [`check_link`] must have succeeded.
    fn link_locked(
        &self,
        dir: &Live<'_>,
        name: &[u8],
        live: &Live<'_>,
        replaced: Option<&Live<'_>>,
        may_replace: bool,
    ) -> Result<()> {
        if let Some(replaced) = replaced {
            check_not_itself(replaced.ino(), dir.ino())?;
            let inode = replaced.inode()?;
            if inode.is_directory() {
                return Err(Error::IsDirectory(inode.ino()));
            }
            check_removable(&dir.inode()?, name, &inode)?;
        }
        if may_replace {
            // Write the content first. Otherwise, after a crash, the name could refer to a file
            // without its content.
            self.writer.write_back.write_file(live)?;
        }
        self.change_name(dir, name, live, replaced)
    }

    /// Adds or replaces the name in one handle. Deletes a replaced file that then has neither names
    /// nor holds.
    fn change_name(
        &self,
        dir_live: &Live<'_>,
        name: &[u8],
        live: &Live<'_>,
        replaced: Option<&Live<'_>>,
    ) -> Result<()> {
        let fs = self.fs();
        let (handle, (dir, inode, old)) = fs.change(NAME_CREDITS, |handle| -> Result<_> {
            let (mut dir, mut inode) = (dir_live.inode()?, live.inode()?);
            let mut old = replaced.map(Live::inode).transpose()?;
            let entry = entry_of(&inode);
            if old.is_some() {
                fs.set_entry(handle, &mut dir, name, entry)?;
            } else {
                fs.add_entry(handle, &mut dir, name, entry)?;
            }
            if inode.links() == 0 {
                fs.remove_orphan(handle, &mut inode)?;
            }
            inode.set_links(inode.links() + 1);
            inode.set_ctime(self.writer.now());
            self.writer.stamp(&mut dir);
            fs.write_inode(handle, &inode)?;
            fs.write_inode(handle, &dir)?;
            if let Some(old) = &mut old {
                self.writer.drop_name(handle, old)?;
            }
            Ok((dir, inode, old))
        })?;
        live.publish_attributes(&handle, &inode);
        dir_live.publish(&handle, &dir);
        if let (Some(live), Some(inode)) = (replaced, &old) {
            live.publish_attributes(&handle, inode);
        }
        handle.stop();
        let entry = entry_of(&inode);
        self.inodes.insert_dentry(dir_live.ino(), name, Some(entry));
        if let (Some(live), Some(inode)) = (replaced, &old) {
            self.writer.delete_if_unused(live, inode);
        }
        Ok(())
    }
}

/// Returns an error if `inode` cannot have another name, or if `name` cannot be added to `dir`.
fn check_link(dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
    if inode.is_directory() {
        return Err(Error::NotPermitted(
            inode.ino(),
            "a directory cannot have hard links",
        ));
    }
    check_changeable(dir, name)?;
    check_flags(inode, FIXED)?;
    if inode.links() >= MAX_LINKS {
        return Err(larder_ext4::Error::TooManyLinks(inode.ino()).into());
    }
    check_project(dir, inode)
}
