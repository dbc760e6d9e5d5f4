//! The published hash functions of the dentry cache: of the parent's address and the name's hash.
//!
//! # Model
//! Lever 2000, section 3.3.

use super::HashKey;
use super::word::Word;
use crate::table::HashFunction;
use std::marker::PhantomData;

/// `sizeof(struct dentry)`, which is not published. Ours is a whole number of cache lines.
const DENTRY_BYTES: u64 = 128;

/// The sum that all of them begin with.
#[inline]
pub(super) fn sum<W: Word>(key: HashKey) -> W {
    W::new(key.index) + W::address(key.object, DENTRY_BYTES)
}

/// The reference kernel's: the sum xor its upper parts, masked.
#[derive(Clone, Copy, Debug, Default)]
pub struct DentryReference<W>(PhantomData<W>);

impl<W: Word> HashFunction<HashKey> for DentryReference<W> {
    #[inline]
    fn bucket(&self, key: HashKey, bits: u32) -> u32 {
        let hash = sum::<W>(key);
        (hash ^ hash.right(bits) ^ hash.right(bits * 2)).masked(bits)
    }
}

/// The same with additions in place of xor.
#[derive(Clone, Copy, Debug, Default)]
pub struct DentryAdd<W>(PhantomData<W>);

impl<W: Word> HashFunction<HashKey> for DentryAdd<W> {
    #[inline]
    fn bucket(&self, key: HashKey, bits: u32) -> u32 {
        let hash = sum::<W>(key);
        (hash + hash.right(bits) + hash.right(bits * 2)).masked(bits)
    }
}

/// The multiplicative one: the product, shifted right by `SHIFT`, masked.
#[derive(Clone, Copy, Debug, Default)]
pub struct DentryMult<W, const SHIFT: u32>(PhantomData<W>);

impl<W: Word, const SHIFT: u32> HashFunction<HashKey> for DentryMult<W, SHIFT> {
    #[inline]
    fn bucket(&self, key: HashKey, bits: u32) -> u32 {
        sum::<W>(key).multiplied().right(SHIFT).masked(bits)
    }
}
