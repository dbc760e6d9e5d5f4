//! The identity of an object in a trace: a hash of its cache and its key.

use crate::workload::chance::mix;
use larder_cache::tape::CacheKind;
use larder_trace::TraceEvent;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Returns the hash that identifies the object of an event.
#[inline]
pub(in crate::advise) fn identify(event: &TraceEvent) -> u64 {
    let key = event.key();
    // The keys of pages and names do not contain the device, which distinguishes file systems.
    let (salt, device) = match event.cache {
        CacheKind::Page => (1, event.device),
        CacheKind::Buffer => (2, 0),
        CacheKind::Dentry => (3, event.device),
        CacheKind::Inode => (4, 0),
    };
    let salt = salt << 60 | u64::from(device) << 28;
    mix(key.object ^ mix(key.index ^ salt))
}

/// A hash map whose keys are hashes.
pub(super) type IdMap<V> = HashMap<u64, V, BuildHasherDefault<IdHasher>>;

/// Spreads the bits of a hash. The map uses the first bits, but these are 0 in all hashes of a sample.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0 ^ u64::from(*byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, id: u64) {
        let product = u128::from(id) * 0x9e37_79b9_7f4a_7c15;
        #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
        let folded = product as u64 ^ (product >> 64) as u64;
        self.0 = folded;
    }
}
