//! Statistics of a cache.

use crate::table::{Counts, HashFunction, Layout, Slot, Table};
use crate::tables::{Finder, TableHash};

/// The statistics of one cache: the size of its table, and the counts of its lookups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CacheStats {
    /// The search structure: a hash table with this function, or trees.
    #[serde(default)]
    pub finder: Finder,
    /// The number of buckets of the hash table, or 0 for trees.
    pub buckets: u64,
    /// The number of objects in the cache.
    pub objects: u64,
    /// The number of objects inserted so far. The difference from `objects` is the number of objects that
    /// were evicted or removed.
    #[serde(default)]
    pub inserted: u64,
    /// The maximum number of objects in the cache.
    pub capacity: u64,
    /// The number of lookups.
    pub lookups: u64,
    /// The number of lookups that found their object.
    pub hits: u64,
    /// The number of these hits that found their object by a reference, and walked no chain.
    #[serde(default)]
    pub by_reference: u64,
    /// The number of links walked by lookups that hit.
    pub links_on_hits: u64,
    /// The number of links walked by lookups that missed.
    pub links_on_misses: u64,
    /// The length of the longest chain, or the depth of the deepest page in trees; `None` if not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_chain: Option<u64>,
    /// The memory of the contents, slots, buckets and references in bytes.
    pub bytes: u64,
}

impl CacheStats {
    /// Returns the statistics of `table`. Each object takes `object_bytes` in addition to its slot.
    pub(crate) fn of<L: Layout<W>, D, const W: usize>(
        table: &Table<L, TableHash<D>, W>,
        capacity: u64,
        object_bytes: u64,
    ) -> Self
    where
        TableHash<D>: HashFunction<L::HashInput>,
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

    /// Returns statistics with `counts`, the number of objects and the capacity. The other fields have
    /// default values.
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

    /// Adds `hits` lookups that hit by a reference, and the `bytes` of the references.
    pub(crate) fn with_references(self, hits: u64, bytes: u64) -> Self {
        Self {
            lookups: self.lookups + hits,
            hits: self.hits + hits,
            by_reference: self.by_reference + hits,
            bytes: self.bytes + bytes,
            ..self
        }
    }

    /// Returns the counts of the lookups that used the search structure: all except the hits by a reference.
    #[must_use]
    pub fn searches(&self) -> Counts {
        Counts {
            hits: self.hits.saturating_sub(self.by_reference),
            misses: self.lookups.saturating_sub(self.hits),
            links_on_hits: self.links_on_hits,
            links_on_misses: self.links_on_misses,
        }
    }

    /// Returns the sum of the statistics of two tables of one cache. The longest chain is the longer of
    /// the two.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            finder: self.finder,
            buckets: self.buckets + other.buckets,
            objects: self.objects + other.objects,
            inserted: self.inserted + other.inserted,
            capacity: self.capacity + other.capacity,
            lookups: self.lookups + other.lookups,
            hits: self.hits + other.hits,
            by_reference: self.by_reference + other.by_reference,
            links_on_hits: self.links_on_hits + other.links_on_hits,
            links_on_misses: self.links_on_misses + other.links_on_misses,
            longest_chain: self.longest_chain.max(other.longest_chain),
            bytes: self.bytes + other.bytes,
        }
    }
}
