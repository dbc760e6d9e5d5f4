//! Page trees: a red-black tree of pages for each inode, instead of a hash table of pages.
//!
//! # Model
//! A. Arcangeli's patch to Linux 2.2.5 (Lever 2000, section 3.1, `rbtree`). In Linux the reader has the
//! inode, which has a pointer to its tree. Here the reader has only an inode number. So the roots of the
//! trees are in a hash table, whose key is the inode number and whose chains contain roots.
//!
//! # Invariants
//! Checked by `PageTrees::check_invariants` when there are no writers, in addition to those of
//! `red_black`:
//! 1. A tree has the pages of one inode, in the order of their indexes, each at most once.
//! 2. Every page of a tree is live, and the root of the tree is in the chain of the inode.
//! 3. All trees together have [`PageTrees::objects`] pages.
//!
//! The clock hand claims a page before it locks the page's tree. If another thread then inserts a page with
//! the same index, the new page replaces the claimed page in the tree, and the removal of the claimed page is
//! counted and reported. The thread that has the claim later finds that the claimed page is in no tree, and
//! does not unlink it.
//!
//! # Locking
//! A reader or a writer locks a chain of roots, for one walk of one tree. Without the lock, a rotation could
//! lead a reader to the wrong nodes. With the chain locked, a thread takes no other lock and does not wait. A
//! page is pinned or made busy while its tree is locked. The clock hand claims pages without the lock, by a
//! change of the state word.
//!
//! # Cost
//! Each frame takes 12 bytes for a node, and a chain of roots takes 4 bytes. A lookup walks the roots in its chain,
//! and then as many nodes of its tree as the depth of the page. A chain has few roots, since there are about
//! as many chains as frames. Only the nodes are counted as links.

mod depths;
mod index;
mod red_black;
#[cfg(all(test, shuttle))]
mod shuttle_tests;
#[cfg(all(test, not(shuttle)))]
mod tests;

pub use red_black::NODE_BYTES;

use crate::hash::HashKey;
use crate::page::{PAGE_WORDS, PageKey, PageLayout};
use crate::table::{
    Arena, Buckets, Counters, Counts, Found, Hash64, HashFunction as _, Inserted, Layout as _,
    Link, Locked, Slot, State, Vacant, Visit,
};
use crate::tape::{Operation, Tracepoint};
use red_black::{Nodes, Side};
use std::cmp::Ordering;
use std::io;
use std::sync::Arc;

/// Red-black trees over the frames of an arena.
#[derive(Debug)]
pub struct PageTrees {
    arena: Arc<Arena<PAGE_WORDS>>,
    /// The chains of roots. The link in the slot of each root refers to the next root of the chain.
    roots: Buckets,
    nodes: Nodes,
    counters: Counters,
    tracepoint: Tracepoint,
}

/// The tree of an inode, in a locked chain.
struct LockedTree<'a> {
    trees: &'a PageTrees,
    chain: Locked<'a>,
    /// The previous root in the chain, or `None` if the tree is empty or the first in the chain.
    before: Option<u32>,
    /// The root, or `None` if the tree is empty.
    root: Option<u32>,
}

/// The position of a page in its tree. If the page is missing, the position where it would be inserted.
struct Position {
    node: Option<u32>,
    under: Option<(u32, Side)>,
    /// The number of nodes visited by the search.
    links: u64,
}

impl PageTrees {
    /// Creates empty trees for the slots of `arena`, with 2^`bits` chains of roots.
    ///
    /// # Errors
    /// Returns the kernel's error if there is not enough address space.
    pub fn new(arena: Arc<Arena<PAGE_WORDS>>, bits: u32) -> io::Result<Self> {
        Ok(Self {
            roots: Buckets::new(bits, 0)?,
            nodes: Nodes::new(arena.capacity())?,
            counters: Counters::new(),
            tracepoint: Tracepoint::new(),
            arena,
        })
    }

    /// Returns the number of pages.
    #[must_use]
    pub fn objects(&self) -> u64 {
        self.counters.objects()
    }

