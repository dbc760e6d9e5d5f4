//! Memory that the kernel maps for the caches. It is zeroed, becomes resident when it is first
//! touched, and can be returned to the kernel in parts.
//!
//! This module and the module `bytes` of [`crate::page`] contain all unsafe code of the crate. Rust's
//! allocator does not suffice for two reasons: it zeroes aligned memory by writing to it, which makes
//! the memory resident; and it cannot return the memory of one frame while it keeps the others.

mod array;
mod region;

pub(crate) use array::{Array, Pages};

pub(crate) use region::Region;
