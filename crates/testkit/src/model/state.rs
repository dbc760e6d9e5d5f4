//! The state of the modelled file system, and the operations on it.

use super::{Content, Node, NodeId, Stamp};
use crate::operation::{NodePath, Operation, Slot, Target};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rules that depend on the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether files are mapped by extents, which can be preallocated and moved.
    pub extents: bool,
    /// The unit of allocation.
    pub cluster_bytes: u64,
    /// Whether inodes have room for nanoseconds and years after 2038.
    pub wide_times: bool,
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The path does not exist, or a kernel would not pass the operation on to the file system.
    Skipped,
    /// The operation succeeds.
    Done {
        /// The node that it created.
        made: Option<NodeId>,
        /// The node that it operated on.
        subject: Option<NodeId>,
    },
    /// It must fail with this errno, and change nothing.
    Fails(Errno),
}

/// The result of an operation inside the model.
pub(super) type Step = Result<Outcome, Errno>;

/// Success without a file.
const NOTHING_DONE: Outcome = Outcome::Done {
    made: None,
    subject: None,
};

/// Success of an operation on `subject`.
#[allow(clippy::unnecessary_wraps, reason = "the last line of most steps")]
pub(super) fn done(subject: NodeId) -> Step {
    Ok(Outcome::Done {
        made: None,
        subject: Some(subject),
    })
}

/// The state of a file system.
#[derive(Clone, Debug)]
pub struct Model {
    pub(super) rules: Rules,
    pub(super) nodes: BTreeMap<NodeId, Arc<Node>>,
    pub(super) open: BTreeMap<Slot, NodeId>,
    pub(super) next: u64,
    /// The number of the current operation.
    pub(super) number: u32,
}

