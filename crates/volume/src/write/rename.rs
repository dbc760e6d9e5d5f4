//! Renames files.
//!
//! Model: `vfs_rename` and `ext4_rename2`.
//!
//! # Locking
//! The volume has one lock for renames. A rename takes it if a directory moves, or if any file moves
//! from one directory to another, so that the ancestors of a directory do not change during the
//! rename. The rename then locks `rw` of both directories, of the moved inode, and of the inode that
//! has the new name, in the order of the inode numbers. It looks up both names before it takes these
//! locks, and again while it holds them. If a result differs, the rename starts again.

use super::names::{
    NAME_CREDITS, add_subdirectory, check_changeable, check_name, check_project,
    check_room_for_subdirectory, invalid, remove_subdirectory,
};
use super::unlink::check_removable;
use super::{FileKind, Make, NewFile, RenameFlags};
use crate::live::{Live, lock_exclusively};
use crate::lookup::{Entry, check_not_itself, entry_of};
use crate::{Error, Ino, Result, Volume};
use larder_ext4::{DeviceNumber, FileTypeByte, Handle, Inode};

/// The maximum number of directories on a path to the root. A longer path is treated as a loop.
const MAX_DEPTH: usize = 1 << 16;

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
struct Name<'a> {
    dir: Ino,
    name: &'a [u8],
}

/// The arguments of a rename, with the live inodes of both directories.
struct Rename<'v, 'a> {
    volume: &'v Volume,
    from: Name<'a>,
    to: Name<'a>,
    flags: RenameFlags,
    /// The user and the group who own the whiteout.
    whiteout_owner: (u32, u32),
    /// The directory of the old name, followed by the directory of the new name if it is a
    /// different one.
    dirs: Vec<Live<'v>>,
}

/// The inodes that a rename changes, in the state that its handle writes. `other` is the inode that
/// has the new name before the rename, if there is one.
struct Changed {
    dirs: Vec<Inode>,
    moved: Inode,
    other: Option<Inode>,
    /// The whiteout that receives the old name, if [`RenameFlags::WHITEOUT`] is set.
    whiteout: Option<Inode>,
}

impl Volume {
    /// Renames a file, like renameat2(2) of root.
    ///
    /// # Errors
    /// The same as for rename(2), or an error of the image.
    pub fn rename(
        &self,
        parent: Ino,
        name: &[u8],
        new_parent: Ino,
        new_name: &[u8],
        flags: RenameFlags,
    ) -> Result<()> {
        self.rename_by((0, 0), parent, name, new_parent, new_name, flags)
    }

    /// Renames a file, like renameat2(2) of a user and a group, who own the whiteout if [`RenameFlags::WHITEOUT`] is set.
    ///
    /// # Errors
    /// The same as for [`Volume::rename`].
    pub fn rename_by(
        &self,
        (uid, gid): (u32, u32),
        parent: Ino,
        name: &[u8],
        new_parent: Ino,
        new_name: &[u8],
        flags: RenameFlags,
    ) -> Result<()> {
        let excluded = RenameFlags::NOREPLACE | RenameFlags::WHITEOUT;
        if flags.contains(RenameFlags::EXCHANGE) && flags.intersects(excluded) {
            return Err(invalid(
                parent,
                "RENAME_EXCHANGE excludes RENAME_NOREPLACE and RENAME_WHITEOUT",
            ));
        }
        check_name(parent, name)?;
        check_name(new_parent, new_name)?;
        let is_dots = |name: &[u8]| matches!(name, b"." | b"..");
        if is_dots(name) || is_dots(new_name) {
            return Err(Error::Busy(parent));
        }
        let from = Name { dir: parent, name };
        let to = Name {
            dir: new_parent,
            name: new_name,
        };
        let live = self.inodes.live.as_ref();
        let live = live.ok_or(larder_ext4::Error::ReadOnly(None))?;
        self.writer.change(|| {
            let mut may_move_directories = parent != new_parent;
            loop {
                let tree = may_move_directories
                    .then(|| live.lock_renames())
                    .transpose()?;
                let ancestors = if may_move_directories {
                    [self.ancestors(parent)?, self.ancestors(new_parent)?]
                } else {
                    [vec![parent], vec![new_parent]]
                };
                let mut dirs = vec![self.live(parent)?];
                if new_parent != parent {
                    dirs.push(self.live(new_parent)?);
                }
                let rename = Rename {
                    volume: self,
                    from,
                    to,
                    flags,
                    whiteout_owner: (uid, gid),
                    dirs,
                };
                if rename.run(&ancestors, tree.is_some())? {
                    return Ok(());
                }
                may_move_directories = true;
            }
        })
    }

