//! Many damaged versions of one image, each read by a walk.

use super::map::open_options;
use super::{MetadataMap, Plan, WalkLimits, walk};
use crate::error::Result;
use crate::seed::Seed;
use larder::Volume;
use larder_block::BlockDevice;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// Each walk may make this number of reads in addition to a multiple of the reads of the clean walk.
const SPARE_READS: u64 = 20_000;
/// The time limit of one image, after which the process is aborted. It only detects a loop without
/// reads, and affects nothing else.
const TIMEOUT: Duration = Duration::from_mins(2);

/// An image to damage.
#[derive(Debug)]
pub struct Campaign {
    name: String,
    base: Arc<dyn BlockDevice>,
    map: MetadataMap,
    seed: Seed,
}

/// Counts of the results for the damaged images.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Images that were damaged and walked.
    pub images: u64,
    /// Images that could not be opened.
    pub refused: u64,
    /// Images with at least one error in the walk.
    pub with_errors: u64,
    /// Images in which the walk found no error.
    pub without_errors: u64,
    /// The maximum number of device reads for one image.
    pub most_reads: u64,
}

impl Campaign {
    /// Prepares the damage of `base`, which messages call `name`.
    pub fn new(name: &str, base: Arc<dyn BlockDevice>, seed: Seed) -> Result<Self> {
        let map = MetadataMap::of(&base)?;
        Ok(Self {
            name: name.to_owned(),
            base,
            map,
            seed,
        })
    }

    /// Returns the map of the metadata, where most of the damage is applied.
    #[must_use]
    pub fn map(&self) -> &MetadataMap {
        &self.map
    }

    /// Damages and walks `count` images.
    ///
    /// # Panics
    /// If a walk panics, or exceeds its limit of reads. The message contains the plan with its
    /// seed, with which [`Campaign::run_plan`] repeats the walk.
    #[must_use]
    pub fn run(&self, count: u64) -> Tally {
        let mut tally = Tally::default();
        let watchdog = Watchdog::start();
        for number in 0..count {
            let plan = Plan::new(self.seed.part(number), &self.map);
            watchdog.begin(format!("{}: image {number}, {plan:?}", self.name));
            let result = catch_unwind(AssertUnwindSafe(|| self.run_plan(&plan, &mut tally)));
            assert!(
                result.is_ok(),
                "{}: image {number} of the campaign with seed {} panicked: {plan:?}",
                self.name,
                self.seed
            );
        }
        tally
    }

    /// Damages and walks one image.
    ///
    /// # Panics
    /// As [`Campaign::run`].
    pub fn run_plan(&self, plan: &Plan, tally: &mut Tally) {
        let limit = self.map.reads() * 20 + SPARE_READS;
        let device = plan
            .apply(&self.base, limit)
            .expect("the base image is readable");
        let device = Arc::new(device);
        tally.images += 1;
        match Volume::open_device(device.clone(), &open_options()) {
            Err(error) => {
                assert!(!error.to_string().is_empty());
                tally.refused += 1;
            }
            Ok(volume) => {
                let outcome = walk(&volume, &WalkLimits::default());
                if outcome.errors > 0 {
                    tally.with_errors += 1;
                } else {
                    tally.without_errors += 1;
                }
            }
        }
        assert!(
            device.failed_count() == 0,
            "{}: more than {limit} device reads",
            self.name
        );
        tally.most_reads = tally.most_reads.max(device.call_count());
    }
}

/// Prints the name of an image whose walk does not end, then aborts the process.
struct Watchdog {
    sender: Sender<String>,
}

impl Watchdog {
    fn start() -> Self {
        let (sender, receiver) = channel::<String>();
        thread::spawn(move || {
            let mut current = String::new();
            loop {
                match receiver.recv_timeout(TIMEOUT) {
                    Ok(begun) => current = begun,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        eprintln!("still running after {TIMEOUT:?}: {current}");
                        std::process::abort();
                    }
                }
            }
        });
        Self { sender }
    }

    fn begin(&self, what: String) {
        // The watchdog ends only when this is dropped.
        let _ = self.sender.send(what);
    }
}
