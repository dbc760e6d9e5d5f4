//! A device whose calls can be made to wait.

use larder_block::{BlockDevice, MemoryDevice, Result};
use std::io::{IoSlice, IoSliceMut};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Only a hang takes this long.
const HANG: Duration = Duration::from_mins(1);

/// The calls that a [`GatedDevice`] stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Reads.
    Reads,
    /// Writes and flushes.
    Writes,
}

/// A device in memory. While it is [stopped](GatedDevice::stop), it does not answer one kind of
/// calls: either reads, or writes and flushes.
#[derive(Debug)]
pub struct GatedDevice {
    inner: MemoryDevice,
    gate: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Gate {
    stopped: Option<Stopped>,
    /// The number of calls that wait.
    waiting: usize,
}

/// A guard of a stopped [`GatedDevice`]. When the guard is dropped, the device answers again.
#[derive(Debug)]
#[must_use = "the device answers again when this is dropped"]
pub struct StoppedDevice<'d>(&'d GatedDevice);

impl GatedDevice {
    /// Creates a device with the content `bytes`.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryDevice::new(bytes),
            gate: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Stops the device: it does not answer calls of the kind `stopped` until the guard is dropped.
    ///
    /// # Panics
    /// Panics if a thread has panicked while it held the lock of the device.
    pub fn stop(&self, stopped: Stopped) -> StoppedDevice<'_> {
        self.gate.lock().unwrap().stopped = Some(stopped);
        StoppedDevice(self)
    }

    /// Returns a copy of the content.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.inner.to_bytes()
    }

    /// Waits while the device does not answer calls of the kind `call`. Panics if this takes a
    /// minute.
    fn pass(&self, call: Stopped) {
        let mut gate = self.gate.lock().unwrap();
        if gate.stopped != Some(call) {
            return;
        }
        gate.waiting += 1;
        self.changed.notify_all();
        let is_stopped = |gate: &mut Gate| gate.stopped == Some(call);
        let waited = self.changed.wait_timeout_while(gate, HANG, is_stopped);
        let (mut gate, waited) = waited.unwrap();
        gate.waiting -= 1;
        drop(gate);
        assert!(!waited.timed_out(), "a call waits for the device");
    }
}

impl StoppedDevice<'_> {
    /// Waits until at least `count` calls wait for the device.
    ///
    /// # Panics
    /// Panics if this takes a minute.
    #[track_caller]
    pub fn wait_for(&self, count: usize) {
        let gate = self.0.gate.lock().unwrap();
        let waited = self
            .0
            .changed
            .wait_timeout_while(gate, HANG, |gate| gate.waiting < count);
        let is_late = waited.unwrap().1.timed_out();
        assert!(!is_late, "fewer than {count} calls wait for the device");
    }
}

impl Drop for StoppedDevice<'_> {
    fn drop(&mut self) {
        self.0.gate.lock().unwrap().stopped = None;
        self.0.changed.notify_all();
    }
}

impl BlockDevice for GatedDevice {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        self.pass(Stopped::Reads);
        self.inner.read_at(buf, offset_bytes)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        self.pass(Stopped::Reads);
        self.inner.read_vectored_at(bufs, offset_bytes)
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> Result<()> {
        self.pass(Stopped::Writes);
        self.inner.write_at(buf, offset_bytes)
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset_bytes: u64) -> Result<()> {
        self.pass(Stopped::Writes);
        self.inner.write_vectored_at(bufs, offset_bytes)
    }

    fn flush(&self) -> Result<()> {
        self.pass(Stopped::Writes);
        self.inner.flush()
    }
}
