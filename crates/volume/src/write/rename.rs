//! Operations on names: renaming.
//!
//! Model: `vfs_rename` and `ext4_rename2`.
//!
//! # Locking
//! The lock on renames is held when a directory moves, and when a file moves from one directory to
//! another, so that no path to the root changes in the meantime. Then the two directories, the
//! moved inode and the replaced one are locked, in the order of their numbers. The names are looked
//! up before, and again under the locks. If one changed, the operation starts again.

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

/// The maximum number of directories on the path to the root: more are a loop.
const MAX_DEPTH: usize = 1 << 16;

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
struct Name<'a> {
    dir: Ino,
    name: &'a [u8],
}

/// The arguments of a rename, and its directories.
struct Rename<'v, 'a> {
    volume: &'v Volume,
    from: Name<'a>,
    to: Name<'a>,
    flags: RenameFlags,
    /// The directories of the old and the new name, in this order; one only if they are the same.
    dirs: Vec<Live<'v>>,
}

/// The inodes that a rename changes, as they are while its handle is open.
struct Changed {
    dirs: Vec<Inode>,
    moved: Inode,
    other: Option<Inode>,
    /// The whiteout that replaces the old name, if requested.
    whiteout: Option<Inode>,
}

impl Volume {
    /// Renames a file, like renameat2(2).
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
                let tree = may_move_directories.then(|| live.lock_renames());
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
                    dirs,
                };
                if rename.run(&ancestors, tree.is_some())? {
                    return Ok(());
                }
                may_move_directories = true;
            }
        })
    }

    /// Returns `dir` and the directories above it, up to the root. The caller holds the lock on
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
    /// Runs the rename. Returns false, with nothing done, if it must be repeated with the lock on
    /// renames, because a directory moves or a name changed before it was locked. `ancestors` are the
    /// paths from both directories to the root.
    fn run(&self, ancestors: &[Vec<Ino>; 2], is_tree_locked: bool) -> Result<bool> {
        let volume = self.volume;
        // Looked up without locks here, and again below under the locks.
        let moved = volume.live(volume.lookup(self.from.dir, self.from.name)?)?;
        let other = volume.inodes.lookup(self.to.dir, self.to.name)?;
        let other = other.map(|(ino, _)| volume.live(ino)).transpose()?;
        let _locked = lock_exclusively(self.dirs.iter().chain([&moved]).chain(&other));
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
            // Two names of one file: POSIX requires that nothing is done.
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

    /// Returns the position of the new name's directory in `dirs`; that of the old one's is 0.
    fn to_index(&self) -> usize {
        self.dirs.len() - 1
    }

    /// Refuses to move a directory below itself, or to replace one that it is in.
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

    /// Renames, with everything locked.
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
            // After a crash, no empty file has replaced the old one.
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

    /// Changes the names in one handle. Returns the other inode after the change.
    fn change(&self, moved: &Live<'_>, other: Option<&Live<'_>>) -> Result<Option<Inode>> {
        let fs = self.volume.fs();
        let mut handle = fs.start(NAME_CREDITS * 2)?;
        let dirs: Result<Vec<Inode>> = self.dirs.iter().map(Live::inode).collect();
        let mut changed = Changed {
            dirs: dirs?,
            moved: moved.inode()?,
            other: other.map(Live::inode).transpose()?,
            whiteout: None,
        };
        let old_entry = if self.flags.contains(RenameFlags::EXCHANGE) {
            self.exchange(&mut handle, &mut changed)?
        } else {
            self.replace(&mut handle, &mut changed)?
        };
        changed.moved.set_ctime(self.volume.writer.now());
        fs.write_inode(&mut handle, &changed.moved)?;
        for dir in &mut changed.dirs {
            self.volume.writer.stamp(dir);
            fs.write_inode(&mut handle, dir)?;
        }
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

    /// Gives the new name to the file with the old name. Returns the target of the old name after
    /// that.
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
        // One directory replaces another: the subdirectory count of their parent does not change.
        self.volume.writer.drop_name(handle, other)?;
        Ok(old_entry)
    }

    /// Exchanges the targets of the two names. Returns the target of the old name after that.
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

    /// Makes `parent` the parent of the directory `dir`.
    fn set_parent(&self, handle: &mut Handle<'_>, dir: &mut Inode, parent: Ino) -> Result<()> {
        if self.from.dir == self.to.dir {
            return Ok(());
        }
        let entry = (parent, FileTypeByte::of(FileKind::Directory));
        self.volume.fs().set_entry(handle, dir, b"..", entry)?;
        self.volume.inodes.remove_parent_dentry(dir.ino());
        Ok(())
    }

    /// Creates a whiteout, which hides a name: a character device 0:0.
    fn make_whiteout(&self, handle: &mut Handle<'_>, dir: &Inode) -> Result<Inode> {
        let device = DeviceNumber { major: 0, minor: 0 };
        let what = Make::Node {
            kind: FileKind::CharDevice,
            device: Some(device),
        };
        let new = NewFile {
            permissions: 0,
            umask: 0,
            uid: 0,
            gid: 0,
        };
        self.volume.make_inode(handle, dir, what, &new)
    }
}
