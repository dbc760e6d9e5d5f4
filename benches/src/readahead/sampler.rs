//! Samples of the reads of a device while other work runs: at the end of each second, and at the end of
//! the work.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::readahead::device::{Device, Reads};

/// Runs `work`, and returns its result and samples of the reads of `device` since the start of `work`:
/// zero, the reads at the end of each second, and the reads at the end of `work`.
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
