//! A reference model of a file system in memory, which follows POSIX and Linux. Tests compare a volume with
//! it.
//!
//! Model: names, links, open files, permissions, attributes, sparse content, and the errno of operations
//! that must fail, in the order of Linux's checks. Free space is not modelled: a volume may return
//! `ENOSPC` instead.
//!
//! Cost: clones share nodes, so that the states after each of several hundred operations can be kept.

pub mod acl;
mod attributes;
mod compare;
mod content;
mod file;
mod inodes;
mod names;
mod node;
mod shape;
mod state;

pub use compare::{Clock, compare_all, compare_nodes};
pub use content::{CHUNK_BYTES, Content};
pub use inodes::NodeInodes;
pub use node::{Body, INHERITED_FLAGS, Node, NodeId, SETTABLE_FLAGS, Stamp, Times};
pub use shape::{FileInodes, Shape, ShapeNode, shape_of_model, shape_of_volume};
pub use state::{Model, Outcome, Rules};

use state::{Step, done};
