//! Memory from the kernel: zeroed, untouched until used, and returned in parts.
//!
//! Together with the module `bytes` of [`crate::page`], this is the only module that has unsafe
//! code. Rust's allocator cannot do what is needed here. It touches aligned zeroed memory, which
//! makes it resident, and it cannot return the memory of one frame while the others remain.

mod array;
mod region;

pub(crate) use array::{Array, Pages};

pub(crate) use region::Region;
