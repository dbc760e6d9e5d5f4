//! The inodes of a volume that correspond to the nodes of a model.

use super::{Model, NodeId};
use larder::{Ino, Volume};
use std::collections::HashMap;

/// The inodes of a model's nodes.
#[derive(Clone, Debug)]
pub struct NodeInodes(HashMap<NodeId, Ino>);

impl Default for NodeInodes {
    fn default() -> Self {
        Self(HashMap::from([(NodeId::ROOT, Ino::ROOT)]))
    }
}

impl NodeInodes {
    /// Records the inode of a node.
    pub fn insert(&mut self, node: NodeId, ino: Ino) {
        self.0.insert(node, ino);
    }

    /// Looks up the names of `model` in a volume. Returns the inodes of those that exist.
    #[must_use]
    pub fn found(model: &Model, volume: &Volume) -> Self {
        let mut inodes = Self::default();
        let mut pending = vec![(NodeId::ROOT, Ino::ROOT)];
        while let Some((id, ino)) = pending.pop() {
            let entries = model.node(id).and_then(|node| node.entries());
            for (name, child) in entries.into_iter().flatten() {
                if let Ok(found) = volume.lookup(ino, name) {
                    inodes.0.insert(*child, found);
                    pending.push((*child, found));
                }
            }
        }
        inodes
    }

    /// Returns the inode of a node.
    #[must_use]
    pub fn ino(&self, id: NodeId) -> Option<Ino> {
        self.0.get(&id).copied()
    }
}
