//! Memory from the kernel: zeroed, untouched until used, given back in parts.
//!
//! The only module but [`crate::page`]'s `bytes` that has unsafe code. Rust's
//! allocator cannot do what is needed here: aligned zeroed memory is touched
//! (made resident) by it, and it cannot take the memory of one frame back while
//! the others stay.

mod array;
mod region;

pub(crate) use array::{Array, Pages};

pub(crate) use region::Region;
