//! The sides of the comparison.

use serde::Serialize;

use crate::peer::Peer;

/// One of those that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// `larder mount`.
    Larder,
    /// The same, where nothing is shared.
    LarderOff,
    /// fuse2fs.
    Fuse2fs,
    /// The kernel's ext4 on a loop device.
    Kernel,
}

impl Side {
    /// All of them, in the order in which they are printed.
    pub const ALL: [Self; 4] = [Self::Larder, Self::LarderOff, Self::Fuse2fs, Self::Kernel];

    /// The name as it is printed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Larder => "larder",
            Self::LarderOff => "larder-off",
            Self::Fuse2fs => "fuse2fs",
            Self::Kernel => "kernel",
        }
    }

    /// Who mounts the image.
    #[must_use]
    pub const fn peer(self) -> Peer {
        match self {
            Self::Larder | Self::LarderOff => Peer::Larder,
            Self::Fuse2fs => Peer::Fuse2fs,
            Self::Kernel => Peer::Kernel,
        }
    }

    /// With which options, beside `rw`.
    pub(super) const fn options(self) -> &'static [&'static str] {
        match self {
            Self::LarderOff => &["mbcache=off"],
            Self::Larder | Self::Fuse2fs | Self::Kernel => &[],
        }
    }
}
