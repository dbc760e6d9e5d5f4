//! Hash functions that can be selected by name at run time. There are two groups. *Published* functions are
//! those that kernels used for a particular table, most of them from Lever 2000. The others are in common use
//! today. The published functions for process numbers and user numbers take such a number in place of an inode
//! number.
//!
//! # Input
//! The input of a function is a [`HashKey`], which consists of two numbers:
//!
//! | cache | `object` | `index` |
//! |---|---|---|
//! | page | inode number | page of the file |
//! | buffer | device | block |
//! | dentry | inode number of the directory | hash of the name |
//! | inode | volume | inode number |
//!
//! # Cost
//! Each function is a separate type, so that code can be compiled for it. A value of [`Function`]
//! represents any of them, and costs one more branch for each hash. [`Function::visit`] calls generic code
//! with the type of the function.

mod buffer;
mod crc;
mod dentry;
mod function;
mod golden;
mod inode;
mod key;
mod mixer;
mod number;
mod page;
mod random_table;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod unknown;
mod word;

pub use function::{Function, FunctionVisitor, multiplicand};
pub use key::HashKey;
pub use page::AddressedPage;
pub use unknown::UnknownFunction;
pub use word::MULTIPLIER;
