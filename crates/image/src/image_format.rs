//! The formats of images that Larder reads. A user or an overlay names one of them, so that it is not guessed.

use crate::Format;
use std::fmt;
use std::str::FromStr;

/// The format of an image: raw, or that of a disk image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFormat {
    /// The bytes of the file are those of the disk, whatever they look like.
    Raw,
    /// A qcow2 image.
    Qcow2,
    /// A VMDK image.
    Vmdk,
    /// A seekable zstd file.
    Zstd,
}

/// The name of an image format is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the format must be raw, qcow2, vmdk or zstd")]
pub struct UnknownFormat;

impl ImageFormat {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::Raw, Self::Qcow2, Self::Vmdk, Self::Zstd];

    /// Returns the name, which is that of qemu for formats that qemu knows.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.of_disk_image().map_or("raw", Format::as_str)
    }

    /// Returns the format of a disk image, or `None` for a raw image.
    pub(crate) fn of_disk_image(self) -> Option<Format> {
        match self {
            Self::Raw => None,
            Self::Qcow2 => Some(Format::Qcow2),
            Self::Vmdk => Some(Format::Vmdk),
            Self::Zstd => Some(Format::Zstd),
        }
    }
}

impl fmt::Display for ImageFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ImageFormat {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        let mut all = Self::ALL.into_iter();
        all.find(|format| format.as_str() == name)
            .ok_or(UnknownFormat)
    }
}
