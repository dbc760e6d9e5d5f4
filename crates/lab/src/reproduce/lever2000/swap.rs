//! Keys like those of the swap cache: consecutive pages of one swap area.
//!
//! # Model
//! The keys are generated, since Larder has no swap cache. A page's offset is its swap entry in Linux 2.2: from bit 1
//! the number of the swap area, and from bit 8 the number of the page in this area. `swap-reference` drops the low
//! bits, as the page cache's function does; `swap-offset` adds them again.

use larder_cache::hash::{Function, HashKey};
use larder_cache::table::HashFunction;
use serde::Serialize;

/// Size of the table, as log2 of the number of buckets. The number of keys equals the number of buckets.
const BITS: u32 = 14;

/// Lengths of the longest chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SwapKeys {
    pub longest_reference: u64,
    pub longest_offset: u64,
}

impl SwapKeys {
    pub(super) fn measure() -> Self {
        Self {
            longest_reference: longest_chain(Function::SwapReference),
            longest_offset: longest_chain(Function::SwapOffset),
        }
    }
}

fn longest_chain(function: Function) -> u64 {
    let mut lengths = vec![0_u64; 1 << BITS];
    for slot in 0..1 << BITS {
        let key = HashKey {
            object: 1,
            index: slot << 8 | 1 << 1,
        };
        lengths[function.bucket(key, BITS) as usize] += 1;
    }
    lengths.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_bits_of_the_offset_shorten_the_chains() {
        let swap = SwapKeys::measure();
        assert!(swap.longest_reference > 2 * swap.longest_offset, "{swap:?}");
    }
}
