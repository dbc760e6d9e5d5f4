//! A file system as POSIX and Linux describe it, in memory: what a volume is compared with.
//!
//! Model: names, links, open files, permissions, attributes, sparse content, and the errno of
//! what must fail, by the order in which Linux checks. What depends on free space is not
//! modelled: a volume may answer `ENOSPC` instead.
//!
//! Cost: nodes are shared between clones, so that the state after each of some hundred operations
//! can be kept.

pub mod acl;
mod attributes;
mod compare;
mod content;
mod file;
mod names;
mod node;
mod shape;

pub use compare::{Clock, compare_all, compare_nodes};
pub use content::{CHUNK_BYTES, Content};
pub use node::{Body, INHERITED_FLAGS, Node, NodeId, SETTABLE_FLAGS, Stamp, Times};
pub use shape::{FileInodes, Shape, ShapeNode, shape_of_model, shape_of_volume};

use crate::operation::{NodePath, Operation, Slot, Target};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What of the rules depends on how the image was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether files are mapped by extents, which can be preallocated and moved.
    pub extents: bool,
    /// The unit of allocation.
    pub cluster_bytes: u64,
    /// Whether inodes have room for nanoseconds and years after 2038.
    pub wide_times: bool,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It leads nowhere, or is none that a kernel would pass on to a file system.
    Skipped,
    /// It succeeds.
    Done {
        /// What it made.
        made: Option<NodeId>,
        /// What it is about.
        subject: Option<NodeId>,
    },
    /// It must fail so, and change nothing.
    Fails(Errno),
}

/// How an operation ends inside the model.
type Step = Result<Outcome, Errno>;

/// Done, about no file.
const NOTHING_DONE: Outcome = Outcome::Done {
    made: None,
    subject: None,
};

/// Done, about `subject`.
#[allow(clippy::unnecessary_wraps, reason = "the last line of most steps")]
fn done(subject: NodeId) -> Step {
    Ok(Outcome::Done {
        made: None,
        subject: Some(subject),
    })
}

/// A file system.
#[derive(Clone, Debug)]
pub struct Model {
    rules: Rules,
    nodes: BTreeMap<NodeId, Arc<Node>>,
    open: BTreeMap<Slot, NodeId>,
    next: u64,
    /// Of the operation that is done.
    number: u32,
}

impl Model {
    /// Holds a root directory and nothing else.
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

    /// How the image was made.
    #[must_use]
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// Does operation `number`, or says what is in its way.
    pub fn apply(&mut self, number: u32, operation: &Operation) -> Outcome {
        // What fails half-way must leave nothing: nodes are shared, so a copy is cheap.
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

    fn step(&mut self, operation: &Operation) -> Step {
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

    fn step_on_node(&mut self, operation: &Operation) -> Step {
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

    /// The node of this number.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Arc<Node>> {
        self.nodes.get(&id)
    }

    /// All nodes, those without a name that are still open included.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Arc<Node>)> {
        self.nodes.iter().map(|(id, node)| (*id, node))
    }

    /// Bytes of content that all files keep.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        let contents = self.nodes.values().filter_map(|node| node.content());
        contents.map(Content::stored_bytes).sum()
    }

    /// What an operation works on.
    #[must_use]
    pub fn find(&self, target: &Target) -> Option<NodeId> {
        match target {
            Target::Path(path) => self.resolve(path),
            Target::Open(slot) => self.open.get(slot).copied(),
        }
    }

    /// What has this path; links are not followed.
    #[must_use]
    pub fn resolve(&self, path: &NodePath) -> Option<NodeId> {
        self.walk(&path.0)
    }

    /// The node that these names lead to.
    #[must_use]
    pub fn walk(&self, names: &[Vec<u8>]) -> Option<NodeId> {
        names.iter().try_fold(NodeId::ROOT, |at, name| {
            self.node(at)?.entries()?.get(name).copied()
        })
    }

    fn node_mut(&mut self, id: NodeId) -> Result<&mut Node, Errno> {
        self.nodes
            .get_mut(&id)
            .map(Arc::make_mut)
            .ok_or(Errno::STALE)
    }

    fn now(&self) -> Stamp {
        Stamp::During(self.number)
    }

    fn touch(&mut self, id: NodeId) -> Result<(), Errno> {
        let now = self.now();
        self.node_mut(id)?.times.changed = now;
        Ok(())
    }

    /// Done, with a change of the inode of `id`.
    fn touched(&mut self, id: NodeId) -> Step {
        self.touch(id)?;
        done(id)
    }

    fn get(&self, id: NodeId) -> Result<&Node, Errno> {
        self.nodes.get(&id).map(|node| &**node).ok_or(Errno::STALE)
    }

    /// Forgets a node that has neither a name nor anyone who holds it open.
    fn drop_unused(&mut self, id: NodeId) {
        let is_open = self.open.values().any(|open| *open == id);
        if !is_open && self.nodes.get(&id).is_some_and(|node| node.links == 0) {
            self.nodes.remove(&id);
        }
    }
}

/// What an operation that is not about names works on.
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
