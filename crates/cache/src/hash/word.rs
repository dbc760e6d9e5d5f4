//! Words in which the published formulas calculate, and how numbers stand for addresses in them.
//!
//! # Model
//! The formulas are written in C's `unsigned long`: 32 bits where they were measured, 64 on the
//! hardware that their authors wished to see them on. What does not fit into a word is lost, in
//! C and here. C leaves open what a shift by the whole word gives; here it is 0.

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
    /// How many bits it has.
    const BITS: u32;

    /// `number`, as far as it fits.
    fn new(number: u64) -> Self;

    /// Both numbers of `key` in one word: [`HashKey::word`], its halves folded if need be.
    fn joined(key: HashKey) -> Self;

    /// Shifted left.
    #[must_use]
    fn left(self, bits: u32) -> Self;

    /// Shifted right.
    #[must_use]
    fn right(self, bits: u32) -> Self;

    /// Rotated left.
    #[must_use]
    fn rotated(self, bits: u32) -> Self;

    /// The lower `bits`, 32 at most: what C's `& (SIZE - 1)` leaves.
    #[must_use]
    fn masked(self, bits: u32) -> u32;

    /// The upper `bits`, 32 at most.
    #[must_use]
    #[inline]
    fn upper(self, bits: u32) -> u32 {
        self.right(Self::BITS - bits).masked(bits)
    }

    /// Where structure `number` lies: they lie in a row, `size_bytes` each.
    #[must_use]
    #[inline]
    fn address(number: u64, size_bytes: u64) -> Self {
        Self::new(number.wrapping_mul(size_bytes))
    }

    /// Times the published multiplier.
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

/// The published multiplier: a prime in golden ratio to 2^32.
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
                // Halved before it is masked, by a constant, so that no check is left.
                let lower = u64::from(self.0) & u64::from(u32::MAX);
                u32::try_from(lower).unwrap_or_default() & !u32::MAX.unbounded_shl(bits)
            }
        }
    };
}

word!(u32, |word| word ^ word >> 32);
word!(u64, |word| word);
