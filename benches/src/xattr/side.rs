//! The sides of the comparison.

use crate::named::named;
use crate::peer::Peer;

named! {
    /// One of the compared sides.
    Side {
        /// `larder mount` over /dev/fuse.
        Larder: "larder",
        /// The same with `-o mbcache=off`, which disables the sharing of attribute blocks.
        LarderOff: "larder-off",
        /// fuse2fs.
        Fuse2fs: "fuse2fs",
        /// The kernel's ext4 on a loop device.
        Kernel: "kernel",
    }
}

impl Side {
    /// Returns the peer that mounts the image.
    #[must_use]
    pub const fn peer(self) -> Peer {
        match self {
            Self::Larder | Self::LarderOff => Peer::LarderDev,
            Self::Fuse2fs => Peer::Fuse2fs,
            Self::Kernel => Peer::Kernel,
        }
    }

    /// Returns the mount options, besides `rw`.
    pub(super) const fn options(self) -> &'static [&'static str] {
        match self {
            Self::LarderOff => &["mbcache=off"],
            Self::Larder | Self::Fuse2fs | Self::Kernel => &[],
        }
    }
}
