//! Hash functions that can be selected by name at run time: those of the published kernels, and those of
//! today.
//!
//! # Input
//! The key of any of the four caches has two numbers, [`HashKey`]:
//!
//! | cache | `object` | `index` |
//! |---|---|---|
//! | page | inode number | page of the file |
//! | buffer | device | block |
//! | dentry | inode number of the directory | hash of the name |
//! | inode | volume | inode number |
//!
//! # On the hot path
//! Each function is a separate type, for which a table can be compiled. [`Function`] is any of them,
//! selected by name. It costs one more branch for each hash; [`Function::visit`] converts the name to the
//! type.

mod buffer;
mod crc;
mod dentry;
mod function;
mod golden;
mod inode;
mod key;
mod mixer;
mod page;
mod random_table;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod unknown;
mod word;

pub use function::{Function, FunctionVisitor, multiplicand};
pub use key::HashKey;
pub use unknown::UnknownFunction;
pub use word::MULTIPLIER;
