//! The search structure for the frames of a cache: a hash table, or an alternative.

use super::key::{PAGE_WORDS, PageKey, PageLayout};
use crate::stats::CacheStats;
use crate::table::histogram::Report;
use crate::table::{Found, Hash64, Inserted, Layout, State, Table, LockAttempt, Vacant};
use crate::tables::TableHash;
use crate::tape::{CacheKind, Tape};
use std::fmt::Debug;
use std::sync::Arc;

/// A hash table over frames.
pub(crate) type FrameTable = Table<PageLayout, TableHash<Hash64>, PAGE_WORDS>;

/// A search structure for pages other than the hash table. Each method corresponds to the one of
/// [`Table`] with its name.
pub(crate) trait PageIndex: Debug + Send + Sync {
    fn get(&self, key: &PageKey) -> Option<Found<'_, PAGE_WORDS>>;
    fn get_again(&self, key: &PageKey) -> Option<Found<'_, PAGE_WORDS>>;
    fn contains(&self, key: &PageKey) -> bool;
    fn take_flag(&self, key: &PageKey, flag: u64) -> bool;
    fn lock(&self, key: &PageKey) -> Option<LockAttempt>;
    /// Does what [`Table::get_or_insert`] does, and clears the half word of a new page.
    fn get_or_insert<'a>(
        &'a self,
        key: &PageKey,
        vacant: Vacant<'a, PAGE_WORDS>,
        flags: u64,
    ) -> Inserted<'a, PAGE_WORDS>;
    fn remove_entry(&self, key: &PageKey) -> Option<State>;
    fn unlink(&self, frame: u32);
    fn abandon(&self, frame: u32) -> bool;
    fn set_tape(&self, tape: Arc<dyn Tape>);
    fn objects(&self) -> u64;
    fn report(&self) -> Report;
    /// Returns the statistics of a cache with room for `capacity` pages of `page_bytes`.
    fn stats(&self, capacity: u64, page_bytes: u64) -> CacheStats;
    fn check_invariants(&self);
}

/// The search structure for the frames of a cache. The table, which is the default, is called
/// directly. Each method corresponds to the one of [`Table`] with its name.
#[derive(Debug)]
pub(crate) enum FrameIndex {
    Table(FrameTable),
    Other(Box<dyn PageIndex>),
}

macro_rules! either {
    ($self:ident, $index:ident => $call:expr) => {
        match $self {
            FrameIndex::Table($index) => $call,
            FrameIndex::Other($index) => $call,
        }
    };
}

impl FrameIndex {
    #[inline]
    pub fn get(&self, key: &PageKey) -> Option<Found<'_, PAGE_WORDS>> {
        either!(self, index => index.get(key))
    }

    pub fn get_again(&self, key: &PageKey) -> Option<Found<'_, PAGE_WORDS>> {
        either!(self, index => index.get_again(key))
    }

    pub fn contains(&self, key: &PageKey) -> bool {
        either!(self, index => index.contains(key))
    }

    pub fn take_flag(&self, key: &PageKey, flag: u64) -> bool {
        either!(self, index => index.take_flag(key, flag))
    }

    pub fn lock(&self, key: &PageKey) -> Option<LockAttempt> {
        either!(self, index => index.lock(key))
    }

    pub fn get_or_insert<'a>(
        &'a self,
        key: &PageKey,
        vacant: Vacant<'a, PAGE_WORDS>,
        flags: u64,
    ) -> Inserted<'a, PAGE_WORDS> {
        match self {
            Self::Table(table) => table.get_or_insert(key, vacant, flags, |slot| slot.set_aux(0)),
            Self::Other(other) => other.get_or_insert(key, vacant, flags),
        }
    }

    pub fn remove_entry(&self, key: &PageKey) -> Option<State> {
        either!(self, index => index.remove_entry(key))
    }

    pub fn unlink(&self, frame: u32) {
        either!(self, index => index.unlink(frame));
    }

    pub fn abandon(&self, frame: u32) -> bool {
        either!(self, index => index.abandon(frame))
    }

    pub fn set_tape(&self, tape: Arc<dyn Tape>, cache: CacheKind) {
        match self {
            Self::Table(table) => table.set_tape(tape, cache),
            // Only pages have another index; buffers are in a table.
            Self::Other(other) => other.set_tape(tape),
        }
    }

    /// Returns the number of its frames.
    pub fn objects(&self) -> u64 {
        either!(self, index => index.objects())
    }

    /// Returns the lengths of the chains of `cache`, or the depths of its trees.
    pub fn report(&self, cache: CacheKind) -> Report {
        match self {
            Self::Table(table) => Report::of(cache, [(table.counts(), table.histogram())]),
            Self::Other(other) => other.report(),
        }
    }

    /// Returns the statistics of a cache with room for `capacity` frames of `frame_bytes`.
    pub fn stats(&self, capacity: u64, frame_bytes: u64) -> CacheStats {
        match self {
            Self::Table(table) => CacheStats::of(table, capacity, frame_bytes),
            Self::Other(other) => other.stats(capacity, frame_bytes),
        }
    }

    pub fn check_invariants(&self) {
        match self {
            Self::Table(table) => {
                let key = PageLayout::hashed_in;
                table.check_invariants(|a, b| key(a) == key(b));
            }
            Self::Other(other) => other.check_invariants(),
        }
    }
}