    /// Returns `dir` and all its ancestors, up to the root. The caller must hold the lock for
    /// renames.
    fn ancestors(&self, dir: Ino) -> Result<Vec<Ino>> {
        let mut ancestors = vec![dir];
        let mut at = dir;
        while at != Ino::ROOT && ancestors.len() < MAX_DEPTH {
            at = self.lookup(at, b"..")?;
            ancestors.push(at);
        }
        if at != Ino::ROOT {
            let place = larder_ext4::Place::Inode(dir);
            return Err(place
                .corrupt("the parent directories do not lead to the root")
                .into());
        }
        Ok(ancestors)
    }
}

impl Rename<'_, '_> {
    /// Runs the rename and returns true. Returns false, without any change, if the caller must call
    /// this function again with the lock for renames held. This is the case if a directory moves
    /// and the lock is not held, or if a name changed before the inodes were locked. `ancestors`
    /// contains each of the two directories and, with the lock for renames held, its ancestors.
    fn run(&self, ancestors: &[Vec<Ino>; 2], is_tree_locked: bool) -> Result<bool> {
        let volume = self.volume;
        // The names are looked up here without locks, and again below with the locks held.
        let moved = volume.live(volume.lookup(self.from.dir, self.from.name)?)?;
        let other = volume.inodes.lookup(self.to.dir, self.to.name)?;
        let other = other.map(|(ino, _)| volume.live(ino)).transpose()?;
        let _locked = lock_exclusively(self.dirs.iter().chain([&moved]).chain(&other))?;
        let [from_dir, to_dir] = [&self.dirs[0], &self.dirs[self.to_index()]];
        let (from_dir, to_dir) = (from_dir.inode()?, to_dir.inode()?);
        let (moved_ino, _) = volume.inodes.existing_entry(&from_dir, self.from.name)?;
        check_changeable(&to_dir, self.to.name)?;
        let other_ino = volume
            .inodes
            .lookup_locked(&to_dir, self.to.name)?
            .map(|(ino, _)| ino);
        if other_ino.is_some() && self.flags.contains(RenameFlags::NOREPLACE) {
            return Err(larder_ext4::Error::Exists(self.to.dir).into());
        }
        match other_ino {
            Some(ino) => check_not_itself(ino, to_dir.ino())?,
            None if self.flags.contains(RenameFlags::EXCHANGE) => {
                return Err(Error::not_found(self.to.name));
            }
            None => {}
        }
        if moved.ino() != moved_ino || other.as_ref().map(Live::ino) != other_ino {
            return Ok(false);
        }
        self.check_tree(moved_ino, other_ino, ancestors)?;
        if other_ino == Some(moved_ino) {
            // Both names refer to the same file. POSIX requires that nothing changes.
            return Ok(true);
        }
        let has_directory = |live: &Live<'_>| live.present().map(|inode| inode.is_directory());
        let moves_directory =
            has_directory(&moved)? || other.as_ref().map_or(Ok(false), has_directory)?;
        if moves_directory && !is_tree_locked {
            return Ok(false);
        }
        self.run_locked(&from_dir, &to_dir, &moved, other.as_ref())?;
        Ok(true)
    }

    /// Returns the index in `dirs` of the directory of the new name. The directory of the old name
    /// has index 0.
    fn to_index(&self) -> usize {
        self.dirs.len() - 1
    }

    /// Returns an error if the rename would move a directory below itself, or would replace a
    /// directory that contains the moved file.
    fn check_tree(&self, moved: Ino, other: Option<Ino>, ancestors: &[Vec<Ino>; 2]) -> Result<()> {
        let [from_ancestors, to_ancestors] = ancestors;
        if to_ancestors.contains(&moved) {
            return Err(invalid(moved, "a directory cannot be moved below itself"));
        }
        let Some(other) = other.filter(|other| from_ancestors.contains(other)) else {
            return Ok(());
        };
        if self.flags.contains(RenameFlags::EXCHANGE) {
            return Err(invalid(other, "a directory cannot be moved below itself"));
        }
        Err(larder_ext4::Error::NotEmpty(other).into())
    }

