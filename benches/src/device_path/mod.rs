//! The path from the library to the device: how many reads it keeps in flight, and what they cost.
//!
//! | measure | volume and direct | compared with |
//! |---|---|---|
//! | cold-random | threads read random pages through one open file, without readahead | fio with `io_uring` and threads with pread(2), both on the same pages of the image |
//! | interleaved | 64 threads read a region each, through an open file each | the kernel's ext4, on a loop device with direct I/O and the same readahead limit |
//! | interleaved-mount | - (a mount with its defaults, and one with `direct_device`) | the same |
//! | sequential | the file in requests of 1 MiB | pread(2) on the extents of the file in the image |
//! | checkpoint | a journal filled with changes of scattered inodes | nothing |
//! | threads-at-rest | - (a writable mount with its defaults) | nothing |
//!
//! *volume* is the library with its defaults, and *direct* is the library with `direct_device`. Everything is
//! read cold, in a separate process. Each reader checks its pages, except fio, which only checks that reads
//! succeed.
//!
//! Each side reads everything in several [passes](crate::passes), each of them cold. The result is the
//! median of the passes.

pub mod checkpoint;
mod extents;
pub mod reads;
mod threads;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::child;
use crate::evict::{evict, make_cold};
use crate::fio;
use crate::measure::{Measure, as_f64, megabytes};
use crate::measured::Measured;
use crate::passes::{PASSES, median_pass};
use crate::peer::{Mounted, Peer, Programs};
use crate::plan::Plan;
use crate::readahead::case::INTERLEAVED_READERS;
use crate::readahead::device::Device;
use crate::readahead::peer::KernelMount;
use crate::readahead::plan::READ_AHEAD_BYTES;
use crate::tree::{BIG_FILE, PAGE_BYTES, Tree};
use crate::user::User;
use crate::work::{self, Reading};
use extents::Extents;
use reads::{Pattern, Source};

/// The inputs of these measures, except the peer.
#[derive(Debug)]
pub struct DevicePath<'r> {
    /// The programs.
    pub programs: &'r Programs,
    /// The sizes.
    pub plan: &'r Plan,
    /// The image that is read.
    pub tree: &'r Tree,
    /// The directory of logs and mount points, and of the image whose journal is filled.
    pub folder: &'r Path,
}

