//! An image that is open for writing, for the tests of the layer of paths.

use larder::{Fs, OpenOptions};
use larder_testkit::{Requirement, e2fsprogs, skip};
use std::path::PathBuf;
use tempfile::TempDir;

/// An open image in a directory, which can contain other files of the test.
pub struct Opened {
    pub fs: Fs,
    pub dir: TempDir,
}

impl Opened {
    pub fn image(&self) -> PathBuf {
        self.dir.path().join("disk.img")
    }

    /// Closes the image, and checks it.
    pub fn check(self) {
        let image = self.image();
        self.fs.close().unwrap();
        drop(self.fs);
        e2fsprogs::check(&image).unwrap();
    }
}

pub fn tools_are_missing() -> bool {
    skip(&["mke2fs", "e2fsck"].map(Requirement::Tool))
}

pub fn opened() -> Opened {
    opened_with("-t ext4 -b 4096 -N 2048")
}

/// Returns an image that was made with these options of mke2fs.
pub fn opened_with(options: &str) -> Opened {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk.img");
    e2fsprogs::make_image(&image, options, "32M").unwrap();
    let options = OpenOptions::new().read_write(true);
    let fs = options.open(image).unwrap();
    Opened { fs, dir }
}
