//! Test images, built by mke2fs, debugfs and the kernel, and kept between runs.
//!
//! The name of an image depends on everything that determines its content: the recipe, the sources that write
//! the tree, the version of the tools, and whether the kernel could write it. If any of them changes, the
//! image is built again. If none changes, a test run opens the file that an earlier run left under
//! `target/testkit`.

mod build;
mod copy;
mod large;
mod matrix;
mod recipe;

pub use build::{IMAGES_VARIABLE, Image};
pub use copy::copy_sparse;
pub use large::LargeFile;
pub use matrix::{MATRIX, recipe};
pub use recipe::{Change, OracleKind, Populate, Recipe, Work};
