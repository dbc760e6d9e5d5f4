//! Small images created by mke2fs, with the tools and the kernel as their oracles.
#![allow(dead_code, reason = "each test binary uses a part of this module")]

use larder_block::{BlockDevice, FileDevice, FileRange};
use larder_cache::buffer::BufferCache;
use larder_ext4::ondisk::superblock::Superblock;
use larder_ext4::ondisk::time::Timestamp;
use larder_ext4::{FileKind, Filesystem, NewInode};
use larder_testkit::e2fsprogs::{check, debugfs, make_image};
use larder_testkit::tool::Tool;
use larder_testkit::{Requirement, skip};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;

/// An image in its own directory.
pub struct Image {
    dir: TempDir,
    path: PathBuf,
    made_by: String,
}

impl Image {
    /// Runs mke2fs. If it is missing, prints a note and returns `None`.
    pub fn make(arguments: &str, size: &str) -> Option<Self> {
        if skip(&[Requirement::Tool("mke2fs")]) {
            return None;
        }
        let dir = TempDir::new().expect("temporary directory");
        let path = dir.path().join("image");
        make_image(&path, arguments, size).expect("mke2fs");
        let made_by = format!("mke2fs {arguments} {size}");
        Some(Self { dir, path, made_by })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the command that created the image.
    pub fn made_by(&self) -> &str {
        &self.made_by
    }

    /// Returns the standard output of dumpe2fs.
    pub fn dumpe2fs(&self) -> String {
        Tool::new("dumpe2fs")
            .arg(&self.path)
            .run()
            .expect("dumpe2fs")
    }

    /// Returns the standard output of one debugfs command.
    pub fn debugfs(&self, command: &str) -> String {
        debugfs(&self.path, command).expect("debugfs")
    }

    /// Panics if e2fsck finds errors.
    pub fn assert_clean(&self, what: &str) {
        check(&self.path).unwrap_or_else(|error| panic!("{what}: {error}"));
    }

    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).expect("image")
    }

    /// Returns the file system, and the device from which it is read.
    pub fn open(&self) -> (Filesystem, Arc<dyn BlockDevice>) {
        let file = FileDevice::open(&self.path, FileRange::default()).expect("image");
        let device: Arc<dyn BlockDevice> = Arc::new(file);
        (open(&device), device)
    }

    /// Mounts the image through the kernel. If that is not permitted, prints a note and
    /// returns `None`.
    pub fn mount(&self, options: &str) -> Option<Mount> {
        if !rustix::process::geteuid().is_root() {
            larder_testkit::report_skipped("mounting needs root");
            return None;
        }
        let point = self.dir.path().join("mount");
        std::fs::create_dir_all(&point).expect("mount point");
        let output = Command::new("mount")
            .args(["-t", "ext4", "-o"])
            .arg(format!("loop,{options}"))
            .arg(&self.path)
            .arg(&point)
            .output()
            .expect("mount");
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr);
            println!(
                "skipped: the kernel does not mount {}: {reason}",
                self.made_by
            );
            return None;
        }
        Some(Mount { point })
    }
}

/// Opens the file system on `device`.
pub fn open(device: &Arc<dyn BlockDevice>) -> Filesystem {
    let sb = Superblock::read(&**device).expect("superblock");
    open_with(sb, device)
}

/// Opens the file system with superblock `sb` on `device`.
pub fn open_with(sb: Superblock, device: &Arc<dyn BlockDevice>) -> Filesystem {
    let block_bytes = usize::try_from(sb.block_size_bytes()).expect("block size");
    let buffers = BufferCache::small(Arc::clone(device), block_bytes);
    Filesystem::new(sb, Arc::new(buffers), None)
}

/// A loop mount, which is unmounted when dropped.
pub struct Mount {
    point: PathBuf,
}

impl Mount {
    pub fn path(&self) -> &Path {
        &self.point
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.point).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            let _ = Command::new("umount").arg("-l").arg(&self.point).status();
        }
    }
}

/// Returns a new inode that belongs to root.
pub fn new_inode(kind: FileKind, permissions: u16, now: Timestamp) -> NewInode {
    NewInode {
        kind,
        permissions,
        uid: 0,
        gid: 0,
        device: None,
        now,
    }
}