impl Model {
    /// Creates a model with only a root directory.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        let root = Node::new_root();
        Self {
            rules,
            nodes: BTreeMap::from([(NodeId::ROOT, Arc::new(root))]),
            open: BTreeMap::new(),
            next: NodeId::ROOT.0 + 1,
            number: 0,
        }
    }

    /// Returns the rules of the image.
    #[must_use]
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// Performs operation `number`, or returns why it is not possible.
    pub fn apply(&mut self, number: u32, operation: &Operation) -> Outcome {
        // An operation that fails halfway must change nothing. Nodes are shared, so a copy is cheap.
        let mut changed = self.clone();
        changed.number = number;
        match changed.step(operation) {
            Ok(outcome) => {
                *self = changed;
                outcome
            }
            Err(errno) => Outcome::Fails(errno),
        }
    }

    pub(super) fn step(&mut self, operation: &Operation) -> Step {
        match operation {
            Operation::Make { at, node, owned } => self.make(at, node, *owned),
            Operation::MakeUnnamed {
                parent,
                slot,
                owned,
            } => self.make_unnamed(parent, *slot, *owned),
            Operation::Open { at, slot } => Ok(self.open(at, *slot)),
            Operation::Close { slot } => Ok(self.close(*slot)),
            Operation::Link { from, to } => self.link(from, to, false),
            Operation::LinkReplacing { from, to } => self.link(from, to, true),
            Operation::Unlink { at } => self.unlink(at),
            Operation::RemoveDir { at } => self.remove_dir(at),
            Operation::Rename { from, to, flags } => self.rename(from, to, *flags),
            Operation::Sync => Ok(NOTHING_DONE),
            Operation::Reopen => {
                let slots: Vec<_> = self.open.keys().copied().collect();
                for slot in slots {
                    self.close(slot);
                }
                Ok(NOTHING_DONE)
            }
            _ => self.step_on_node(operation),
        }
    }

    pub(super) fn step_on_node(&mut self, operation: &Operation) -> Step {
        let Some(id) = target(operation).and_then(|target| self.find(target)) else {
            return Ok(Outcome::Skipped);
        };
        match operation {
            Operation::Write {
                offset_bytes,
                len_bytes,
                ..
            } => self.write(id, *offset_bytes, *len_bytes),
            Operation::Truncate { size_bytes, .. } => self.truncate(id, *size_bytes),
            Operation::Allocate {
                mode,
                offset_bytes,
                len_bytes,
                ..
            } => self.allocate(id, *mode, *offset_bytes, *len_bytes),
            Operation::Copy {
                from_bytes,
                to,
                to_bytes,
                len_bytes,
                ..
            } => match self.find(to) {
                Some(to) => self.copy((id, *from_bytes), (to, *to_bytes), *len_bytes),
                None => Ok(Outcome::Skipped),
            },
            Operation::SetXattr {
                name, value, mode, ..
            } => self.set_xattr(id, name, value, *mode),
            Operation::RemoveXattr { name, .. } => self.remove_xattr(id, name),
            Operation::SetAcl {
                is_default, acl, ..
            } => self.set_acl(id, *is_default, acl),
            Operation::SetPermissions { permissions, .. } => self.set_permissions(id, *permissions),
            Operation::SetOwner { uid, gid, .. } => self.set_owner(id, *uid, *gid),
            Operation::SetTimes {
                accessed, modified, ..
            } => self.set_times(id, *accessed, *modified),
            Operation::SetFlags { flags, .. } => self.set_flags(id, *flags),
            _ => done(id),
        }
    }

    /// Returns the node with this number.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Arc<Node>> {
        self.nodes.get(&id)
    }

    /// Returns all nodes, including those that are open but have no name.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Arc<Node>)> {
        self.nodes.iter().map(|(id, node)| (*id, node))
    }

    /// Returns the number of bytes of content that all files store.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        let contents = self.nodes.values().filter_map(|node| node.content());
        contents.map(Content::stored_bytes).sum()
    }

    /// Returns the node that an operation targets.
    #[must_use]
    pub fn find(&self, target: &Target) -> Option<NodeId> {
        match target {
            Target::Path(path) => self.resolve(path),
            Target::Open(slot) => self.open.get(slot).copied(),
        }
    }

    /// Returns the node at this path. Links are not followed.
    #[must_use]
    pub fn resolve(&self, path: &NodePath) -> Option<NodeId> {
        self.walk(&path.0)
    }

    /// Returns the node at the end of these names.
    #[must_use]
    pub fn walk(&self, names: &[Vec<u8>]) -> Option<NodeId> {
        names.iter().try_fold(NodeId::ROOT, |at, name| {
            self.node(at)?.entries()?.get(name).copied()
        })
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> Result<&mut Node, Errno> {
        self.nodes
            .get_mut(&id)
            .map(Arc::make_mut)
            .ok_or(Errno::STALE)
    }

    pub(super) fn now(&self) -> Stamp {
        Stamp::During(self.number)
    }

    pub(super) fn touch(&mut self, id: NodeId) -> Result<(), Errno> {
        let now = self.now();
        self.node_mut(id)?.times.changed = now;
        Ok(())
    }

    /// Sets the time of the last change of the inode of `id`, and returns success.
    pub(super) fn touched(&mut self, id: NodeId) -> Step {
        self.touch(id)?;
        done(id)
    }

    pub(super) fn get(&self, id: NodeId) -> Result<&Node, Errno> {
        self.nodes.get(&id).map(|node| &**node).ok_or(Errno::STALE)
    }

    /// Removes the node if it has no name and is not open.
    pub(super) fn drop_unused(&mut self, id: NodeId) {
        let is_open = self.open.values().any(|open| *open == id);
        if !is_open && self.nodes.get(&id).is_some_and(|node| node.links == 0) {
            self.nodes.remove(&id);
        }
    }
}

/// Returns the target of an operation that is not about names.
fn target(operation: &Operation) -> Option<&Target> {
    match operation {
        Operation::Write { file, .. }
        | Operation::Truncate { file, .. }
        | Operation::Allocate { file, .. }
        | Operation::Copy { from: file, .. }
        | Operation::SetXattr { file, .. }
        | Operation::RemoveXattr { file, .. }
        | Operation::SetAcl { file, .. }
        | Operation::SetPermissions { file, .. }
        | Operation::SetOwner { file, .. }
        | Operation::SetTimes { file, .. }
        | Operation::SetFlags { file, .. }
        | Operation::SyncFile { file, .. } => Some(file),
        _ => None,
    }
}
