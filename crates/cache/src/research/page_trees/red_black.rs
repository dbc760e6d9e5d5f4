//! Red-black trees whose nodes are the slots of an arena. Links are slot numbers instead of pointers.
//!
//! # Model
//! The kernel's `rbtree`. The caller compares keys and determines the parent of a new node. The tree is
//! balanced after each change. The height of a tree of `n` nodes is at most 2 log2(n + 1).
//!
//! # Invariants
//! Checked by [`Nodes::check`]:
//! 1. The root is black, and has no parent.
//! 2. A red node has no red child.
//! 3. All paths from a node down to a missing child have the same number of black nodes.
//! 4. The children of a node have the node as their parent.
//!
//! # Locking
//! The caller must lock the tree. The links are atomic because one array contains the nodes of all trees.
//!
//! # Cost
//! A node takes 12 bytes, and each slot has one.

use crate::memory::{Array, Pages};
use crate::sync::{AtomicU32, Relaxed};
use std::io;

/// The side of a parent on which a child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

use Side::{Left, Right};

impl Side {
    fn other(self) -> Self {
        match self {
            Left => Right,
            Right => Left,
        }
    }
}

/// The number of words in a node: two for the children, and one for the parent and the flags.
const WORDS: usize = 3;
const PARENT: usize = 2;

/// The flag that is set while the node is in a tree.
const LINKED: u32 = 1 << 31;
/// The flag of a red node. The bits below it contain the number of the parent plus 1 ([`NODES_MAX`]).
const RED: u32 = 1 << 30;

/// The exclusive limit of the number of nodes.
const NODES_MAX: usize = (RED - 1) as usize;

/// The size of a node in bytes.
pub const NODE_BYTES: u64 = (WORDS * size_of::<AtomicU32>()) as u64;

/// The nodes of all trees, by slot number. A link is 0, or the number of a node plus 1.
#[derive(Debug)]
pub(super) struct Nodes(Array<AtomicU32>);

/// A tree that the caller has locked.
#[derive(Debug)]
pub(super) struct Tree<'a> {
    nodes: &'a Nodes,
    /// The root, or `None` if the tree is empty.
    pub root: Option<u32>,
}

impl Nodes {
    pub fn new(count: u32) -> io::Result<Self> {
        let count = count as usize;
        assert!(count < NODES_MAX, "too many nodes: {count}");
        Array::zeroed(count * WORDS, Pages::Huge).map(Self)
    }

    /// Returns the tree whose root is `root`.
    pub fn tree(&self, root: Option<u32>) -> Tree<'_> {
        Tree { nodes: self, root }
    }

    fn word(&self, node: u32, word: usize) -> &AtomicU32 {
        &self.0[node as usize * WORDS + word]
    }

    pub fn child(&self, node: u32, side: Side) -> Option<u32> {
        self.word(node, side as usize).load(Relaxed).checked_sub(1)
    }

    /// Returns the node that follows `node` in the order of keys, and the depth of that node. `depth` must
    /// be the depth of `node`.
    pub fn next(&self, mut node: u32, mut depth: usize) -> Option<(u32, usize)> {
        if let Some(right) = self.child(node, Right) {
            (node, depth) = (right, depth + 1);
            while let Some(left) = self.child(node, Left) {
                (node, depth) = (left, depth + 1);
            }
            return Some((node, depth));
        }
        loop {
            let parent = self.parent(node)?;
            depth -= 1;
            if self.side_of(Some(node), parent) == Left {
                return Some((parent, depth));
            }
            node = parent;
        }
    }

    fn parent(&self, node: u32) -> Option<u32> {
        let word = self.word(node, PARENT).load(Relaxed);
        (word & !(LINKED | RED)).checked_sub(1)
    }

    fn is_red(&self, node: u32) -> bool {
        self.word(node, PARENT).load(Relaxed) & RED != 0
    }

    /// Returns true if the node is in a tree.
    pub fn is_linked(&self, node: u32) -> bool {
        self.word(node, PARENT).load(Relaxed) & LINKED != 0
    }

    fn set_child(&self, node: u32, side: Side, child: Option<u32>) {
        let raw = child.map_or(0, |child| child + 1);
        self.word(node, side as usize).store(raw, Relaxed);
    }

    fn set_parent(&self, node: u32, parent: Option<u32>, is_red: bool) {
        let raw = parent.map_or(0, |parent| parent + 1);
        let colour = if is_red { RED } else { 0 };
        self.word(node, PARENT)
            .store(raw | colour | LINKED, Relaxed);
    }

    fn set_red(&self, node: u32, is_red: bool) {
        self.set_parent(node, self.parent(node), is_red);
    }

    /// Returns the side of `parent` on which `child` is. If `child` is `None`, returns a side on which
    /// `parent` has no child.
    fn side_of(&self, child: Option<u32>, parent: u32) -> Side {
        if self.child(parent, Left) == child {
            Left
        } else {
            Right
        }
    }

    /// Checks the invariants of the tree with the root `root`, and calls `visit` for its nodes from left
    /// to right.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn check(&self, root: Option<u32>, visit: &mut impl FnMut(u32)) {
        if let Some(root) = root {
            assert!(!self.is_red(root), "root {root} is red");
            assert_eq!(self.parent(root), None, "parent of root {root}");
        }
        self.check_below(root, visit);
    }

    /// Checks the invariants below `node`. Returns the number of black nodes on each path down.
    fn check_below(&self, node: Option<u32>, visit: &mut impl FnMut(u32)) -> u32 {
        let Some(node) = node else { return 0 };
        assert!(self.is_linked(node), "node {node} is not in a tree");
        for child in [Left, Right]
            .map(|side| self.child(node, side))
            .into_iter()
            .flatten()
        {
            assert_eq!(self.parent(child), Some(node), "parent of node {child}");
            let are_red = self.is_red(node) && self.is_red(child);
            assert!(!are_red, "node {child} and its parent {node} are red");
        }
        let left = self.check_below(self.child(node, Left), visit);
        visit(node);
        let right = self.check_below(self.child(node, Right), visit);
        assert_eq!(left, right, "black nodes below node {node}");
        left + u32::from(!self.is_red(node))
    }
}