    /// Checks and runs the rename. Deletes a replaced file that then has neither names nor holds.
    /// `rw` of all inodes must be held exclusively.
    fn run_locked(
        &self,
        from_dir: &Inode,
        to_dir: &Inode,
        moved: &Live<'_>,
        other: Option<&Live<'_>>,
    ) -> Result<()> {
        let moved_inode = moved.inode()?;
        let other_inode = other.map(Live::inode).transpose()?;
        self.check(from_dir, to_dir, &moved_inode, other_inode.as_ref())?;
        let replaces_content = other_inode.is_some_and(|other| other.kind() == FileKind::Regular)
            && moved_inode.kind() == FileKind::Regular
            && !self.flags.contains(RenameFlags::EXCHANGE);
        if replaces_content {
            // Write back the content of the moved file first. Otherwise, a crash could leave an
            // empty file instead of the replaced file.
            self.volume.writer.write_back.write_file(moved)?;
        }
        let other_inode = self.change(moved, other)?;
        if let (Some(live), Some(inode)) = (other, other_inode)
            && !self.flags.contains(RenameFlags::EXCHANGE)
        {
            self.volume.writer.delete_if_unused(live, &inode);
        }
        Ok(())
    }

    fn check(
        &self,
        from_dir: &Inode,
        to_dir: &Inode,
        moved: &Inode,
        other: Option<&Inode>,
    ) -> Result<()> {
        check_removable(from_dir, self.from.name, moved)?;
        check_project(to_dir, moved)?;
        let crosses = self.from.dir != self.to.dir;
        let is_exchange = self.flags.contains(RenameFlags::EXCHANGE);
        let sb = self.volume.fs().superblock();
        let Some(other) = other else {
            if moved.is_directory() && crosses {
                check_room_for_subdirectory(sb, to_dir)?;
            }
            return Ok(());
        };
        check_removable(to_dir, self.to.name, other)?;
        if is_exchange {
            check_project(from_dir, other)?;
            for (inode, dir, leaving) in [(moved, to_dir, other), (other, from_dir, moved)] {
                if crosses && inode.is_directory() && !leaving.is_directory() {
                    check_room_for_subdirectory(sb, dir)?;
                }
            }
            return Ok(());
        }
        match (moved.is_directory(), other.is_directory()) {
            (true, false) => Err(larder_ext4::Error::NotDirectory(other.ino()).into()),
            (false, true) => Err(Error::IsDirectory(other.ino())),
            (true, true) if !self.volume.fs().is_empty_directory(other)? => {
                Err(larder_ext4::Error::NotEmpty(other.ino()).into())
            }
            _ => Ok(()),
        }
    }

    /// Changes the names in one handle. Returns the changed state of the inode that had the new
    /// name before, if there was one.
    fn change(&self, moved: &Live<'_>, other: Option<&Live<'_>>) -> Result<Option<Inode>> {
        let fs = self.volume.fs();
        let (handle, (changed, old_entry)) =
            fs.change(NAME_CREDITS * 2, |handle| -> Result<_> {
                let dirs: Result<Vec<Inode>> = self.dirs.iter().map(Live::inode).collect();
                let mut changed = Changed {
                    dirs: dirs?,
                    moved: moved.inode()?,
                    other: other.map(Live::inode).transpose()?,
                    whiteout: None,
                };
                let old_entry = if self.flags.contains(RenameFlags::EXCHANGE) {
                    self.exchange(handle, &mut changed)?
                } else {
                    self.replace(handle, &mut changed)?
                };
                changed.moved.set_ctime(self.volume.writer.now());
                fs.write_inode(handle, &changed.moved)?;
                for dir in &mut changed.dirs {
                    self.volume.writer.stamp(dir);
                    fs.write_inode(handle, dir)?;
                }
                Ok((changed, old_entry))
            })?;
        let moved_entry = entry_of(&changed.moved);
        moved.publish_attributes(&handle, &changed.moved);
        if let (Some(live), Some(inode)) = (other, &changed.other) {
            live.publish_attributes(&handle, inode);
        }
        if let Some(inode) = &changed.whiteout {
            self.volume.live(inode.ino())?.publish(&handle, inode);
        }
        for (live, dir) in self.dirs.iter().zip(&changed.dirs) {
            live.publish(&handle, dir);
        }
        handle.stop();
        let Name { dir, name } = self.from;
        self.volume.inodes.insert_dentry(dir, name, old_entry);
        let Name { dir, name } = self.to;
        self.volume
            .inodes
            .insert_dentry(dir, name, Some(moved_entry));
        Ok(changed.other)
    }

