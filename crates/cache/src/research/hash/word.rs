//! Words for the arithmetic of the published formulas, and the conversion of numbers to addresses.
//!
//! # Model
//! The formulas are for C's `unsigned long`, which had 32 bits on the machines that Lever measured, and 64
//! bits on other machines. Bits that overflow are dropped, as in C. A shift by the number of bits of the
//! word, which is undefined in C, results in 0.

use super::HashKey;
use std::fmt::Debug;
use std::num::Wrapping;
use std::ops::{Add, BitOr, BitXor, Mul, Sub};

/// An `unsigned long` of the published kernels.
pub trait Word:
    Copy
    + Debug
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + BitXor<Output = Self>
    + BitOr<Output = Self>
{
    /// The number of bits of the word.
    const BITS: u32;

    /// Converts `number`, and drops the bits that do not fit.
    fn new(number: u64) -> Self;

    /// Returns both numbers of `key` in one word. With 64 bits, the result is [`HashKey::word`]. With 32 bits,
    /// it is the exclusive or of the two halves of [`HashKey::word`].
    fn joined(key: HashKey) -> Self;

    /// Returns the word shifted left.
    #[must_use]
    fn left(self, bits: u32) -> Self;

    /// Returns the word shifted right.
    #[must_use]
    fn right(self, bits: u32) -> Self;

    /// Returns the word rotated left.
    #[must_use]
    fn rotated(self, bits: u32) -> Self;

    /// Returns the lower `bits` bits, like C's `& (SIZE - 1)`. `bits` must be at most 32.
    #[must_use]
    fn masked(self, bits: u32) -> u32;

    /// Returns the upper `bits` bits. `bits` must be at most 32.
    #[must_use]
    #[inline]
    fn upper(self, bits: u32) -> u32 {
        self.right(Self::BITS - bits).masked(bits)
    }

    /// Returns the address of structure `number` in an array of structures of `size_bytes` at address 0.
    #[must_use]
    #[inline]
    fn address(number: u64, size_bytes: u64) -> Self {
        Self::new(number.wrapping_mul(size_bytes))
    }

    /// Returns the product with the published multiplier.
    #[must_use]
    #[inline]
    fn multiplied(self) -> Self {
        self * Self::new(MULTIPLIER)
    }
}

/// Words of 32 bits.
pub type Word32 = Wrapping<u32>;

/// Words of 64 bits.
pub type Word64 = Wrapping<u64>;

/// The published multiplier: a prime whose ratio to 2^32 is about the golden ratio.
pub const MULTIPLIER: u64 = 2_654_435_761;

macro_rules! word {
    ($word:ty, $folded:expr) => {
        impl Word for Wrapping<$word> {
            const BITS: u32 = <$word>::BITS;

            #[inline]
            fn new(number: u64) -> Self {
                Self(<$word>::try_from(number & u64::from(<$word>::MAX)).unwrap_or_default())
            }

            #[inline]
            fn joined(key: HashKey) -> Self {
                Self::new($folded(key.word()))
            }

            #[inline]
            fn left(self, bits: u32) -> Self {
                Self(self.0.unbounded_shl(bits))
            }

            #[inline]
            fn right(self, bits: u32) -> Self {
                Self(self.0.unbounded_shr(bits))
            }

            #[inline]
            fn rotated(self, bits: u32) -> Self {
                Self(self.0.rotate_left(bits))
            }

            #[inline]
            fn masked(self, bits: u32) -> u32 {
                // The constant mask lets the compiler remove the check of the conversion.
                let lower = u64::from(self.0) & u64::from(u32::MAX);
                u32::try_from(lower).unwrap_or_default() & !u32::MAX.unbounded_shl(bits)
            }
        }
    };
}

word!(u32, |word| word ^ word >> 32);
word!(u64, |word| word);
