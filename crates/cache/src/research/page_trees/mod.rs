//! Page trees: a red-black tree of pages for each inode, as a replacement for the page hash.
//!
//! # Model
//! A. Arcangeli's patch to Linux 2.2.5 (Lever 2000, section 3.1, `rbtree`). There the inode has a
//! pointer to its tree, and a reader has the inode. Here a reader has an inode number, so the roots
//! are in chains by inode.
//!
//! # Invariants
//! Checked by `PageTrees::check_invariants` when there are no writers, in addition to those of
//! `red_black`:
//! 1. A tree has the pages of one inode, in the order of their indexes, each at most once.
//! 2. Every page in it is live, and its tree's root is in the chain of its inode.
//! 3. The trees together have as many pages as are counted.
//!
//! A page that was evicted but not yet unlinked may be replaced by a new one of the same index. It is
//! then in no tree, its removal was counted and reported, and there is nothing left to unlink.
//!
//! # Locking
//! A chain of roots is locked for one walk of one tree, even by readers, because rotations would
//! mislead them. No other lock is taken, and no thread waits meanwhile. A page is pinned, or made
//! busy, while its tree is locked, and evicted by the thread that claims it first.
//!
//! # Cost
//! 12 bytes for each frame, and 4 for each chain of roots. A lookup passes the roots of its chain,
//! fewer than one for each page, and as many nodes as the depth of the page; those are its links.

mod depths;
mod red_black;
#[cfg(all(test, shuttle))]
mod shuttle_tests;
#[cfg(all(test, not(shuttle)))]
mod tests;

pub use red_black::NODE_BYTES;

use crate::hash::HashKey;
use crate::page::{PAGE_WORDS, PageIndex, PageKey, PageLayout};
use crate::stats::CacheStats;
use crate::table::histogram::Report;
use crate::table::{
    Arena, Buckets, Counters, Counts, Found, Hash64, HashFunction as _, Inserted, Layout as _,
    Link, LockAttempt, Locked, Slot, State, Vacant, Visit,
};
use crate::tables::Finder;
use crate::tape::{CacheKind, Operation, Tape, Tracepoint};
use red_black::{Nodes, Side};
use std::cmp::Ordering;
use std::io;
use std::sync::Arc;

/// Red-black trees over the frames of an arena.
#[derive(Debug)]
pub struct PageTrees {
    arena: Arc<Arena<PAGE_WORDS>>,
    /// The roots of inodes, in chains by hash. Each root is linked to the next by its slot.
    roots: Buckets,
    nodes: Nodes,
    counters: Counters,
    tracepoint: Tracepoint,
}

/// The tree of an inode, whose chain is locked.
struct LockedTree<'a> {
    trees: &'a PageTrees,
    chain: Locked<'a>,
    /// The previous root in the chain; `None` for the first, and for an inode without a tree.
    before: Option<u32>,
    root: Option<u32>,
}

/// The position of a page in its tree, or where it would be inserted.
struct Place {
    node: Option<u32>,
    under: Option<(u32, Side)>,
    /// Number of nodes visited.
    links: u64,
}

impl PageTrees {
    /// Creates trees over `arena`, whose roots are in 2^`bits` chains.
    ///
    /// # Errors
    /// Those of the kernel, because there is not enough memory.
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

