//! Multiple-mount protection of a volume: held from before the first write to behind the last,
//! by a thread that shows in time that we live.
//!
//! Model: the kernel's `kmmpd`. Where somebody else has taken the image meanwhile, the file
//! system is aborted, and nothing more is written to it.

use crate::live::Inodes;
use crate::{Clock, Result, background};
use larder_block::BlockDevice;
use larder_ext4::ondisk::superblock::Superblock;
use larder_ext4::{Mmp, MmpHost};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What others are told in place of a device: an image has none.
const DEVICE: &[u8] = b"larder";

/// This machine.
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

/// An image that is ours; given back when this is dropped.
#[derive(Debug)]
pub(crate) struct HeldImage {
    mmp: Mmp,
    host: Host,
}

impl HeldImage {
    /// Takes the image, if it is to be protected: this may take some seconds.
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
            tracing::error!(%error, "the multiple-mount protection was not given back");
        }
    }
}

/// The thread that keeps an image held. Stopped and joined, and the image given back, when this
/// is dropped.
#[derive(Debug)]
pub(crate) struct MmpKeeper {
    is_over: Arc<Over>,
    thread: Option<JoinHandle<()>>,
}

/// Whether the keeper is to end.
#[derive(Debug, Default)]
struct Over {
    is_over: Mutex<bool>,
    condvar: Condvar,
}

impl Over {
    /// Waits for the end, or for `time`; whether it was the end.
    fn wait(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut is_over = self.is_over.lock();
        while !*is_over {
            if self.condvar.wait_until(&mut is_over, deadline).timed_out() {
                break;
            }
        }
        *is_over
    }
}

impl MmpKeeper {
    pub(crate) fn start(inodes: &Arc<Inodes>, held: HeldImage) -> Result<Self> {
        let is_over = Arc::<Over>::default();
        let theirs = (Arc::clone(inodes), Arc::clone(&is_over));
        let panicked = "the thread that renews the multiple-mount protection panicked";
        let thread = background::spawn(inodes, "mmp", panicked, move || {
            keep(&theirs.0, &held, &theirs.1);
        })?;
        Ok(Self {
            is_over,
            thread: Some(thread),
        })
    }
}

fn keep(inodes: &Inodes, held: &HeldImage, over: &Over) {
    while !over.wait(held.mmp.interval()) {
        match held.mmp.tick(&held.host) {
            Ok(()) => {}
            Err(error @ larder_ext4::Error::InUse(_)) => {
                inodes.fs.abort(&error);
                return;
            }
            // The next time may do; others wait for longer than one interval.
            Err(error) => tracing::error!(%error, "the multiple-mount protection was not renewed"),
        }
    }
}

impl Drop for MmpKeeper {
    fn drop(&mut self) {
        *self.is_over.is_over.lock() = true;
        self.is_over.condvar.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic was caught and logged in the thread.
            let _ = thread.join();
        }
    }
}
