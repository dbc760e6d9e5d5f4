//! Miss-ratio curves: the number of lookups that miss in a cache of each size, from one pass over the lookups.
//!
//! # Model
//! An LRU cache of *n* objects contains the *n* objects that were used last, so a lookup hits at every size that is at
//! least its *stack distance*: the number of different objects since the last use of its object, including this object
//! (R. Mattson et al., "Evaluation techniques for storage hierarchies", 1970). [`LruStack`] computes this number in
//! logarithmic time, as long as it tracks all objects. If there are too many objects, it tracks a random sample of
//! them, and scales the results (SHARDS: C. Waldspurger et al., "Efficient MRC construction with SHARDS", FAST 2015).
//! [`Depths`] counts the distances, and [`MissCurve`] returns the misses at any size, with the error of the sample.
//!
//! A mount evicts by a clock, not by LRU. [`ClockSimulations`] simulates clocks whose sizes are powers of two. A large
//! cache is represented by one that is smaller by some factor, and the objects by a sample that is smaller by the same
//! factor (C. Waldspurger et al., "Cache modeling and optimization using miniature simulations", ATC 2017).
//!
//! # Identity of objects
//! An object is identified by a 64-bit hash of its key ([`identify`]). The probability that two of two million
//! objects have the same hash is 1 in 10 million.

mod clock;
mod depths;
mod ids;
mod miss_curve;
mod order;
mod stack;
#[cfg(test)]
mod tests;

pub(super) use clock::{ClockMisses, ClockSimulations};
pub(super) use depths::{Depths, bucket, lowest};
pub(super) use ids::identify;
pub use miss_curve::MissCurve;
pub(super) use stack::{LruStack, Reference, StackLimits};