impl Tree<'_> {
    /// Adds `node` under the given parent, on a side where it has no child, or as the root of an empty tree
    /// if `under` is `None`.
    pub fn insert(&mut self, node: u32, under: Option<(u32, Side)>) {
        for side in [Left, Right] {
            self.nodes.set_child(node, side, None);
        }
        if let Some((parent, side)) = under {
            self.nodes.set_parent(node, Some(parent), true);
            self.nodes.set_child(parent, side, Some(node));
            self.balance_inserted(node);
        } else {
            self.nodes.set_parent(node, None, false);
            self.root = Some(node);
        }
    }

    /// Replaces `old` by `node`. Afterwards `old` is in no tree.
    pub fn replace(&mut self, old: u32, node: u32) {
        let nodes = self.nodes;
        self.put_in_place(old, Some(node), nodes.is_red(old));
        self.adopt_children(old, node);
        nodes.word(old, PARENT).store(0, Relaxed);
    }

    /// Removes `node`.
    pub fn remove(&mut self, node: u32) {
        let nodes = self.nodes;
        let children = [Left, Right].map(|side| nodes.child(node, side));
        let (child, parent, was_red) = if let [Some(_), Some(right)] = children {
            // The node is replaced by the next node in the order of keys, which has no left child.
            let next = self.leftmost(right);
            let (child, was_red) = (nodes.child(next, Right), nodes.is_red(next));
            let parent = nodes.parent(next).filter(|parent| *parent != node);
            if parent.is_some() {
                self.move_up(next, child);
                self.put_in_place(node, Some(next), nodes.is_red(node));
                self.adopt_children(node, next);
            } else {
                self.put_in_place(node, Some(next), nodes.is_red(node));
                self.adopt(next, Left, nodes.child(node, Left));
            }
            (child, parent.or(Some(next)), was_red)
        } else {
            let child = children[0].or(children[1]);
            let (parent, was_red) = (nodes.parent(node), nodes.is_red(node));
            self.move_up(node, child);
            (child, parent, was_red)
        };
        nodes.word(node, PARENT).store(0, Relaxed);
        if !was_red {
            self.balance_removed(child, parent);
        }
    }

    fn leftmost(&self, node: u32) -> u32 {
        let mut at = node;
        while let Some(left) = self.nodes.child(at, Left) {
            at = left;
        }
        at
    }

    /// Replaces `node` by its only child `child`, or removes `node` if that is `None`. The colour of `child`
    /// does not change.
    fn move_up(&mut self, node: u32, child: Option<u32>) {
        let is_red = child.is_some_and(|child| self.nodes.is_red(child));
        self.put_in_place(node, child, is_red);
    }

    /// Makes `new` the child of the parent of `old` in place of `old`, and sets the colour of `new`.
    fn put_in_place(&mut self, old: u32, new: Option<u32>, is_red: bool) {
        let parent = self.nodes.parent(old);
        match parent {
            Some(parent) => {
                let side = self.nodes.side_of(Some(old), parent);
                self.nodes.set_child(parent, side, new);
            }
            None => self.root = new,
        }
        if let Some(new) = new {
            self.nodes.set_parent(new, parent, is_red);
        }
    }

    /// Makes the children of `other` the children of `node`.
    fn adopt_children(&self, other: u32, node: u32) {
        for side in [Left, Right] {
            self.adopt(node, side, self.nodes.child(other, side));
        }
    }

    fn adopt(&self, node: u32, side: Side, child: Option<u32>) {
        self.nodes.set_child(node, side, child);
        if let Some(child) = child {
            self.nodes
                .set_parent(child, Some(node), self.nodes.is_red(child));
        }
    }

    /// Rotates `node` down to `side`. The child on the other side, which must exist, moves up, and its
    /// colour does not change.
    fn rotate(&mut self, node: u32, side: Side) {
        let nodes = self.nodes;
        let Some(risen) = nodes.child(node, side.other()) else {
            debug_assert!(false, "node {node} has no child to move up");
            return;
        };
        self.put_in_place(node, Some(risen), nodes.is_red(risen));
        self.adopt(node, side.other(), nodes.child(risen, side));
        self.adopt(risen, side, Some(node));
    }

    /// Restores invariant 2, which the red `node` and its parent may violate.
    fn balance_inserted(&mut self, node: u32) {
        let nodes = self.nodes;
        let mut node = node;
        while let Some(parent) = nodes.parent(node).filter(|parent| nodes.is_red(*parent)) {
            // The parent is red, so it is not the root.
            let Some(above) = nodes.parent(parent) else {
                break;
            };
            let side = nodes.side_of(Some(parent), above);
            let uncle = nodes.child(above, side.other());
            if let Some(uncle) = uncle.filter(|uncle| nodes.is_red(*uncle)) {
                nodes.set_red(parent, false);
                nodes.set_red(uncle, false);
                nodes.set_red(above, true);
                node = above;
                continue;
            }
            let outer = if nodes.side_of(Some(node), parent) == side {
                parent
            } else {
                self.rotate(parent, side);
                node
            };
            nodes.set_red(outer, false);
            nodes.set_red(above, true);
            self.rotate(above, side.other());
            break;
        }
        if let Some(root) = self.root {
            nodes.set_red(root, false);
        }
    }

    /// Restores invariant 3 if the paths through `child`, a child of `parent`, have one black node too few.
    fn balance_removed(&mut self, child: Option<u32>, parent: Option<u32>) {
        let nodes = self.nodes;
        let is_red = |node: Option<u32>| node.is_some_and(|node| nodes.is_red(node));
        let (mut child, mut parent) = (child, parent);
        while let Some(above) = parent.filter(|_| !is_red(child)) {
            let side = nodes.side_of(child, above);
            let mut sibling = nodes.child(above, side.other());
            if let Some(red) = sibling.filter(|sibling| nodes.is_red(*sibling)) {
                nodes.set_red(red, false);
                nodes.set_red(above, true);
                self.rotate(above, side);
                sibling = nodes.child(above, side.other());
            }
            // The sibling exists, since the paths through it have at least one black node.
            let Some(mut sibling) = sibling else { break };
            let inner = nodes.child(sibling, side);
            if !is_red(inner) && !is_red(nodes.child(sibling, side.other())) {
                nodes.set_red(sibling, true);
                (child, parent) = (Some(above), nodes.parent(above));
                continue;
            }
            if !is_red(nodes.child(sibling, side.other())) {
                nodes.set_red(sibling, true);
                self.rotate(sibling, side.other());
                sibling = inner.unwrap_or(sibling);
            }
            nodes.set_red(sibling, nodes.is_red(above));
            nodes.set_red(above, false);
            if let Some(outer) = nodes.child(sibling, side.other()) {
                nodes.set_red(outer, false);
            }
            self.rotate(above, side);
            return;
        }
        if let Some(child) = child {
            nodes.set_red(child, false);
        }
    }
}
