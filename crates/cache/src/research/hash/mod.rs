//! Hash functions with names. There are two groups. *Published* functions are those that kernels used for a
//! particular table, most of them from Lever 2000. The others are in common use today. The published
//! functions for process numbers and user numbers take such a number in place of an inode number.
//!
//! [`crate::hash`] exports the functions, and describes their input.

mod buffer;
mod crc;
mod dentry;
mod function;
mod golden;
mod inode;
mod mixer;
mod number;
mod page;
mod random_table;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod unknown;
mod word;

use crate::hash::HashKey;
pub use function::{Function, FunctionVisitor, multiplicand};
pub use page::AddressedPage;
pub use unknown::UnknownFunction;
pub use word::MULTIPLIER;
