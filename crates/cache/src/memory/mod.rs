//! Memory that is mapped from the kernel: it is zeroed, becomes resident when it is first touched, and
//! can be returned to the kernel in parts.
//!
//! This module and the module `bytes` of [`crate::page`] contain all unsafe code of the crate. Rust's
//! allocator does not suffice here: to zero aligned memory, it touches it, which makes it resident; and
//! it cannot return the memory of one frame and keep the others.

mod array;
mod region;

pub(crate) use array::{Array, Pages};

pub(crate) use region::Region;
