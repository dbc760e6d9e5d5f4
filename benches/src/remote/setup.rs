//! What all measurements need.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use tempfile::TempDir;

use crate::child::DEADLINE;
use crate::measure::as_f64;
use crate::remote::image::Image;
use crate::remote::measure::{Measure, Side};
use crate::remote::network::Network;
use crate::remote::plan::Plan;
use crate::remote::results::Sample;
use crate::remote::s3::Blocks;
use crate::remote::worker::Job;
use crate::scratch;
use crate::work::Reading;

/// What all measurements need.
#[derive(Debug)]
pub(super) struct Setup {
    pub plan: Plan,
    /// The larder binary.
    pub larder: PathBuf,
    /// This crate's binary.
    pub harness: PathBuf,
    pub image: Image,
    /// The image for s3backer, if it is measured.
    pub blocks: Option<Blocks>,
    /// The folder of mount points, caches and logs.
    pub folder: PathBuf,
}

/// The measurements of one side over one link.
#[derive(Debug)]
pub(super) struct Samples {
    network: Network,
    side: Side,
    pub all: Vec<Sample>,
}

impl Setup {
    /// Returns a new folder, which is removed when it is dropped.
    pub(super) fn new_folder(&self) -> Result<TempDir> {
        scratch::folder(&self.folder, "one-")
    }

    /// Runs a reader of a mount, which must return what the image contains.
    pub(super) fn read(&self, job: &Job, deadline: Duration, log: &Path) -> Result<Reading> {
        let reading: Reading = job.result(&self.harness, deadline, log)?;
        ensure!(
            reading.wrong_pages == 0,
            "{} pages are wrong",
            reading.wrong_pages
        );
        Ok(reading)
    }

    /// Returns the time after which a measurement of `side` is given up.
    pub(super) fn deadline(&self, side: Side) -> Duration {
        if Side::PEERS.contains(&side) {
            Duration::from_secs(self.plan.peer_seconds)
        } else {
            DEADLINE
        }
    }
}

impl Samples {
    pub(super) const fn new(network: Network, side: Side) -> Self {
        Self {
            network,
            side,
            all: Vec::new(),
        }
    }

    /// Adds a measurement.
    pub(super) fn push(&mut self, measure: Measure, value: f64) {
        self.all.push(Sample {
            measure,
            network: self.network,
            side: self.side,
            value,
        });
    }

    /// Adds a count.
    pub(super) fn count(&mut self, measure: Measure, value: impl Into<u64>) {
        self.push(measure, as_f64(value.into()));
    }
}

/// Returns 10^6 bytes per second.
pub(super) fn megabytes_per_second(bytes: u64, seconds: f64) -> f64 {
    as_f64(bytes) / 1e6 / seconds
}
