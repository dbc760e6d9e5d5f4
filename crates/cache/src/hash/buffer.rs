//! The published hash functions of the buffer cache: of a device and a block.
//!
//! # Model
//! Lever 2000, section 3.2. Only the reference kernel's looks at the device.

use super::HashKey;
use super::word::Word;
use crate::table::HashFunction;
use std::marker::PhantomData;

/// The reference kernel's: device xor block, masked.
#[derive(Clone, Copy, Debug, Default)]
pub struct BufferReference<W>(PhantomData<W>);

impl<W: Word> HashFunction<HashKey> for BufferReference<W> {
    #[inline]
    fn bucket(&self, key: HashKey, bits: u32) -> u32 {
        (W::new(key.object) ^ W::new(key.index)).masked(bits)
    }
}

/// The multiplicative one: the product, shifted right by `SHIFT`, masked.
#[derive(Clone, Copy, Debug, Default)]
pub struct BufferMult<W, const SHIFT: u32>(PhantomData<W>);

impl<W: Word, const SHIFT: u32> HashFunction<HashKey> for BufferMult<W, SHIFT> {
    #[inline]
    fn bucket(&self, key: HashKey, bits: u32) -> u32 {
        W::new(key.index).multiplied().right(SHIFT).masked(bits)
    }
}

/// P. Steiner's shift-add, which multiplies by the Mersenne prime 127.
#[derive(Clone, Copy, Debug, Default)]
pub struct BufferSteiner<W>(PhantomData<W>);

impl<W: Word> HashFunction<HashKey> for BufferSteiner<W> {
    #[inline]
    fn bucket(&self, key: HashKey, bits: u32) -> u32 {
        let block = W::new(key.index);
        (block.left(7) - block + block.right(10) + block.right(18)).masked(bits)
    }
}
