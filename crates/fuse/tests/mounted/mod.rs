//! A mount that this process serves.

use larder::{OpenOptions, Volume};
use larder_fuse::{MountOptions, Server, Unmounter};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

/// A served mount, unmounted when dropped.
pub struct Mounted {
    pub path: PathBuf,
    pub volume: Arc<Volume>,
    unmounter: Unmounter,
    thread: Option<JoinHandle<larder_fuse::Result<()>>>,
}

impl Mounted {
    /// Mounts `image` of `folder` on its `mnt`.
    pub fn open(folder: &Path, volume: &OpenOptions, options: &MountOptions) -> Self {
        let volume = Arc::new(Volume::open(folder.join("image"), volume).unwrap());
        let server = Server::mount(Arc::clone(&volume), &folder.join("mnt"), options).unwrap();
        let path = server.mountpoint().to_owned();
        let unmounter = server.unmounter();
        let thread = std::thread::spawn(move || server.serve(|| Ok(()), || None));
        Self {
            path,
            volume,
            unmounter,
            thread: Some(thread),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let unmounted = self.unmounter.unmount();
        let served = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            unmounted.unwrap();
            served.unwrap().unwrap().unwrap();
        }
    }
}
