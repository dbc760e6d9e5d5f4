//! The input of hash functions, and the functions that can be selected by name at run time. A mount does
//! not use these functions by default, so they are in [`research`](crate::research). The default function of
//! pages, buffers and inodes is [`Hash64`](crate::table::Hash64). Names have a function with a seed.
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

mod key;

pub use crate::research::hash::{
    AddressedPage, Function, FunctionVisitor, MULTIPLIER, UnknownFunction, multiplicand,
};
pub use key::HashKey;
