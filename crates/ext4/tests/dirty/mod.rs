//! Images whose journal needs recovery: they were copied while the kernel had them mounted.
#![allow(dead_code, reason = "each test binary uses a part of this module")]

use larder_testkit::e2fsprogs::{self, debugfs_script, make_image};
use larder_testkit::image::copy_sparse;
use larder_testkit::{Access, LoopMount};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// An image in its own directory.
pub struct Dirty {
    dir: TempDir,
    path: PathBuf,
    journal_blocks: BTreeSet<u64>,
}

impl Dirty {
    /// Returns an image as mke2fs creates it.
    pub fn unmounted(arguments: &str, size: &str) -> Self {
        let dir = TempDir::new().expect("temporary directory");
        let path = dir.path().join("image");
        make_image(&path, arguments, size).expect("mke2fs");
        // Read from the clean image, because debugfs may refuse one that was copied while it was
        // mounted.
        let journal_blocks = journal_blocks(&path);
        Self {
            dir,
            path,
            journal_blocks,
        }
    }

    /// Returns an image in the state after a crash. It is mounted with `options`, changed by
    /// `work`, and copied without being unmounted. `work` calls its second argument to commit
    /// everything. Without these calls, the kernel commits only when a transaction is full: a
    /// commit by time could separate the removal of a name from that of its inode.
    pub fn make(
        arguments: &str,
        size: &str,
        options: &str,
        work: impl FnOnce(&Path, &dyn Fn()),
    ) -> Self {
        let image = Self::unmounted(arguments, size);
        let crashed = image.dir.path().join("crashed");
        let options = options.split(',').filter(|option| !option.is_empty());
        let options: Vec<&str> = options.chain(["commit=3600"]).collect();
        {
            let mount = LoopMount::new(&image.path, Access::ReadWrite, &options).expect("mount");
            work(&mount.path(), &|| mount.sync().expect("sync"));
            copy(&image.path, &crashed);
        }
        std::fs::rename(&crashed, &image.path).expect("rename");
        image
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn copy(&self) -> Self {
        let dir = TempDir::new().expect("temporary directory");
        let path = dir.path().join("image");
        copy(&self.path, &path);
        Self {
            dir,
            path,
            journal_blocks: self.journal_blocks.clone(),
        }
    }

    /// Returns the blocks that contain the journal.
    pub fn journal_blocks(&self) -> &BTreeSet<u64> {
        &self.journal_blocks
    }
}

fn journal_blocks(image: &Path) -> BTreeSet<u64> {
    let text = e2fsprogs::debugfs(image, "blocks <8>").expect("debugfs");
    text.split_whitespace()
        .map(|number| number.parse().expect("block number"))
        .collect()
}

fn copy(from: &Path, to: &Path) {
    copy_sparse(from, to).expect("copy");
}

/// Copies of an image whose journal was replayed by other programs.
pub mod replayed_by {
    use super::{Access, Dirty, LoopMount, debugfs_script};

    pub fn kernel(image: &Dirty) -> Dirty {
        let copy = image.copy();
        let mount = LoopMount::new(&copy.path, Access::ReadWrite, &["ro"]).expect("mount");
        drop(mount);
        copy
    }

    pub fn debugfs(image: &Dirty) -> Dirty {
        let copy = image.copy();
        debugfs_script(&copy.path, Access::ReadWrite, "jr").expect("debugfs");
        copy
    }
}
