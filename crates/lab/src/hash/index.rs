//! The interface of a table or of trees in which events are replayed.

use super::step::Key;
use larder_cache::table::{Counts, Histogram};
use std::fmt::Debug;

/// A structure that finds objects by their keys.
pub(super) trait Index: Debug + Send {
    /// Returns whether `key` is present, and counts the lookup.
    fn look_up(&self, key: &Key) -> bool;
    /// Inserts `key`, unless it is present.
    fn insert(&self, key: &Key);
    /// Removes `key`, if it is present.
    fn remove(&self, key: &Key);
    /// See [`Replay::counts`](super::replay::Replay::counts).
    fn counts(&self) -> Counts;
    /// See [`Replay::objects`](super::replay::Replay::objects).
    fn objects(&self) -> u64;
    /// See [`Replay::histogram`](super::replay::Replay::histogram).
    fn histogram(&self) -> Histogram;
    /// Prefetches the head of the chain of `key`. This is the first prefetch for a key.
    fn prefetch_bucket(&self, _key: &Key) {}
    /// Prefetches the first object of the chain of `key`. This is the second prefetch for a key.
    fn prefetch_entry(&self, _key: &Key) {}
    /// Prefetches the second object of the chain of `key`, if the first object has another key. This is the
    /// last prefetch for a key.
    fn prefetch_next(&self, _key: &Key) {}
}