    /// Gives the new name to the moved file. Returns the entry of the old name after the rename:
    /// the whiteout, or `None`.
    fn replace(&self, handle: &mut Handle<'_>, changed: &mut Changed) -> Result<Option<Entry>> {
        let fs = self.volume.fs();
        let (from, to) = (0, self.to_index());
        let entry = entry_of(&changed.moved);
        let to_dir = &mut changed.dirs[to];
        if changed.other.is_some() {
            fs.set_entry(handle, to_dir, self.to.name, entry)?;
        } else {
            fs.add_entry(handle, to_dir, self.to.name, entry)?;
        }
        let old_entry = if self.flags.contains(RenameFlags::WHITEOUT) {
            let whiteout = self.make_whiteout(handle, &changed.dirs[from])?;
            let entry = entry_of(&whiteout);
            fs.set_entry(handle, &mut changed.dirs[from], self.from.name, entry)?;
            changed.whiteout = Some(whiteout);
            Some(entry)
        } else {
            fs.remove_entry(handle, &mut changed.dirs[from], self.from.name)?;
            None
        };
        if changed.moved.is_directory() {
            remove_subdirectory(&mut changed.dirs[from]);
            self.set_parent(handle, &mut changed.moved, self.to.dir)?;
        }
        let Some(other) = &mut changed.other else {
            if changed.moved.is_directory() {
                add_subdirectory(&mut changed.dirs[to]);
            }
            return Ok(old_entry);
        };
        // If one directory replaces another, the number of subdirectories of the target directory
        // does not change.
        self.volume.writer.drop_name(handle, other)?;
        Ok(old_entry)
    }

    /// Exchanges the targets of the two names. Returns the entry of the old name after the rename.
    fn exchange(&self, handle: &mut Handle<'_>, changed: &mut Changed) -> Result<Option<Entry>> {
        let fs = self.volume.fs();
        let (from, to) = (0, self.to_index());
        let Changed {
            dirs, moved, other, ..
        } = changed;
        let Some(other) = other else {
            return Ok(None);
        };
        let other_entry = entry_of(other);
        fs.set_entry(handle, &mut dirs[to], self.to.name, entry_of(moved))?;
        fs.set_entry(handle, &mut dirs[from], self.from.name, other_entry)?;
        for (inode, old, new, parent) in [
            (&mut *moved, from, to, self.to.dir),
            (&mut *other, to, from, self.from.dir),
        ] {
            if inode.is_directory() && old != new {
                remove_subdirectory(&mut dirs[old]);
                add_subdirectory(&mut dirs[new]);
                self.set_parent(handle, inode, parent)?;
            }
        }
        other.set_ctime(self.volume.writer.now());
        fs.write_inode(handle, other)?;
        Ok(Some(other_entry))
    }

    /// Sets the entry ".." of the directory `dir` to `parent`, if the rename changes the parent.
    fn set_parent(&self, handle: &mut Handle<'_>, dir: &mut Inode, parent: Ino) -> Result<()> {
        if self.from.dir == self.to.dir {
            return Ok(());
        }
        let entry = (parent, FileTypeByte::of(FileKind::Directory));
        self.volume.fs().set_entry(handle, dir, b"..", entry)?;
        self.volume.inodes.remove_parent_dentry(dir.ino());
        Ok(())
    }

    /// Creates a whiteout: a character device 0:0, which hides a name of a lower layer in an
    /// overlay.
    fn make_whiteout(&self, handle: &mut Handle<'_>, dir: &Inode) -> Result<Inode> {
        let device = DeviceNumber { major: 0, minor: 0 };
        let (uid, gid) = self.whiteout_owner;
        let what = Make::Node {
            kind: FileKind::CharDevice,
            device: Some(device),
        };
        let new = NewFile {
            permissions: 0,
            umask: 0,
            uid,
            gid,
        };
        self.volume.make_inode(handle, dir, what, &new, None)
    }
}
