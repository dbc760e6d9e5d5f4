//! Maps and sets of blocks: the standard ones with a hash of one multiplication.

use crate::FsBlock;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

pub(super) type BlockMap<V> = HashMap<FsBlock, V, BlockHash>;
pub(super) type BlockSet = HashSet<FsBlock, BlockHash>;

/// Drawn once, so that no image can be made whose blocks share a bucket.
static KEY: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0) | 1);

/// Hashes a block's number: multiplied by a secret, both halves of the product folded.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockHash {
    key: u64,
}

impl Default for BlockHash {
    fn default() -> Self {
        Self { key: *KEY }
    }
}

impl BuildHasher for BlockHash {
    type Hasher = BlockHasher;

    #[inline]
    fn build_hasher(&self) -> BlockHasher {
        BlockHasher {
            key: self.key,
            hash: 0,
        }
    }
}

#[derive(Debug)]
pub(super) struct BlockHasher {
    key: u64,
    hash: u64,
}

impl Hasher for BlockHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.hash
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        let mixed = number ^ self.hash.rotate_left(32) ^ self.key.rotate_left(17);
        let product = u128::from(mixed) * u128::from(self.key);
        let [low, high] = [product, product >> 64].map(|half| half & u128::from(u64::MAX));
        self.hash = u64::try_from(low ^ high).unwrap_or(0);
    }
}
