//! What finds the frames of a cache: a hash table, or trees.

use super::key::{PAGE_WORDS, PageKey, PageLayout};
use crate::page_trees::PageTrees;
use crate::stats::CacheStats;
use crate::table::histogram::Report;
use crate::table::{Found, Hash64, Inserted, Layout, Slot, State, Table, Taken, Vacant};
use crate::tables::{Finder, TableHash};
use crate::tape::{CacheKind, Tape};
use std::sync::Arc;

/// A hash table over frames.
pub(crate) type FrameTable = Table<PageLayout, TableHash<Hash64>, PAGE_WORDS>;

/// What finds the frames of a cache.
#[derive(Debug)]
pub(crate) enum FrameIndex {
    Table(FrameTable),
    Trees(PageTrees),
}

/// Hands a call on to either.
macro_rules! either {
    ($self:ident, $index:ident => $call:expr) => {
        match $self {
            FrameIndex::Table($index) => $call,
            FrameIndex::Trees($index) => $call,
        }
    };
}

impl FrameIndex {
    /// See [`Table::get`].
    #[inline]
    pub fn get(&self, key: &PageKey) -> Option<Found<'_, PAGE_WORDS>> {
        either!(self, index => index.get(key))
    }

    /// See [`Table::get_again`].
    pub fn get_again(&self, key: &PageKey) -> Option<Found<'_, PAGE_WORDS>> {
        either!(self, index => index.get_again(key))
    }

    /// See [`Table::contains`].
    pub fn contains(&self, key: &PageKey) -> bool {
        either!(self, index => index.contains(key))
    }

    /// See [`Table::take_flag`].
    pub fn take_flag(&self, key: &PageKey, flag: u64) -> bool {
        either!(self, index => index.take_flag(key, flag))
    }

    /// See [`Table::lock`].
    pub fn lock(&self, key: &PageKey) -> Option<Taken> {
        either!(self, index => index.lock(key))
    }

    /// See [`Table::get_or_insert`].
    pub fn get_or_insert<'a>(
        &'a self,
        key: &PageKey,
        vacant: Vacant<'a, PAGE_WORDS>,
        flags: u64,
        fill: impl FnOnce(&Slot<PAGE_WORDS>),
    ) -> Inserted<'a, PAGE_WORDS> {
        either!(self, index => index.get_or_insert(key, vacant, flags, fill))
    }

    /// See [`Table::take_out`].
    pub fn take_out(&self, key: &PageKey) -> Option<State> {
        either!(self, index => index.take_out(key))
    }

    /// See [`Table::unlink`].
    pub fn unlink(&self, frame: u32) {
        either!(self, index => index.unlink(frame));
    }

    /// See [`Table::abandon`].
    pub fn abandon(&self, frame: u32) -> bool {
        either!(self, index => index.abandon(frame))
    }

    /// See [`Table::set_tape`].
    pub fn set_tape(&self, tape: Arc<dyn Tape>, cache: CacheKind) {
        match self {
            Self::Table(table) => table.set_tape(tape, cache),
            // Only pages have trees.
            Self::Trees(trees) => trees.set_tape(tape),
        }
    }

    /// Number of frames in it.
    pub fn objects(&self) -> u64 {
        either!(self, index => index.objects())
    }

    /// How long the chains of `cache` are, or how deep its trees.
    pub fn report(&self, cache: CacheKind) -> Report {
        match self {
            Self::Table(table) => Report::of(cache, [(table.counts(), table.histogram())]),
            Self::Trees(trees) => Report::of_trees(trees.counts(), trees.depths()),
        }
    }

    /// The figures, where `capacity` frames of `frame_bytes` fit.
    pub fn stats(&self, capacity: u64, frame_bytes: u64) -> CacheStats {
        match self {
            Self::Table(table) => {
                CacheStats::of(table, table.hash().finder(), capacity, frame_bytes)
            }
            Self::Trees(trees) => CacheStats {
                finder: Finder::RedBlackTrees,
                inserted: trees.inserted(),
                bytes: trees.overhead_bytes()
                    + trees.objects() * (size_of::<Slot<PAGE_WORDS>>() as u64 + frame_bytes),
                ..CacheStats::of_lookups(trees.counts(), trees.objects(), capacity)
            },
        }
    }

    /// See [`Table::check_invariants`].
    pub fn check_invariants(&self) {
        match self {
            Self::Table(table) => {
                let key = PageLayout::hashed_in;
                table.check_invariants(|a, b| key(a) == key(b));
            }
            Self::Trees(trees) => trees.check_invariants(),
        }
    }
}
