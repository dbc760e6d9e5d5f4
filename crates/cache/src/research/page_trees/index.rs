//! The trees as an index of the page cache.

use super::{NODE_BYTES, PageTrees};
use crate::page::{PAGE_WORDS, PageIndex, PageKey, PageLayout};
use crate::stats::CacheStats;
use crate::table::histogram::Report;
use crate::table::{Found, Inserted, Layout as _, LockAttempt, Slot, State, Vacant};
use crate::tables::Finder;
use crate::tape::{CacheKind, Operation, Tape};
use std::sync::Arc;

impl PageTrees {
    /// Removes the page of `key`. Returns false if the page is not in its tree, or is not evictable.
    pub fn remove(&self, key: &PageKey) -> bool {
        self.remove_entry(key).is_some()
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

    fn is_uptodate(&self, key: &PageKey) -> bool {
        let check = |index, state| self.arena.check_uptodate(index, state);
        self.walk(key, check).0.unwrap_or(false)
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
        self.note_removed(*key, Operation::Remove);
        drop(tree);
        drop(self.arena.vacant(node));
        Some(state)
    }

    fn unlink(&self, index: u32) {
        self.unlink_reporting(index, Operation::Evict);
    }

    fn abandon(&self, index: u32) -> bool {
        let state = self.arena.claim_busy(index);
        self.unlink_reporting(index, Operation::Remove);
        drop(self.arena.vacant(index));
        state.has(State::WAITERS)
    }

    fn check_invariants(&self) {
        let mut objects = 0;
        let mut inodes = std::collections::HashSet::new();
        for chain in 0..self.roots.count() {
            for root in self.arena.chain(self.roots.first(chain)) {
                let inode = PageLayout::hash_input_in(self.arena.slot(root)).ino;
                assert!(inodes.insert(inode), "inode {inode} has two trees");
                assert_eq!(self.chain_of(inode), chain, "chain of inode {inode}");
                let mut before = None;
                self.nodes.check(Some(root), &mut |node| {
                    let slot = self.arena.slot(node);
                    let key = PageLayout::hash_input_in(slot);
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
