//! Names in the model, and the order of the checks in Linux.

use super::node::{APPEND, Body, IMMUTABLE, INHERITED_FLAGS, Node, Times};
use super::{Content, Model, NodeId, Outcome, Step, done};
use crate::operation::{NewNode, NodePath, Owned, Slot, Target, UMASK};
use larder::{FileKind, RenameFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::Arc;

const MAX_NAME_BYTES: usize = 255;
const SET_GROUP_ID: u16 = 0o2000;

/// A name in a directory.
struct Place<'a> {
    parent: NodeId,
    name: &'a [u8],
    found: Option<NodeId>,
}

/// Returns the [`Place`] of a path. If its directory does not exist, returns [`Outcome::Skipped`] from the
/// calling function.
macro_rules! place {
    ($model:expr, $path:expr) => {
        match $model.place($path)? {
            Some(place) => place,
            None => return Ok(Outcome::Skipped),
        }
    };
}

impl Model {
    /// Returns the place of a path, if its directory exists.
    fn place<'a>(&self, path: &'a NodePath) -> Result<Option<Place<'a>>, Errno> {
        let Some((parent, name)) = path.split() else {
            return Ok(None);
        };
        let Some(parent) = self.walk(parent) else {
            return Ok(None);
        };
        let entries = self.get(parent)?.entries().ok_or(Errno::NOTDIR)?;
        if name.len() > MAX_NAME_BYTES {
            return Err(Errno::NAMETOOLONG);
        }
        Ok(Some(Place {
            parent,
            name,
            found: entries.get(name).copied(),
        }))
    }

    /// Fails if entries must not be added to the directory.
    fn may_create(&self, parent: NodeId) -> Result<(), Errno> {
        if self.get(parent)?.has(IMMUTABLE) {
            return Err(Errno::PERM);
        }
        Ok(())
    }

    /// Fails if `victim` must not be removed from `parent`. `as_directory` is true if the caller expects a
    /// directory.
    fn may_delete(&self, parent: NodeId, victim: NodeId, as_directory: bool) -> Result<(), Errno> {
        let kept =
            self.get(parent)?.has(IMMUTABLE | APPEND) || self.get(victim)?.has(IMMUTABLE | APPEND);
        if kept {
            return Err(Errno::PERM);
        }
        match (as_directory, self.get(victim)?.is_directory()) {
            (true, false) => Err(Errno::NOTDIR),
            (false, true) => Err(Errno::ISDIR),
            _ => Ok(()),
        }
    }

    fn entries_mut(&mut self, id: NodeId) -> Result<&mut BTreeMap<Vec<u8>, NodeId>, Errno> {
        match &mut self.node_mut(id)?.body {
            Body::Directory { entries, .. } => Ok(entries),
            _ => Err(Errno::NOTDIR),
        }
    }

    /// Updates the times of a directory whose names changed.
    fn touch_directory(&mut self, id: NodeId) -> Result<(), Errno> {
        let now = self.now();
        let times = &mut self.node_mut(id)?.times;
        times.modified = now;
        times.changed = now;
        Ok(())
    }

    /// Creates a node in `parent`, with the properties that it inherits.
    fn new_node(&mut self, parent: NodeId, new: &NewNode, owned: Owned) -> Result<NodeId, Errno> {
        let directory = self.get(parent)?;
        let is_directory = matches!(new, NewNode::Directory);
        let is_link = matches!(new, NewNode::Symlink(_));
        let mut permissions = if is_link { 0o777 } else { owned.permissions };
        let (mut acl, mut default_acl) = (None, None);
        match &directory.default_acl {
            Some(list) if !is_link => {
                let inherited = list.inherited(permissions);
                permissions = permissions & !0o777 | inherited.permissions();
                acl = (!inherited.is_minimal()).then_some(inherited);
                default_acl = is_directory.then(|| list.clone());
            }
            _ if !is_link => permissions &= !UMASK,
            _ => {}
        }
        let mut gid = owned.gid;
        if directory.permissions & SET_GROUP_ID != 0 {
            gid = directory.gid;
            if is_directory {
                permissions |= SET_GROUP_ID;
            }
        }
        let node = Node {
            body: match new {
                NewNode::File => Body::File(Content::default()),
                NewNode::Directory => Body::Directory {
                    entries: BTreeMap::new(),
                    parent,
                },
                NewNode::Symlink(target) => Body::Symlink(target.clone()),
                NewNode::Device(kind, major, minor) => Body::Device(*kind, *major, *minor),
                NewNode::Special(kind) => Body::Special(*kind),
            },
            permissions,
            uid: owned.uid,
            gid,
            links: if is_directory { 2 } else { 1 },
            flags: directory.flags & INHERITED_FLAGS,
            xattrs: BTreeMap::new(),
            acl,
            default_acl,
            times: Times::all(self.now()),
            unnamed: false,
        };
        let id = NodeId(self.next);
        self.next += 1;
        self.nodes.insert(id, Arc::new(node));
        Ok(id)
    }

    pub(super) fn make(&mut self, at: &NodePath, new: &NewNode, owned: Owned) -> Step {
        let place = place!(self, at);
        if place.found.is_some() {
            return Err(Errno::EXIST);
        }
        self.may_create(place.parent)?;
        let id = self.new_node(place.parent, new, owned)?;
        self.entries_mut(place.parent)?
            .insert(place.name.to_vec(), id);
        if matches!(new, NewNode::Directory) {
            self.node_mut(place.parent)?.links += 1;
        }
        self.touch_directory(place.parent)?;
        Ok(Outcome::Done {
            made: Some(id),
            subject: Some(id),
        })
    }

    pub(super) fn make_unnamed(&mut self, parent: &NodePath, slot: Slot, owned: Owned) -> Step {
        let Some(parent) = self.resolve(parent) else {
            return Ok(Outcome::Skipped);
        };
        // A slot holds one file: the current file would have to be closed first.
        if self.open.contains_key(&slot) || !self.get(parent)?.is_directory() {
            return Ok(Outcome::Skipped);
        }
        self.may_create(parent)?;
        let id = self.new_node(parent, &NewNode::File, owned)?;
        let node = self.node_mut(id)?;
        node.links = 0;
        node.unnamed = true;
        self.open.insert(slot, id);
        Ok(Outcome::Done {
            made: Some(id),
            subject: Some(id),
        })
    }

    pub(super) fn open(&mut self, at: &NodePath, slot: Slot) -> Outcome {
        let found = self.resolve(at);
        let Some(id) = found.filter(|_| !self.open.contains_key(&slot)) else {
            return Outcome::Skipped;
        };
        self.open.insert(slot, id);
        Outcome::Done {
            made: None,
            subject: Some(id),
        }
    }

    pub(super) fn close(&mut self, slot: Slot) -> Outcome {
        let Some(id) = self.open.remove(&slot) else {
            return Outcome::Skipped;
        };
        self.drop_unused(id);
        Outcome::Done {
            made: None,
            subject: Some(id),
        }
    }

    pub(super) fn link(&mut self, from: &Target, to: &NodePath, replaces: bool) -> Step {
        let Some(id) = self.find(from) else {
            return Ok(Outcome::Skipped);
        };
        let place = place!(self, to);
        match place.found {
            None => self.may_create(place.parent)?,
            Some(_) if !replaces => return Err(Errno::EXIST),
            Some(found) if found == id => return done(id),
            Some(found) => self.may_delete(place.parent, found, false)?,
        }
        let node = self.get(id)?;
        if node.has(IMMUTABLE | APPEND) || node.is_directory() {
            return Err(Errno::PERM);
        }
        if node.links == 0 && !node.unnamed {
            // A kernel refuses this without calling the file system.
            return Ok(Outcome::Skipped);
        }
        self.node_mut(id)?.links += 1;
        self.touch(id)?;
        self.entries_mut(place.parent)?
            .insert(place.name.to_vec(), id);
        self.touch_directory(place.parent)?;
        if let Some(replaced) = place.found {
            self.drop_link(place.parent, replaced)?;
        }
        done(id)
    }

    /// Removes one name of a node.
    fn drop_link(&mut self, parent: NodeId, id: NodeId) -> Result<(), Errno> {
        self.touch(id)?;
        let node = self.node_mut(id)?;
        if node.is_directory() {
            node.links = 0;
            self.node_mut(parent)?.links -= 1;
        } else {
            node.links -= 1;
            node.unnamed = false;
        }
        self.drop_unused(id);
        Ok(())
    }

    pub(super) fn unlink(&mut self, at: &NodePath) -> Step {
        let place = place!(self, at);
        let id = place.found.ok_or(Errno::NOENT)?;
        self.may_delete(place.parent, id, false)?;
        self.entries_mut(place.parent)?.remove(place.name);
        self.touch_directory(place.parent)?;
        self.drop_link(place.parent, id)?;
        done(id)
    }

    pub(super) fn remove_dir(&mut self, at: &NodePath) -> Step {
        let place = place!(self, at);
        let id = place.found.ok_or(Errno::NOENT)?;
        self.may_delete(place.parent, id, true)?;
        if self.get(id)?.entries().is_some_and(|held| !held.is_empty()) {
            return Err(Errno::NOTEMPTY);
        }
        self.entries_mut(place.parent)?.remove(place.name);
        self.touch_directory(place.parent)?;
        self.drop_link(place.parent, id)?;
        done(id)
    }

    /// Returns whether `inner` is `outer` or below it.
    fn is_below(&self, inner: NodeId, outer: NodeId) -> bool {
        let mut at = inner;
        loop {
            if at == outer {
                return true;
            }
            match self.node(at).map(|node| &node.body) {
                Some(Body::Directory { parent, .. }) if *parent != at => at = *parent,
                _ => return false,
            }
        }
    }

    pub(super) fn rename(&mut self, from: &NodePath, to: &NodePath, flags: RenameFlags) -> Step {
        let exchanges = flags.contains(RenameFlags::EXCHANGE);
        if exchanges && flags.intersects(RenameFlags::NOREPLACE | RenameFlags::WHITEOUT) {
            return Err(Errno::INVAL);
        }
        let old = place!(self, from);
        let new = place!(self, to);
        let id = old.found.ok_or(Errno::NOENT)?;
        if flags.contains(RenameFlags::NOREPLACE) && new.found.is_some() {
            return Err(Errno::EXIST);
        }
        if exchanges && new.found.is_none() {
            return Err(Errno::NOENT);
        }
        if self.is_below(new.parent, id) {
            return Err(Errno::INVAL);
        }
        if new
            .found
            .is_some_and(|target| self.is_below(old.parent, target))
        {
            return Err(if exchanges {
                Errno::INVAL
            } else {
                Errno::NOTEMPTY
            });
        }
        if new.found == Some(id) {
            return done(id);
        }
        let is_directory = self.get(id)?.is_directory();
        self.may_delete(old.parent, id, is_directory)?;
        match new.found {
            None => self.may_create(new.parent)?,
            Some(target) if exchanges => {
                let target_is_directory = self.get(target)?.is_directory();
                self.may_delete(new.parent, target, target_is_directory)?;
            }
            Some(target) => {
                self.may_delete(new.parent, target, is_directory)?;
                let held = self.get(target)?.entries();
                if held.is_some_and(|held| !held.is_empty()) {
                    return Err(Errno::NOTEMPTY);
                }
            }
        }
        let made = self.move_entry(&old, id, &new, flags)?;
        Ok(Outcome::Done {
            made,
            subject: Some(id),
        })
    }

    /// Moves a name, after all checks. Returns the whiteout that it created.
    fn move_entry(
        &mut self,
        old: &Place<'_>,
        id: NodeId,
        new: &Place<'_>,
        flags: RenameFlags,
    ) -> Result<Option<NodeId>, Errno> {
        self.entries_mut(old.parent)?.remove(old.name);
        self.entries_mut(new.parent)?.insert(new.name.to_vec(), id);
        self.touch(id)?;
        self.move_directory(id, old.parent, new.parent)?;
        self.touch_directory(old.parent)?;
        self.touch_directory(new.parent)?;
        if let Some(target) = new.found {
            if flags.contains(RenameFlags::EXCHANGE) {
                self.entries_mut(old.parent)?
                    .insert(old.name.to_vec(), target);
                self.touch(target)?;
                self.move_directory(target, new.parent, old.parent)?;
            } else {
                self.drop_link(new.parent, target)?;
            }
        }
        if flags.contains(RenameFlags::WHITEOUT) {
            let owned = Owned {
                permissions: 0,
                uid: 0,
                gid: 0,
            };
            let whiteout = NewNode::Device(FileKind::CharDevice, 0, 0);
            let made = self.new_node(old.parent, &whiteout, owned)?;
            self.entries_mut(old.parent)?
                .insert(old.name.to_vec(), made);
            return Ok(Some(made));
        }
        Ok(None)
    }

    /// Updates a directory's ".." and the link counts of its parents after a move.
    fn move_directory(&mut self, id: NodeId, from: NodeId, to: NodeId) -> Result<(), Errno> {
        if from == to {
            return Ok(());
        }
        if let Body::Directory { parent, .. } = &mut self.node_mut(id)?.body {
            *parent = to;
            self.node_mut(from)?.links -= 1;
            self.node_mut(to)?.links += 1;
        }
        Ok(())
    }
}
