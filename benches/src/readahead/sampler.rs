//! What a device has read, at the end of each second and at last, while something else runs.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::readahead::device::{Device, Reads};

/// Runs `work`, and returns what it did and what `device` had read since then: at first nothing,
/// then at the end of each second, and in the end.
pub fn while_running<T>(
    device: &Device,
    work: impl FnOnce() -> Result<T>,
) -> Result<(T, Vec<Reads>)> {
    thread::scope(|scope| {
        let (done, wait) = mpsc::channel::<()>();
        let before = device.reads()?;
        let sampler = scope.spawn(move || -> Result<Vec<Reads>> {
            let started = Instant::now();
            let mut reads = vec![Reads::default()];
            for second in 1.. {
                let due = started + Duration::from_secs(second);
                let left = due.saturating_duration_since(Instant::now());
                let is_done = wait.recv_timeout(left) != Err(RecvTimeoutError::Timeout);
                reads.push(device.reads()?.since(before));
                if is_done {
                    break;
                }
            }
            Ok(reads)
        });
        let result = work();
        drop(done);
        let reads = sampler
            .join()
            .map_err(|_| anyhow!("the sampler panicked"))??;
        Ok((result?, reads))
    })
}