    /// Returns the counts of lookups so far. Links are nodes visited.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.sum()
    }

    /// Finds the page and pins it. A page that is busy counts as a hit.
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

    /// Inserts the page with `vacant` unless it is in its tree already.
    pub fn get_or_insert<'a>(
        &'a self,
        key: &PageKey,
        vacant: Vacant<'a, PAGE_WORDS>,
        flags: u64,
        fill: impl FnOnce(&Slot<PAGE_WORDS>),
    ) -> Inserted<'a, PAGE_WORDS> {
        let mut tree = self.lock_tree(key.ino);
        let place = tree.find(key.index);
        let pin = |index, state| self.arena.pin(index, state);
        if let Some(found) = place.node.and_then(|node| self.visit(node, pin)) {
            return Inserted::Existing(found);
        }
        let slot = vacant.slot();
        PageLayout::store(key, slot);
        fill(slot);
        match place.node {
            // It was evicted, and the thread that evicted it is about to unlink it.
            Some(dead) => {
                tree.change(|tree| tree.replace(dead, vacant.index()));
                self.note_removed(*key);
            }
            None => tree.change(|tree| tree.insert(vacant.index(), place.under)),
        }
        slot.set_state(slot.state().with(State::LIVE | flags));
        self.counters.insert();
        self.tracepoint
            .record(Operation::Insert, || HashKey::from(*key));
        Inserted::New(vacant.into_index())
    }

    /// Removes the page. Returns false if it is not in its tree, or is held.
    pub fn remove(&self, key: &PageKey) -> bool {
        self.remove_entry(key).is_some()
    }

    /// Counts the removal of a page whose tree is locked, and reports it.
    fn note_removed(&self, key: PageKey) {
        self.counters.remove();
        self.tracepoint
            .record(Operation::Remove, || HashKey::from(key));
    }

    fn chain_of(&self, inode: u64) -> u32 {
        Hash64.bucket(inode, self.roots.bits())
    }

    fn lock_tree(&self, inode: u64) -> LockedTree<'_> {
        let chain = self.roots.lock(self.chain_of(inode));
        let (mut before, mut root) = (None, None);
        for other in self.arena.chain(chain.first()) {
            if PageLayout::hashed_in(self.arena.slot(other)).ino == inode {
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

    /// Calls `visit` for the page of `key`, with its tree locked. Returns its result and the number of
    /// nodes visited.
    fn walk<T>(&self, key: &PageKey, visit: impl Fn(u32, State) -> Visit<T>) -> (Option<T>, u64) {
        let tree = self.lock_tree(key.ino);
        let place = tree.find(key.index);
        let found = place.node.and_then(|node| self.visit(node, visit));
        (found, place.links)
    }

    /// Calls `visit` for a page whose tree is locked, so that its slot is not reused.
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

impl PageIndex for PageTrees {
    fn get(&self, key: &PageKey) -> Option<Found<'_, PAGE_WORDS>> {
        self.get(key)
    }

    fn get_or_insert<'a>(
        &'a self,
        key: &PageKey,
        vacant: Vacant<'a, PAGE_WORDS>,
        flags: u64,
    ) -> Inserted<'a, PAGE_WORDS> {
        self.get_or_insert(key, vacant, flags, |slot| slot.set_aux(0))
    }

    fn objects(&self) -> u64 {
        self.objects()
    }

    fn set_tape(&self, tape: Arc<dyn Tape>) {
        self.tracepoint.enable(tape, CacheKind::Page);
    }

    fn report(&self) -> Report {
        Report::of_trees(self.counts(), self.depths())
    }

    fn stats(&self, capacity: u64, page_bytes: u64) -> CacheStats {
        let chains = u64::from(self.roots.count()) * size_of::<u32>() as u64;
        let nodes = u64::from(self.arena.capacity()) * NODE_BYTES;
        let pages = self.objects() * (size_of::<Slot<PAGE_WORDS>>() as u64 + page_bytes);
        CacheStats {
            finder: Finder::RedBlackTrees,
            inserted: self.counters.inserted(),
            bytes: chains + nodes + pages,
            ..CacheStats::of_lookups(self.counts(), self.objects(), capacity)
        }
    }

    fn get_again(&self, key: &PageKey) -> Option<Found<'_, PAGE_WORDS>> {
        self.walk(key, |index, state| self.arena.pin(index, state))
            .0
    }

    fn contains(&self, key: &PageKey) -> bool {
        self.walk(key, |index, state| self.arena.check_present(index, state))
            .0
            .is_some()
    }

    fn take_flag(&self, key: &PageKey, flag: u64) -> bool {
        let take = |index, state| self.arena.take_flag(index, state, flag);
        self.walk(key, take).0.unwrap_or(false)
    }

    fn lock(&self, key: &PageKey) -> Option<LockAttempt> {
        self.walk(key, |index, state| self.arena.lock(index, state))
            .0
    }

    fn remove_entry(&self, key: &PageKey) -> Option<State> {
        let mut tree = self.lock_tree(key.ino);
        let node = tree.find(key.index).node?;
        let state = self.arena.claim(node)?;
        tree.change(|tree| tree.remove(node));
        self.note_removed(*key);
        drop(tree);
        drop(self.arena.vacant(node));
        Some(state)
    }

    fn unlink(&self, index: u32) {
        let key = PageLayout::hashed_in(self.arena.slot(index));
        let mut tree = self.lock_tree(key.ino);
        if self.nodes.is_linked(index) {
            tree.change(|tree| tree.remove(index));
            self.note_removed(key);
        }
    }

    fn abandon(&self, index: u32) -> bool {
        let state = self.arena.claim_busy(index);
        self.unlink(index);
        drop(self.arena.vacant(index));
        state.has(State::WAITERS)
    }

    fn check_invariants(&self) {
        let mut objects = 0;
        let mut inodes = std::collections::HashSet::new();
        for chain in 0..self.roots.count() {
            for root in self.arena.chain(self.roots.first(chain)) {
                let inode = PageLayout::hashed_in(self.arena.slot(root)).ino;
                assert!(inodes.insert(inode), "inode {inode} has two trees");
                assert_eq!(self.chain_of(inode), chain, "chain of inode {inode}");
                let mut before = None;
                self.nodes.check(Some(root), &mut |node| {
                    let slot = self.arena.slot(node);
                    let key = PageLayout::hashed_in(slot);
                    assert!(slot.state().has(State::LIVE), "page {key:?} is not live");
                    assert_eq!(key.ino, inode, "inode of page {key:?} in its tree");
                    assert!(before < Some(key.index), "page {key:?} follows {before:?}");
                    before = Some(key.index);
                    objects += 1;
                });
            }
        }
        assert_eq!(objects, self.objects(), "number of pages");
    }
}

impl LockedTree<'_> {
    fn find(&self, index: u64) -> Place {
        let trees = self.trees;
        let (mut at, mut under, mut links) = (self.root, None, 0);
        while let Some(node) = at {
            links += 1;
            let side = match index.cmp(&PageLayout::hashed_in(trees.arena.slot(node)).index) {
                Ordering::Less => Side::Left,
                Ordering::Greater => Side::Right,
                Ordering::Equal => break,
            };
            under = Some((node, side));
            at = trees.nodes.child(node, side);
        }
        Place {
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
            let side = if index <= PageLayout::hashed_in(trees.arena.slot(node)).index {
                found = Some((node, depth));
                Side::Left
            } else {
                Side::Right
            };
            at = trees.nodes.child(node, side);
        }
        found
    }

    /// Applies `change` to the tree, and updates its root in the chain.
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
