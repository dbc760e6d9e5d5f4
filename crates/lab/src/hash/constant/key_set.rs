//! Sets of keys, each key as the number that the published multiplicative functions multiply.

use crate::hash::{Error, KeyKind, Keys, Source};
use larder_cache::hash::multiplicand;
use larder_cache::number_hash::NumberHash;
use larder_cache::tape::CacheKind;
use std::collections::HashSet;

/// Seed of the generated keys.
const SEED: u64 = 2000;

/// The keys of one cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySet {
    /// Description of the keys.
    pub name: String,
    /// The numbers, without duplicates.
    pub words: Vec<u64>,
}

impl KeySet {
    /// Generates one set of keys for each [`KeyKind`], with 2^`table_bits` keys each.
    ///
    /// # Errors
    /// Returns the errors of [`KeySet::read`]. None occur, since generated keys can always be read.
    pub fn generated(table_bits: u32) -> Result<Vec<Self>, Error> {
        let mut sets = Vec::new();
        for kind in KeyKind::ALL {
            let keys = Keys::new(*kind, kind.cache(), 1 << table_bits, SEED);
            let read = Self::read(&keys, table_bits)?;
            sets.extend(read.into_iter().map(|set| Self {
                name: kind.to_string(),
                ..set
            }));
        }
        Ok(sets)
    }

    /// Reads the first 2^`table_bits` distinct keys of each cache in `source`, or all keys if the
    /// source has fewer.
    ///
    /// # Errors
    /// Returns an error if the source cannot be read.
    pub fn read(source: &dyn Source, table_bits: u32) -> Result<Vec<Self>, Error> {
        let most = 1_usize << table_bits;
        let mut words = CacheKind::ALL.map(|_| HashSet::with_hasher(NumberHash::default()));
        source.read(&mut |events| {
            for event in events {
                let words = &mut words[event.cache as usize];
                if words.len() < most {
                    words.insert(multiplicand(event.cache, event.key()));
                }
            }
            words.iter().any(|words| words.len() < most)
        })?;
        let sets = CacheKind::ALL.into_iter().zip(words);
        let sets = sets.filter(|(_, words)| !words.is_empty());
        Ok(sets
            .map(|(cache, words)| Self {
                name: cache.as_str().to_owned(),
                words: words.into_iter().collect(),
            })
            .collect())
    }
}
