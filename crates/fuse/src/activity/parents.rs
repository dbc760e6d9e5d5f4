//! The directories in which files were found, for the paths of the busiest files.
//!
//! # Model
//! A table with [`SLOTS`] slots. A file has the slot of its inode number, and replaces another file that has the same
//! slot. The table is a hint: the file may have been removed or renamed since.
//!
//! # Cost
//! 128 KiB, of which the kernel allocates only the pages that are used, and one store for each file in a reply.

use crate::node::NodeId;
use crate::protocol::abi::opcode;
use crate::protocol::nodes_in_reply;
use larder::Ino;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const SLOTS: usize = 16 << 10;

/// The table. A slot has the inode number of a file in its upper half, and that of the directory in its lower half.
#[derive(Debug)]
pub(super) struct Parents(Box<[AtomicU64]>);

impl Default for Parents {
    fn default() -> Self {
        Self(
            std::iter::repeat_with(AtomicU64::default)
                .take(SLOTS)
                .collect(),
        )
    }
}

impl Parents {
    /// Notes the files in the reply to a request for the directory `node`.
    pub(super) fn note(&self, opcode: u32, node: NodeId, body: &[u8]) {
        match opcode {
            opcode::LOOKUP
            | opcode::CREATE
            | opcode::MKNOD
            | opcode::MKDIR
            | opcode::SYMLINK
            | opcode::LINK => {
                if let Some((child, _)) = body.split_first_chunk() {
                    self.set(NodeId(u64::from_ne_bytes(*child)), node);
                }
            }
            opcode::READDIRPLUS => {
                for child in nodes_in_reply(opcode, body) {
                    self.set(child, node);
                }
            }
            _ => {}
        }
    }

    fn set(&self, child: NodeId, parent: NodeId) {
        if let (Some(child), Some(parent)) = (child.ino(), parent.ino()) {
            let slot = u64::from(child.0) << 32 | u64::from(parent.0);
            self.slot(child).store(slot, Relaxed);
        }
    }

    /// Returns the directory in which the file was found, if it is in the table.
    pub(super) fn get(&self, child: Ino) -> Option<Ino> {
        let slot = self.slot(child).load(Relaxed);
        let parent = u32::try_from(slot & u64::from(u32::MAX)).ok()?;
        (slot >> 32 == u64::from(child.0)).then_some(Ino(parent))
    }

    fn slot(&self, child: Ino) -> &AtomicU64 {
        &self.0[child.0 as usize % SLOTS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_replaces_another_one_in_its_slot() {
        let parents = Parents::default();
        let far = 12 + SLOTS as u64;
        parents.note(opcode::LOOKUP, NodeId::ROOT, &12_u64.to_ne_bytes());
        parents.note(opcode::MKDIR, NodeId(12), &13_u64.to_ne_bytes());
        assert_eq!(parents.get(Ino(12)), Some(Ino::ROOT));
        assert_eq!(parents.get(Ino(13)), Some(Ino(12)));
        parents.note(opcode::LOOKUP, NodeId(13), &far.to_ne_bytes());
        assert_eq!(parents.get(Ino(12)), None);
        let far = Ino(u32::try_from(far).unwrap());
        assert_eq!(parents.get(far), Some(Ino(13)));
    }

    #[test]
    fn replies_without_a_file_are_ignored() {
        let parents = Parents::default();
        // The reply that a name does not exist, a short reply, and replies to other operations.
        parents.note(opcode::LOOKUP, NodeId::ROOT, &0_u64.to_ne_bytes());
        parents.note(opcode::LOOKUP, NodeId::ROOT, &[1, 2, 3]);
        parents.note(opcode::READDIRPLUS, NodeId::ROOT, &[9; 20]);
        parents.note(opcode::READ, NodeId::ROOT, &12_u64.to_ne_bytes());
        assert!((1..100).all(|ino| parents.get(Ino(ino)).is_none()));
    }
}
