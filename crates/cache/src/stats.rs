//! A cache's figures.

use crate::table::{Counts, HashFunction, Layout, Slot, Table};
use crate::tables::{Finder, TableHash};

/// One cache's table: its size and what lookups cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CacheStats {
    /// What finds objects: a hash function, or trees.
    #[serde(default)]
    pub finder: Finder,
    /// Buckets of the hash table; none of trees.
    pub buckets: u64,
    /// Objects held.
    pub objects: u64,
    /// Objects inserted so far; those of them that are not held any more were evicted or removed.
    #[serde(default)]
    pub inserted: u64,
    /// Objects that fit.
    pub capacity: u64,
    /// Lookups.
    pub lookups: u64,
    /// Lookups that found their object.
    pub hits: u64,
    /// Links walked by lookups that hit.
    pub links_on_hits: u64,
    /// Links walked by lookups that missed.
    pub links_on_misses: u64,
    /// Length of the longest chain now, or depth of the deepest page in trees, if they were looked at
    /// for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_chain: Option<u64>,
    /// Memory used, in bytes: contents, slots and buckets.
    pub bytes: u64,
}

impl CacheStats {
    /// The figures of `table`, whose objects take `object_bytes` besides slots.
    pub(crate) fn of<L: Layout<W>, D, const W: usize>(
        table: &Table<L, TableHash<D>, W>,
        capacity: u64,
        object_bytes: u64,
    ) -> Self
    where
        TableHash<D>: HashFunction<L::Hashed>,
    {
        let objects = table.objects();
        let buckets = u64::from(table.bucket_count());
        let slot_bytes = size_of::<Slot<W>>() as u64;
        Self {
            finder: table.hash().finder(),
            buckets,
            inserted: table.inserted(),
            bytes: buckets * 4 + objects * (slot_bytes + object_bytes),
            ..Self::of_lookups(table.counts(), objects, capacity)
        }
    }

    /// What does not depend on how objects are found.
    pub(crate) fn of_lookups(counts: Counts, objects: u64, capacity: u64) -> Self {
        Self {
            objects,
            capacity,
            lookups: counts.lookups(),
            hits: counts.hits,
            links_on_hits: counts.links_on_hits,
            links_on_misses: counts.links_on_misses,
            ..Self::default()
        }
    }

    /// Both tables of a cache that has two.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            finder: self.finder,
            buckets: self.buckets + other.buckets,
            objects: self.objects + other.objects,
            inserted: self.inserted + other.inserted,
            capacity: self.capacity + other.capacity,
            lookups: self.lookups + other.lookups,
            hits: self.hits + other.hits,
            links_on_hits: self.links_on_hits + other.links_on_hits,
            links_on_misses: self.links_on_misses + other.links_on_misses,
            longest_chain: self.longest_chain.max(other.longest_chain),
            bytes: self.bytes + other.bytes,
        }
    }
}
