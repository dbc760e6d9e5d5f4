//! Converts between FUSE node numbers and inode numbers.
//!
//! A node number equals the inode number, with two exceptions, so no table is needed. The root has node number
//! 1 in FUSE and inode number 2 in ext4, so node number 2 is never valid. Inode 1 of ext4 contains the bad
//! blocks and is not a file, so it has no node.

use larder::Ino;

/// The number of a file on a FUSE mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeId(pub u64);

impl NodeId {
    /// The root directory.
    pub(crate) const ROOT: Self = Self(1);
    /// A node that is never valid: every request for it fails.
    pub(crate) const INVALID: Self = Self(2);

    /// Returns the inode number of the node, or `None` if no file can have this node number.
    pub(crate) fn ino(self) -> Option<Ino> {
        match self {
            Self::ROOT => Some(Ino::ROOT),
            Self(0) | Self::INVALID => None,
            Self(number) => u32::try_from(number).ok().map(Ino),
        }
    }

    /// Returns the node number of an inode, or [`NodeId::INVALID`] for inodes 0 and 1.
    pub(crate) fn of(ino: Ino) -> Self {
        match ino {
            Ino::ROOT => Self::ROOT,
            Ino(0 | 1) => Self::INVALID,
            Ino(number) => Self(u64::from(number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_node_one_and_inode_two() {
        assert_eq!(NodeId::of(Ino::ROOT), NodeId::ROOT);
        assert_eq!(NodeId::ROOT.ino(), Some(Ino::ROOT));
    }

    #[test]
    fn bad_blocks_inode_has_no_node() {
        assert_eq!(NodeId::of(Ino(1)).ino(), None);
        assert_eq!(NodeId(0).ino(), None);
    }

    #[test]
    fn other_numbers_are_the_same() {
        for number in [3, 11, 12, u32::MAX] {
            assert_eq!(NodeId::of(Ino(number)), NodeId(u64::from(number)));
            assert_eq!(NodeId(u64::from(number)).ino(), Some(Ino(number)));
        }
    }

    #[test]
    fn number_that_no_inode_can_have_is_refused() {
        assert_eq!(NodeId(1 << 32).ino(), None);
        assert_eq!(NodeId(u64::MAX).ino(), None);
    }
}
