//! Types for the kinds of numbers that must not be mixed up.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// An inode number. The first inode has the number 1; 0 means no inode.
    Ino(u32)
);
number!(
    /// A block of the file system, counted from the start of the image.
    FsBlock(u64)
);
number!(
    /// A block of a file, counted from the start of the file.
    FileBlock(u32)
);
number!(
    /// The number of a block group, counted from 0.
    GroupNo(u32)
);

impl Ino {
    /// The inode number of the root directory.
    pub const ROOT: Self = Self(2);

    /// Returns the inode number in an on-disk field, or `None` if the field is 0.
    pub(crate) fn stored(number: u32) -> Option<Self> {
        (number != 0).then_some(Self(number))
    }
}
