//! Test images, built by mke2fs, debugfs and the kernel, and kept between runs.
//!
//! The name of an image depends on everything that determines its content: the recipe, the sources that
//! write the tree, the version of the tools, and whether the kernel could write it. If any of them
//! changes, the image is built again; otherwise a test run opens the file that an earlier run left under
//! `target/testkit`.

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

/// A finished image. All tests share the file, so never write to it.
#[derive(Clone, Debug)]
pub struct Image {
    recipe: Recipe,
    path: PathBuf,
    source: Option<PathBuf>,
}

impl Image {
    /// Returns the image of `recipe`. Builds it if no earlier run did.
    pub fn get(recipe: &Recipe) -> Result<Self> {
        build::image(recipe)
    }

    /// Returns the path of the image file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the recipe of the image.
    #[must_use]
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// Returns the directory that mke2fs copied from, if the kernel did not write the files.
    #[must_use]
    pub fn source(&self) -> Option<&Path> {
        self.source.as_deref()
    }
}
