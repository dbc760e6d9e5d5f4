//! Test images, made by mke2fs, debugfs and the kernel, and kept between runs.
//!
//! An image is named after everything that it follows from: its recipe, the
//! sources that write the tree, the tools' version and whether the kernel
//! could write it. Change any of them and it is made anew; otherwise a test
//! run opens the file that an earlier one left under `target/testkit`.

mod build;
mod copy;
mod large;
mod matrix;
mod recipe;

pub use build::IMAGES_VARIABLE;
pub use copy::copy_sparse;
pub use large::LargeFile;
pub use matrix::{MATRIX, recipe};
pub use recipe::{Change, OracleKind, Populate, Recipe, Work};

use crate::error::Result;
use std::path::{Path, PathBuf};

/// A finished image. The file belongs to all tests: never write to it.
#[derive(Clone, Debug)]
pub struct Image {
    recipe: Recipe,
    path: PathBuf,
    source: Option<PathBuf>,
}

impl Image {
    /// The image of `recipe`, made now if no earlier run left it.
    pub fn get(recipe: &Recipe) -> Result<Self> {
        build::image(recipe)
    }

    /// The image file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How it was made.
    #[must_use]
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// The folder that mke2fs copied from, if it was not the kernel that wrote the files.
    #[must_use]
    pub fn source(&self) -> Option<&Path> {
        self.source.as_deref()
    }
}
