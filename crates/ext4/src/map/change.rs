//! A change of a mapping.

use crate::journal::Handle;
use crate::{Filesystem, Inode};

/// A change of the mapping of one inode with a handle.
pub(super) struct MapChange<'c, 'f> {
    pub(super) fs: &'c Filesystem,
    pub(super) handle: &'c mut Handle<'f>,
    pub(super) inode: &'c mut Inode,
}
