//! A mount that this process serves.
#![allow(dead_code, reason = "each test binary uses a part of this module")]

use larder::{OpenOptions, Volume};
use larder_fuse::{MountOptions, Server, Unmounter};
use larder_testkit::e2fsprogs::make_image;
use larder_testkit::image::copy_sparse;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;

/// Creates a directory with `image`, made by mke2fs, a copy of it called `kernel`, and `mnt`.
pub fn folder(mke2fs: &str, size: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("mnt")).unwrap();
    let image = folder.path().join("image");
    make_image(&image, mke2fs, size).unwrap();
    copy_sparse(&image, &folder.path().join("kernel")).unwrap();
    folder
}

/// A served mount, unmounted when dropped.
pub struct Mounted {
    pub path: PathBuf,
    pub volume: Arc<Volume>,
    pub collects_writes: bool,
    unmounter: Unmounter,
    thread: Option<JoinHandle<larder_fuse::Result<()>>>,
}

impl Mounted {
    /// Mounts `image` of `folder` on `mnt` in it, for writing.
    pub fn for_writing(folder: &Path, options: &MountOptions) -> Self {
        let mut volume = OpenOptions::default();
        volume.read_write = true;
        let options = MountOptions {
            read_write: true,
            ..options.clone()
        };
        Self::open(folder, &volume, &options)
    }

    /// Mounts `image` of `folder` on `mnt` in it.
    pub fn open(folder: &Path, volume: &OpenOptions, options: &MountOptions) -> Self {
        let volume = Volume::open(folder.join("image"), volume).unwrap();
        Self::serve(volume, &folder.join("mnt"), options)
    }

    /// Mounts `volume` on `mountpoint`.
    pub fn serve(volume: Volume, mountpoint: &Path, options: &MountOptions) -> Self {
        let volume = Arc::new(volume);
        let server = Server::mount(Arc::clone(&volume), mountpoint, options).unwrap();
        let path = server.mountpoint().to_owned();
        let unmounter = server.unmounter();
        let collects_writes = server.collects_writes();
        let thread = std::thread::spawn(move || server.serve(|| Ok(()), || None));
        Self {
            path,
            volume,
            collects_writes,
            unmounter,
            thread: Some(thread),
        }
    }

    /// Waits until the server has ended because of an unmount or an abort.
    pub fn wait(&mut self) {
        let thread = self.thread.take();
        thread.unwrap().join().unwrap().unwrap();
    }

    /// Unmounts the volume, and returns the result of closing it.
    pub fn close(self) -> larder::Result<()> {
        let volume = Arc::clone(&self.volume);
        drop(self);
        volume.close()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let unmounted = self.unmounter.unmount();
        let served = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            unmounted.unwrap();
            if let Some(served) = served {
                served.unwrap().unwrap();
            }
        }
    }
}

/// Waits until a condition holds. No test depends on the time that this takes.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{what}: not within 30 seconds");
}
