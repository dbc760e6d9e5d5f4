//! Paths of the form `IMAGE:/path`.

use crate::args::{ImageArgs, VolumeArgs};
use crate::remote;
use larder_console::{Failure, Result, name};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The path of an image, and a path inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImagePath<'a> {
    /// The path of the image file.
    pub image: &'a Path,
    /// The path inside the image, which begins with a slash.
    pub path: &'a [u8],
}

impl<'a> ImagePath<'a> {
    /// Parses an argument that can have the form `IMAGE:/path`, or name a file of the machine or an image at a URL. If the
    /// file or the image exists, returns `None`.
    pub(crate) fn parse(text: &'a OsStr) -> Option<Self> {
        let is_other =
            Path::new(text).symlink_metadata().is_ok() || remote::is_remote(text.as_ref());
        Self::split(text).filter(|_| !is_other)
    }

    /// Splits `IMAGE:/path`. The path begins after the first colon that is followed by a slash. If the image is a URL, the
    /// path begins where [`remote::end_of_url`] says.
    pub(crate) fn split(text: &'a OsStr) -> Option<Self> {
        let bytes = text.as_bytes();
        let at = if remote::is_url(text) {
            remote::end_of_url(text)?
        } else {
            bytes.windows(2).position(|pair| pair == b":/")?
        };
        (at > 0).then(|| Self {
            image: Path::new(OsStr::from_bytes(&bytes[..at])),
            path: &bytes[at + 1..],
        })
    }

    /// Returns the arguments that open the image with the options `volume`.
    pub(crate) fn source(&self, volume: &VolumeArgs) -> ImageArgs {
        ImageArgs {
            volume: volume.clone(),
            image: self.image.to_owned(),
        }
    }

    /// Splits an argument that must have the form `IMAGE:/path`. Otherwise, fails with the hint `hint`.
    pub(crate) fn required(text: &'a OsStr, hint: impl FnOnce() -> String) -> Result<Self> {
        Self::split(text).ok_or_else(|| {
            let text = name::escaped(text.as_bytes());
            Failure::usage_with_hint(format!("'{text}' is not a path in an image"), hint())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_path_is_split_at_a_colon_before_a_slash() {
        for (text, image, path) in [
            ("disk.img:/", "disk.img", "/"),
            ("a:b.img:/etc/x:/y", "a:b.img", "/etc/x:/y"),
            ("/srv/disk.img://etc", "/srv/disk.img", "//etc"),
            ("s3://b/disk.img:/etc", "s3://b/disk.img", "/etc"),
            ("http://host:80/a:/b:/", "http://host:80/a:/b", "/"),
        ] {
            let image_path = ImagePath::parse(OsStr::new(text)).unwrap();
            assert_eq!(
                (image_path.image, image_path.path),
                (Path::new(image), path.as_bytes())
            );
        }
        for text in ["disk.img", "disk.img:etc", ":/etc", "/etc", "", "s3://b/k"] {
            assert_eq!(ImagePath::parse(OsStr::new(text)), None, "{text:?}");
        }
    }

    #[test]
    fn file_with_the_literal_name_is_not_split() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a:/b");
        let text = path.as_os_str();
        assert_eq!(ImagePath::parse(text).unwrap().path, b"/b");
        std::fs::create_dir(folder.path().join("a:")).unwrap();
        std::fs::write(&path, "").unwrap();
        assert_eq!(ImagePath::parse(text), None);
    }
}
