//! Hash functions by name, to be chosen when a program runs: those of the published kernels, and
//! today's.
//!
//! # What a function sees
//! Of a key of any of the four caches two numbers, [`HashKey`]:
//!
//! | cache | `object` | `index` |
//! |---|---|---|
//! | page | inode number | page of the file |
//! | buffer | device | block |
//! | dentry | inode number of the directory | hash of the name |
//! | inode | volume | inode number |
//!
//! # On the hot path
//! Each function is a type of its own, for which a table can be compiled. [`Function`] is any of them,
//! chosen by name: it hashes by one branch more, and [`Function::visit`] leads from the name to the type.

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
