//! The amounts of everything in a tree.

/// The amounts of everything in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The seed of the random parts.
    pub seed: u64,
    /// The number of names in the largest directory.
    pub names: u32,
    /// The type of those names.
    pub names_are: NamesAre,
    /// The depth of nested directories.
    pub depth: u32,
    /// The number of extents of the most fragmented file.
    pub fragments: u32,
    /// The size of the largest file without holes.
    pub largest_bytes: u64,
    /// The number of repetitions of each small item.
    pub repeat: u32,
}

/// The type of the names of the largest directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamesAre {
    /// Empty files.
    Files,
    /// Links to a few files.
    Links,
    /// Links to a few files, with names of 250 bytes, which result in the deepest index.
    LongLinks,
}

impl Tree {
    /// For the tests of damaged images, which read each image many times.
    pub const SMALL: Self = Self {
        seed: 0x1a7d_e700,
        names: 180,
        names_are: NamesAre::Links,
        depth: 6,
        fragments: 40,
        largest_bytes: 40_000,
        repeat: 2,
    };
    /// For most configurations.
    pub const MEDIUM: Self = Self {
        names: 6000,
        depth: 60,
        fragments: 1600,
        largest_bytes: 3_000_000,
        repeat: 20,
        ..Self::SMALL
    };
    /// 100,000 names in one directory, each a separate file.
    pub const FULL: Self = Self {
        names: 100_000,
        names_are: NamesAre::Files,
        fragments: 5000,
        largest_bytes: 9_000_000,
        ..Self::MEDIUM
    };
    /// 100,000 names in one directory, for few inodes.
    pub const FULL_LINKS: Self = Self {
        names_are: NamesAre::Links,
        ..Self::FULL
    };
    /// An index of three levels, even in blocks of 1 KiB.
    pub const LONG_NAMES: Self = Self {
        names: 60_000,
        names_are: NamesAre::LongLinks,
        ..Self::MEDIUM
    };
}
