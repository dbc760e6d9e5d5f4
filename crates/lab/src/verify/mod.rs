//! Verifies advice: runs a command on fresh mounts of an image, with the current and with the recommended options in
//! turn, and compares the times.
//!
//! # Model
//! `hyperfine` for mounts. Each run has a new mount ([`run`](mod@run)), and each pair of runs has one run with each set
//! of options, in an order that alternates. A change in the machine's speed affects both runs of a pair.
//!
//! # The image
//! The image is never changed: each mount that can write has an overlay of its own, which is deleted after the run. A
//! cold run begins with the image's pages evicted from the cache of the host.
//!
//! # What is compared
//! The time of the command, from its start to its end. The processor times of the command and of the server, and the time
//! of unmounting, which writes the remaining changes, are reported too.

mod config;
mod error;
mod process;
mod report;
mod run;
mod sample;

pub use config::{Temperature, VerifyConfig};
pub use error::Error;
pub use report::{Outcome, Side, Verdict, Verified};
pub use sample::Sample;

use run::Runner;

/// The minimum number of pairs: fewer have no interval.
pub const MIN_PAIRS: usize = 5;

/// Runs the command `config.pairs` times on mounts with each set of options. Calls `progress` after each run with the
/// number of finished runs and of all runs. Ends with [`Error::Interrupted`] soon after `is_interrupted` returns true.
///
/// # Errors
/// Returns an error if a mount fails, or if the command fails. Nothing stays mounted, and the overlays are deleted.
pub fn run(
    config: &VerifyConfig,
    is_interrupted: &mut dyn FnMut() -> bool,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Verified, Error> {
    let runner = Runner::new(config)?;
    let unmeasured = match config.temperature {
        Temperature::Cold => 0,
        Temperature::Warm => 1,
    };
    let total = 2 * (config.pairs + unmeasured);
    let mut finished = 0;
    let mut pairs = Vec::with_capacity(config.pairs);
    for number in 0..config.pairs + unmeasured {
        let mut measure = |options: &[String]| {
            let sample = runner.run(options, is_interrupted)?;
            finished += 1;
            progress(finished, total);
            Ok::<_, Error>(sample)
        };
        let pair = if number % 2 == 0 {
            let current = measure(&config.current)?;
            (current, measure(&config.recommended)?)
        } else {
            let recommended = measure(&config.recommended)?;
            (measure(&config.current)?, recommended)
        };
        if number >= unmeasured {
            pairs.push(pair);
        }
    }
    Ok(Verified::new(config, &pairs))
}
