//! `off`: the variant that keeps no entries, so that searches find none.

use super::{Deletion, Held, Inserted, MbCache, Stats, Variant};
use crate::shrink::Shrinker;

/// The variant `off`.
#[derive(Debug)]
pub(super) struct Off;

impl Shrinker for Off {
    fn count_objects(&self) -> u64 {
        0
    }

    fn scan_objects(&self, _: u64) -> u64 {
        0
    }
}

impl MbCache for Off {
    fn variant(&self) -> Variant {
        Variant::Off
    }

    fn insert(&self, _: u32, _: u64, _: bool) -> Inserted {
        Inserted::NoRoom
    }

    fn find_first(&self, _: u32) -> Option<Held<'_>> {
        None
    }

    fn find_next<'c>(&'c self, _: Held<'c>) -> Option<Held<'c>> {
        None
    }

    fn get(&self, _: u32, _: u64) -> Option<Held<'_>> {
        None
    }

    fn delete_or_get(&self, _: u32, _: u64) -> Deletion<'_> {
        Deletion::Absent
    }

    fn stats(&self) -> Stats {
        Stats::default()
    }

    fn check_invariants(&self) {}
}
