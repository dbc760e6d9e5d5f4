//! The paths of a model, from which operations choose.

use super::NodePath;
use crate::model::{Model, NodeId};

/// The paths of a model.
pub(super) struct Choice {
    pub(super) directories: Vec<NodePath>,
    pub(super) files: Vec<NodePath>,
    pub(super) all: Vec<NodePath>,
}

impl Choice {
    pub(super) fn new(model: &Model) -> Self {
        let mut choice = Self {
            directories: Vec::new(),
            files: Vec::new(),
            all: Vec::new(),
        };
        let mut pending = vec![(NodePath::default(), NodeId::ROOT)];
        while let Some((path, id)) = pending.pop() {
            let Some(node) = model.node(id) else { continue };
            if let Some(entries) = node.entries() {
                let children = entries.iter();
                pending.extend(children.map(|(name, child)| (path.join(name), *child)));
                choice.directories.push(path.clone());
            }
            if node.content().is_some() {
                choice.files.push(path.clone());
            }
            if !path.0.is_empty() {
                choice.all.push(path);
            }
        }
        choice
    }
}