impl DevicePath<'_> {
    /// Measures `measure` for `peer`, and returns its value. For [`Measure::Checkpoint`], also returns the
    /// value of [`Measure::CheckpointRequests`]. `run` determines the random pages and files.
    ///
    /// # Errors
    /// Fails if the measurement fails, or if a reader received content that differs from the image's.
    pub fn measure(&self, measure: Measure, peer: Peer, run: u64) -> Result<Vec<Measured>> {
        fs::create_dir_all(self.folder)?;
        let value = match measure {
            Measure::ColdRandom4 => self.cold_random(peer, run, 4)?,
            Measure::ColdRandom64 => self.cold_random(peer, run, 64)?,
            Measure::Interleaved64 | Measure::Interleaved64Mount => {
                return Ok(vec![self.interleaved(measure, peer)?]);
            }
            Measure::SequentialInProcess => self.sequential(peer)?,
            Measure::Checkpoint => return self.checkpoint(peer, run),
            Measure::ThreadsAtRest => {
                let log = self.log();
                threads::at_rest(self.programs, self.plan, peer, (self.folder, &log))?
            }
            other => bail!("{} is not a measure of the device path", other.name()),
        };
        Ok(vec![(measure, value).into()])
    }

    /// Returns the reads per second.
    fn cold_random(&self, peer: Peer, run: u64, at_once: u32) -> Result<f64> {
        let reads = self.plan.cold_reads;
        let reading = if peer == Peer::Fio {
            let extents = Extents::of(&self.tree.image, BIG_FILE)?;
            let pages = reads::random_pages(self.tree.big_file_bytes, run, reads);
            let offsets: Result<Vec<u64>> = pages
                .iter()
                .map(|page| extents.image_bytes(page * PAGE_BYTES as u64))
                .collect();
            let (image, offsets) = (&self.tree.image, offsets?);
            median_pass(|| {
                make_cold(image)?;
                fio::random_reads(image, &offsets, at_once, self.folder)
            })?
        } else {
            let pattern = Pattern::Random {
                run,
                reads,
                at_once,
            };
            self.read_image(peer, pattern)?
        };
        let pages = reads::random_pages(self.tree.big_file_bytes, run, reads).len() as u64;
        check(&reading, pages * PAGE_BYTES as u64)?;
        Ok(as_f64(pages) / reading.seconds)
    }

    /// Returns the rate in 10^6 bytes per second.
    fn interleaved(&self, measure: Measure, peer: Peer) -> Result<Measured> {
        let root = self.folder.join("mnt");
        fs::create_dir_all(&root)?;
        match peer {
            Peer::Kernel => {
                make_cold(&self.tree.image)?;
                let device = Device::attach(&self.tree.image, READ_AHEAD_BYTES)?;
                let _mount = KernelMount::new(&device, &root)?;
                self.read_interleaved(measure, &root, None)
            }
            Peer::Larder | Peer::LarderDev | Peer::LarderDirect | Peer::LarderDevDirect => {
                make_cold(&self.tree.image)?;
                let programs = self.programs;
                let mounted = Mounted::new(programs, peer, User::Own, self.tree, self.folder)?;
                self.read_interleaved(measure, mounted.root(), mounted.server_pid())
            }
            _ => {
                let reading = self.read_image(peer, Pattern::Interleaved)?;
                Ok((measure, self.rate_of_whole_file(&reading)?).into())
            }
        }
    }

    /// Reads the regions of the big file below `root`, in a separate process for each pass. Returns the
    /// rate of the median pass, and the mean of the processor times of the passes.
    fn read_interleaved(
        &self,
        measure: Measure,
        root: &Path,
        server: Option<u32>,
    ) -> Result<Measured> {
        let mut measured = Measured::with_processor_time(measure, server, || {
            self.rate_of_whole_file(&median_pass(|| {
                evict(&root.join(BIG_FILE))?;
                make_cold(&self.tree.image)?;
                self.read_regions(root)
            })?)
        })?;
        let passes = as_f64(PASSES as u64);
        measured.processor_seconds = measured.processor_seconds.map(|seconds| seconds / passes);
        Ok(measured)
    }

    fn rate_of_whole_file(&self, reading: &Reading) -> Result<f64> {
        check(reading, self.tree.big_file_bytes)?;
        Ok(megabytes(reading.bytes) / reading.seconds)
    }

    fn read_regions(&self, root: &Path) -> Result<Reading> {
        let bytes = self.tree.big_file_bytes;
        let mut command = Command::new(&self.programs.harness);
        command
            .arg("read-interleaved")
            .arg(root.join(BIG_FILE))
            .args([
                bytes.to_string(),
                INTERLEAVED_READERS.to_string(),
                reads::interleaved_request_bytes(bytes).to_string(),
            ]);
        work::result_of(child::DEADLINE, command, &self.log())
    }

    /// Returns the rate in 10^6 bytes per second.
    fn sequential(&self, peer: Peer) -> Result<f64> {
        let reading = self.read_image(peer, Pattern::Sequential)?;
        self.rate_of_whole_file(&reading)
    }

    /// Reads the big file without a mount, in a separate process.
    fn read_image(&self, peer: Peer, pattern: Pattern) -> Result<Reading> {
        let image = &self.tree.image;
        let source = match peer {
            Peer::Volume => Source::Volume,
            Peer::Direct => Source::DirectVolume,
            Peer::Device => Source::Extents(Extents::of(image, BIG_FILE)?),
            other => bail!("{} does not read the image", other.name()),
        };
        let job = reads::Job {
            image: image.clone(),
            file_bytes: self.tree.big_file_bytes,
            source,
            pattern,
        };
        self.work(reads::WORKER, &job)
    }

    /// Returns the time and the requests of a checkpoint.
    fn checkpoint(&self, peer: Peer, run: u64) -> Result<Vec<Measured>> {
        let image = self.folder.join("checkpoint.ext4");
        if !image.exists() {
            checkpoint::make_image(&image, self.plan)?;
        }
        make_cold(&image)?;
        let job = checkpoint::Job {
            image: image.clone(),
            is_direct: peer == Peer::Direct,
            journal_mib: self.plan.checkpoint_journal_mib,
            run,
        };
        let done: checkpoint::Checkpoint = self.work(checkpoint::WORKER, &job)?;
        larder_testkit::e2fsprogs::check(&image)?;
        Ok(vec![
            (Measure::Checkpoint, done.milliseconds).into(),
            (Measure::CheckpointRequests, as_f64(done.requests)).into(),
        ])
    }

    /// Runs `job` in a separate process of this crate's binary, with the command `worker`.
    fn work<R: DeserializeOwned>(&self, worker: &str, job: &impl Serialize) -> Result<R> {
        let mut command = Command::new(&self.programs.harness);
        command.arg(worker).arg(serde_json::to_string(job)?);
        work::result_of(child::DEADLINE, command, &self.log())
    }

    fn log(&self) -> PathBuf {
        self.folder.join("work.log")
    }
}

fn check(reading: &Reading, expected_bytes: u64) -> Result<()> {
    let Reading {
        bytes, wrong_pages, ..
    } = reading;
    ensure!(*wrong_pages == 0, "{wrong_pages} pages have wrong content");
    ensure!(
        *bytes == expected_bytes,
        "{bytes} of {expected_bytes} bytes were read"
    );
    Ok(())
}
