//! Multiple-mount protection (MMP) of a volume. The volume acquires the protection before its first
//! write and releases it after its last write. In between, a thread renews it periodically.
//!
//! Model: the kernel's `kmmpd`. If another host has acquired the image despite the protection, the
//! journal is aborted, and nothing more is written to the image.

use crate::live::Inodes;
use crate::{Clock, Result, background};
use larder_block::BlockDevice;
use larder_ext4::ondisk::superblock::Superblock;
use larder_ext4::{Mmp, MmpHost};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// The device name that other hosts see in the protection block. An image file has no device name
/// of its own.
const DEVICE: &[u8] = b"larder";

/// The identity and the clock of this machine.
#[derive(Debug)]
struct Host {
    clock: Arc<dyn Clock>,
}

impl MmpHost for Host {
    fn now_seconds(&self) -> u64 {
        u64::try_from(self.clock.now().seconds).unwrap_or(0)
    }

    fn wait(&self, time: Duration) {
        self.clock.wait(time);
    }

    fn node(&self) -> Vec<u8> {
        rustix::system::uname().nodename().to_bytes().to_vec()
    }

    fn device(&self) -> Vec<u8> {
        DEVICE.to_vec()
    }
}

/// An image that this process has acquired. Released on drop.
#[derive(Debug)]
pub(crate) struct HeldImage {
    mmp: Mmp,
    host: Host,
}

impl HeldImage {
    /// Acquires the image, or returns `None` if the protection is not enabled on the image. This
    /// can take some seconds, because the host must wait to detect other hosts.
    pub(crate) fn acquire(
        sb: &Superblock,
        device: &Arc<dyn BlockDevice>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Option<Self>> {
        let host = Host {
            clock: Arc::clone(clock),
        };
        let mmp = Mmp::acquire(sb, Arc::clone(device), &host)?;
        Ok(mmp.map(|mmp| Self { mmp, host }))
    }
}

impl Drop for HeldImage {
    fn drop(&mut self) {
        if let Err(error) = self.mmp.release(&self.host) {
            tracing::error!(%error, "cannot release the multiple-mount protection");
        }
    }
}

/// The thread that keeps an image acquired. On drop, the thread is stopped and joined, and the
/// image is released.
#[derive(Debug)]
pub(crate) struct MmpKeeper {
    /// Dropping the sender stops the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MmpKeeper {
    pub(crate) fn start(inodes: &Arc<Inodes>, held: HeldImage) -> Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let for_thread = Arc::clone(inodes);
        let panicked = "the multiple-mount protection thread panicked";
        let thread = background::spawn(inodes, "larder-mmp", panicked, move || {
            keep(&for_thread, &held, &stopped);
        })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

fn keep(inodes: &Inodes, held: &HeldImage, stopped: &Receiver<()>) {
    while stopped.recv_timeout(held.mmp.interval()) == Err(RecvTimeoutError::Timeout) {
        match held.mmp.tick(&held.host) {
            Ok(()) => {}
            Err(error @ larder_ext4::Error::InUse(_)) => {
                inodes.fs.abort(&error);
                return;
            }
            // Continue: one missed renewal is harmless. Before another host takes the image, it
            // watches the block until after the next renewal is due.
            Err(error) => tracing::error!(%error, "cannot renew the multiple-mount protection"),
        }
    }
}

impl Drop for MmpKeeper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic was caught and logged in the thread.
            let _ = thread.join();
        }
    }
}
