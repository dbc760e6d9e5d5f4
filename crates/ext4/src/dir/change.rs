//! Changes of a directory.

use crate::journal::Handle;
use crate::{Filesystem, Inode};

/// A change of the entries of one directory with a handle.
pub(crate) struct DirChange<'c, 'f> {
    pub(crate) fs: &'c Filesystem,
    pub(crate) handle: &'c mut Handle<'f>,
    pub(crate) dir: &'c mut Inode,
}
