//! The files of the test images: everything that is difficult to read correctly.
//!
//! The tree is determined by its description and its seed. Parts that the file system or the rights of
//! the user do not allow (an attribute of 60,000 bytes, a device node) are left out and counted. The
//! oracle defines what an image contains, so no difference goes unnoticed.

mod amounts;
mod attributes;
mod builder;
mod content;
mod names;
mod special;
mod work;

pub use amounts::{NamesAre, Tree};
pub use builder::{Limits, Summary};
pub(crate) use work::{crash_work, encrypted_folder};

use crate::error::Result;
use crate::seed::Seed;
use builder::Builder;
use std::path::Path;

/// Creates the tree in the empty directory `root`.
pub fn populate(root: &Path, tree: &Tree, limits: Limits) -> Result<Summary> {
    let mut builder = Builder::new(root, Seed(tree.seed), limits);
    names::many(&mut builder, tree)?;
    names::deep(&mut builder, tree)?;
    names::odd(&mut builder)?;
    names::deleted(&mut builder, tree)?;
    names::folders(&mut builder)?;
    names::links(&mut builder, tree)?;
    content::sizes(&mut builder, tree)?;
    content::sparse(&mut builder)?;
    content::unwritten(&mut builder)?;
    content::fragmented(&mut builder, tree)?;
    content::shared(&mut builder)?;
    special::symlinks(&mut builder)?;
    special::nodes(&mut builder)?;
    special::modes(&mut builder)?;
    special::owners(&mut builder)?;
    attributes::sizes(&mut builder)?;
    attributes::namespaces(&mut builder)?;
    attributes::repeated(&mut builder, tree)?;
    attributes::acls(&mut builder)?;
    special::times(&mut builder)?;
    Ok(builder.finish())
}
