//! Operations on names: adding a name to a file, or giving it the name of another file.
//!
//! Model: `vfs_link`. Linux has no counterpart for replacing a name in one step. There, a program
//! links an unnamed file under a temporary name first, and then renames it (`AT_LINK_REPLACE` was
//! proposed for this, but never merged).

use super::names::{
    FIXED, MAX_LINKS, NAME_CREDITS, check_changeable, check_flags, check_name, check_project,
};
use super::unlink::check_removable;
use crate::live::{Live, lock_exclusively};
use crate::lookup::{check_not_itself, entry_of};
use crate::{Error, Ino, Metadata, Result, Volume};
use larder_ext4::Inode;

impl Volume {
    /// Adds a name to `ino`, which is not a directory.
    ///
    /// # Errors
    /// The same as for [`Volume::create`], and `EMLINK`, `EPERM`.
    pub fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Metadata> {
        self.link_as(ino, parent, name, false)
    }

    /// Gives `ino`, which is not a directory, the name of another file, which loses it. If no file
    /// has the name, this is the same as [`Volume::link`].
    ///
    /// The content of `ino` is written back first, and the name is replaced in one handle. After a
    /// crash, the name belongs to the old file, or to `ino` with all its content. Other names of
    /// the old file keep it. If it has none, it is deleted when it has no [holds](Volume::hold).
    ///
    /// # Errors
    /// The same as for [`Volume::link`], and `EISDIR` if a directory has the name. Nothing is
    /// changed then.
    pub fn link_replacing(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Metadata> {
        self.link_as(ino, parent, name, true)
    }

    fn link_as(&self, ino: Ino, parent: Ino, name: &[u8], may_replace: bool) -> Result<Metadata> {
        self.writer.change(|| {
            check_name(parent, name)?;
            let (dir, live) = (self.live(parent)?, self.live(ino)?);
            loop {
                // Looked up without locks here, and again under the locks.
                let found = if may_replace {
                    self.inodes.lookup(parent, name)?.map(|(old, _)| old)
                } else {
                    None
                };
                let replaced = found.filter(|old| *old != ino);
                let replaced = replaced.map(|old| self.live(old)).transpose()?;
                let _locked = lock_exclusively([&dir, &live].into_iter().chain(&replaced));
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

    /// Gives `live` the name, which `replaced` has. All are locked exclusively, and the link was
    /// checked.
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
            // After a crash, no file has the name without its content.
            self.writer.write_back.write_file(live)?;
        }
        self.change_name(dir, name, live, replaced)
    }

    /// Changes the name in one handle.
    fn change_name(
        &self,
        dir_live: &Live<'_>,
        name: &[u8],
        live: &Live<'_>,
        replaced: Option<&Live<'_>>,
    ) -> Result<()> {
        let fs = self.fs();
        let mut handle = fs.start(NAME_CREDITS)?;
        let (mut dir, mut inode) = (dir_live.inode()?, live.inode()?);
        let mut old = replaced.map(Live::inode).transpose()?;
        let entry = entry_of(&inode);
        if old.is_some() {
            fs.set_entry(&mut handle, &mut dir, name, entry)?;
        } else {
            fs.add_entry(&mut handle, &mut dir, name, entry)?;
        }
        if inode.links() == 0 {
            fs.remove_orphan(&mut handle, &mut inode)?;
        }
        inode.set_links(inode.links() + 1);
        inode.set_ctime(self.writer.now());
        self.writer.stamp(&mut dir);
        fs.write_inode(&mut handle, &inode)?;
        fs.write_inode(&mut handle, &dir)?;
        if let Some(old) = &mut old {
            self.writer.drop_name(&mut handle, old)?;
        }
        live.publish_attributes(&handle, &inode);
        dir_live.publish(&handle, &dir);
        if let (Some(live), Some(inode)) = (replaced, &old) {
            live.publish_attributes(&handle, inode);
        }
        handle.stop();
        self.inodes.insert_dentry(dir_live.ino(), name, Some(entry));
        if let (Some(live), Some(inode)) = (replaced, &old) {
            self.writer.delete_if_unused(live, inode);
        }
        Ok(())
    }
}

/// Refuses to link a file that must keep its names, or to add `name` where it is not allowed.
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