    /// Returns the counts of lookups so far. Each node that a lookup visits is one link.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.sum()
    }

    /// Finds the page of `key` and pins it. A page that is busy is not pinned, but counts as a hit.
    pub fn get(&self, key: &PageKey) -> Option<Found<'_, PAGE_WORDS>> {
        let (found, links) = self.walk(key, |index, state| self.arena.pin(index, state));
        if found.is_some() {
            self.counters.hit(links);
        } else {
            self.counters.miss(links);
        }
        let hit = found.is_some();
        self.tracepoint
            .record(Operation::Lookup { hit }, || HashKey::from(*key));
        found
    }

    /// Inserts the page of `key` in the slot `vacant`, unless the page is in its tree already. The new page
    /// gets `flags`, and `fill` initializes its slot.
    pub fn get_or_insert<'a>(
        &'a self,
        key: &PageKey,
        vacant: Vacant<'a, PAGE_WORDS>,
        flags: u64,
        fill: impl FnOnce(&Slot<PAGE_WORDS>),
    ) -> Inserted<'a, PAGE_WORDS> {
        let mut tree = self.lock_tree(key.ino);
        let position = tree.find(key.index);
        let pin = |index, state| self.arena.pin(index, state);
        if let Some(found) = position.node.and_then(|node| self.visit(node, pin)) {
            return Inserted::Existing(found);
        }
        let slot = vacant.slot();
        PageLayout::store(key, slot);
        fill(slot);
        match position.node {
            // Another thread has claimed the page, but has not unlinked it yet.
            Some(dead) => {
                tree.change(|tree| tree.replace(dead, vacant.index()));
                self.note_removed(*key, Operation::Evict);
            }
            None => tree.change(|tree| tree.insert(vacant.index(), position.under)),
        }
        slot.set_state(slot.state().with(State::LIVE | flags));
        self.counters.insert();
        self.tracepoint
            .record(Operation::Insert, || HashKey::from(*key));
        Inserted::New(vacant.into_index())
    }

    /// Counts the removal of a page, and reports it as `operation`. Its tree must be locked.
    fn note_removed(&self, key: PageKey, operation: Operation) {
        self.counters.remove();
        self.tracepoint.record(operation, || HashKey::from(key));
    }

    /// Removes the page in slot `index`, which the caller must have claimed, from its tree, and reports `operation`. Has
    /// no effect if the page is in no tree.
    fn unlink_reporting(&self, index: u32, operation: Operation) {
        let key = PageLayout::hash_input_in(self.arena.slot(index));
        let mut tree = self.lock_tree(key.ino);
        if self.nodes.is_linked(index) {
            tree.change(|tree| tree.remove(index));
            self.note_removed(key, operation);
        }
    }

    fn chain_of(&self, inode: u64) -> u32 {
        Hash64.bucket(inode, self.roots.bits())
    }

    fn lock_tree(&self, inode: u64) -> LockedTree<'_> {
        let chain = self.roots.lock(self.chain_of(inode));
        let (mut before, mut root) = (None, None);
        for other in self.arena.chain(chain.first()) {
            if PageLayout::hash_input_in(self.arena.slot(other)).ino == inode {
                root = Some(other);
                break;
            }
            before = Some(other);
        }
        // A new tree is added at the front.
        let before = root.and(before);
        LockedTree {
            trees: self,
            chain,
            before,
            root,
        }
    }

    /// Calls `visit` for the page of `key`, with its tree locked. Returns the value in [`Visit::Found`], and
    /// the number of nodes visited.
    fn walk<T>(&self, key: &PageKey, visit: impl Fn(u32, State) -> Visit<T>) -> (Option<T>, u64) {
        let tree = self.lock_tree(key.ino);
        let position = tree.find(key.index);
        let found = position.node.and_then(|node| self.visit(node, visit));
        (found, position.links)
    }

    /// Calls `visit` for a page until the result is not [`Visit::Raced`]. The tree must be locked, so that
    /// the page's slot is not reused.
    fn visit<T>(&self, node: u32, visit: impl Fn(u32, State) -> Visit<T>) -> Option<T> {
        loop {
            match visit(node, self.arena.slot(node).state()) {
                Visit::Found(found) => return Some(found),
                Visit::Pass => return None,
                Visit::Raced => {}
            }
        }
    }
}

impl LockedTree<'_> {
    fn find(&self, index: u64) -> Position {
        let trees = self.trees;
        let (mut at, mut under, mut links) = (self.root, None, 0);
        while let Some(node) = at {
            links += 1;
            let side = match index.cmp(&PageLayout::hash_input_in(trees.arena.slot(node)).index) {
                Ordering::Less => Side::Left,
                Ordering::Greater => Side::Right,
                Ordering::Equal => break,
            };
            under = Some((node, side));
            at = trees.nodes.child(node, side);
        }
        Position {
            node: at,
            under,
            links,
        }
    }

    /// Returns the first page whose index is at least `index`, and its depth.
    fn first_from(&self, index: u64) -> Option<(u32, usize)> {
        let trees = self.trees;
        let (mut at, mut depth, mut found) = (self.root, 0, None);
        while let Some(node) = at {
            depth += 1;
            let side = if index <= PageLayout::hash_input_in(trees.arena.slot(node)).index {
                found = Some((node, depth));
                Side::Left
            } else {
                Side::Right
            };
            at = trees.nodes.child(node, side);
        }
        found
    }

    /// Applies `change` to the tree. If the root changes, replaces the old root in the chain by the new one.
    fn change(&mut self, change: impl FnOnce(&mut red_black::Tree<'_>)) {
        let trees = self.trees;
        let old = self.root;
        let following = old.map_or_else(|| self.chain.first(), |old| trees.arena.slot(old).next());
        let mut tree = trees.nodes.tree(old);
        change(&mut tree);
        let new = tree.root;
        if new == old {
            return;
        }
        let link = new.map_or(following, |new| {
            trees.arena.slot(new).set_next(following);
            Link::Slot(new)
        });
        match self.before {
            Some(before) => trees.arena.slot(before).set_next(link),
            None => self.chain.set_first(link),
        }
        self.root = new;
    }
}
