//! A run: several rounds of all workloads. In each workload the peers take turns, in an order that rotates
//! from round to round.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};
use tempfile::TempDir;

use crate::child;
use crate::database;
use crate::device_path::DevicePath;
use crate::evict::make_cold;
use crate::in_process;
use crate::measure::{Measure, as_f64, megabytes};
use crate::measured::Measured;
use crate::passes::median_by;
use crate::peer::{Mounted, Peer, Programs};
use crate::plan::Plan;
use crate::requests;
use crate::results::Samples;
use crate::scratch;
use crate::tree::{BIG_FILE, PAGE_BYTES, Tree};
use crate::uring::Uring;
use crate::user::{OpenFuseDevice, User};
use crate::work::{self, Reading};
use crate::writing::{self, Writing};

/// Groups of measures that are measured together, on one mount of a peer.
const GROUPS: [&[Measure]; 30] = [
    &[Measure::ColdFind, Measure::WarmFind],
    &[Measure::ColdTar, Measure::WarmTar],
    &[Measure::Sequential],
    &[Measure::SequentialUnprivileged],
    &[Measure::Random],
    &[
        Measure::Untar,
        Measure::Copy,
        Measure::Chmod,
        Measure::Remove,
    ],
    &[Measure::Append],
    &[Measure::WriteSequential],
    &[Measure::OverwriteRandom],
    &[Measure::SetXattr],
    &[
        Measure::StatAfterWrite,
        Measure::StatAfterWriteRequests,
        Measure::StatAfterRename,
        Measure::StatAfterRenameRequests,
        Measure::StatAfterUnlink,
        Measure::StatAfterUnlinkRequests,
    ],
    &[Measure::FsyncFiles],
    &[Measure::FsyncFiles16],
    &[Measure::Database],
    &[Measure::Extents],
    &[Measure::Qcow2Sequential],
    &[Measure::Qcow2Random],
    &[Measure::OverlayWriteSequential],
    &[Measure::OverlayOverwriteRandom],
    &[Measure::PageRead],
    &[Measure::Lookup],
    &[Measure::Bookkeeping],
    &[Measure::Decision],
    &[Measure::ColdRandom4],
    &[Measure::ColdRandom64],
    &[Measure::Interleaved64],
    &[Measure::Interleaved64Mount],
    &[Measure::SequentialInProcess],
    &[Measure::Checkpoint, Measure::CheckpointRequests],
    &[Measure::ThreadsAtRest],
];

/// A run of the benches.
#[derive(Debug)]
pub struct Run {
    plan: Plan,
    programs: Programs,
    measures: Vec<Measure>,
    interrupted: Arc<AtomicBool>,
    progress: fn(&str),
    folder: TempDir,
    tree: Tree,
    tar_bytes: Option<u64>,
    /// The small files as an archive, for the writing workloads.
    archive: PathBuf,
}

impl Run {
    /// Builds the image in a new directory below `work_folder`, which must be on the storage to measure.
    /// When `interrupted` is set, the run ends early, with everything unmounted.
    pub fn new(
        plan: Plan,
        programs: Programs,
        measures: Vec<Measure>,
        work_folder: &Path,
        interrupted: Arc<AtomicBool>,
        progress: fn(&str),
    ) -> Result<Self> {
        let folder = scratch::folder(work_folder, "larder-bench-")?;
        progress("creating the image");
        let tree = Tree::make(folder.path(), &plan)?;
        let archive = writing::make_archive(folder.path(), &plan)?;
        // fuse2fs opens the image for writing even for a read-only mount.
        fs::set_permissions(&tree.image, Permissions::from_mode(0o666))?;
        Ok(Self {
            plan,
            programs,
            measures,
            interrupted,
            progress,
            folder,
            tree,
            tar_bytes: None,
            archive,
        })
    }

    /// Runs everything and returns all values. If a peer fails, the failure is recorded, and the run
    /// continues.
    pub fn measure(&mut self) -> Samples {
        let mut samples = Samples::default();
        let _open = self
            .wants(&[Measure::SequentialUnprivileged])
            .then(OpenFuseDevice::new);
        let _uring = self
            .peers()
            .iter()
            .any(|peer| peer.needs_uring())
            .then(Uring::enable);
        self.note_missing(&mut samples);
        for round in 0..self.plan.runs {
            for group in GROUPS {
                if self.wants(group) && !self.is_interrupted() {
                    (self.progress)(&format!(
                        "round {} of {}: {}",
                        round + 1,
                        self.plan.runs,
                        group[0].name()
                    ));
                    self.measure_group(group, round, &mut samples);
                }
            }
        }
        if self.is_interrupted() {
            samples.failures.push("interrupted".to_owned());
        }
        samples
    }

    fn wants(&self, group: &[Measure]) -> bool {
        group.iter().any(|measure| self.measures.contains(measure))
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    fn peers(&self) -> BTreeSet<Peer> {
        let peers = self.measures.iter().flat_map(|measure| measure.peers());
        peers.copied().collect()
    }

    fn note_missing(&self, samples: &mut Samples) {
        for peer in self.peers() {
            if let Some(reason) = self.programs.missing(peer) {
                samples.skipped.push(format!("{}: {reason}", peer.name()));
            }
        }
        if let (true, Some(reason)) = (
            self.wants(&[Measure::SequentialUnprivileged]),
            User::Nobody.missing(),
        ) {
            let name = Measure::SequentialUnprivileged.name();
            samples.skipped.push(format!("{name}: {reason}"));
        }
        let counts_requests = self.measures.iter().any(|one| one.is_of_requests());
        if let (true, Some(reason)) = (counts_requests, requests::missing()) {
            samples.skipped.push(format!("requests: {reason}"));
        }
        if let (true, Some(reason)) = (self.wants(&[Measure::Database]), database::missing()) {
            let name = Measure::Database.name();
            samples.skipped.push(format!("{name}: {reason}"));
        }
    }

    fn measure_group(&mut self, group: &[Measure], round: usize, samples: &mut Samples) {
        let first = group[0];
        if first.is_in_process() {
            match in_process::measure(first, &self.tree, &self.plan, &self.programs, round) {
                Ok(values) => {
                    for (measure, peer, value) in values {
                        samples.add(peer, (measure, value).into());
                    }
                }
                Err(error) => samples
                    .failures
                    .push(format!("{}: {error:#}", first.name())),
            }
            return;
        }
        let peers = first.peers();
        for turn in 0..peers.len() {
            let peer = peers[(turn + round) % peers.len()];
            if self.programs.missing(peer).is_some() || self.is_interrupted() {
                continue;
            }
            match self.measure_peer(first, peer, round) {
                Ok(values) => {
                    for value in values {
                        if self.measures.contains(&value.measure) {
                            samples.add(peer, value);
                        }
                    }
                }
                Err(error) => {
                    let what = format!("{} of {}: {error:#}", first.name(), peer.name());
                    samples.failures.push(what);
                }
            }
        }
    }

    /// Runs the workload with `peer`, on a cold image or on a new one. `first` is the first measure of its
    /// group.
    fn measure_peer(&mut self, first: Measure, peer: Peer, round: usize) -> Result<Vec<Measured>> {
        let user = match first {
            Measure::SequentialUnprivileged => User::Nobody,
            _ => User::Own,
        };
        if user.missing().is_some() || (first == Measure::Database && database::missing().is_some())
        {
            return Ok(Vec::new());
        }
        if first.is_writing() {
            let writing = Writing {
                programs: &self.programs,
                plan: &self.plan,
                archive: &self.archive,
                folder: &self.folder.path().join("writing"),
            };
            return writing.measure(first, peer);
        }
        if first.is_of_device_path() {
            let device_path = DevicePath {
                programs: &self.programs,
                plan: &self.plan,
                tree: &self.tree,
                folder: &self.folder.path().join("device-path"),
            };
            return device_path.measure(first, peer, round as u64);
        }
        let log = self.log();
        match first {
            Measure::ColdFind => {
                let mounted = self.mount_cold(peer, user)?;
                [Measure::ColdFind, Measure::WarmFind]
                    .map(|measure| {
                        Measured::on(&mounted, measure, |root| work::find(root, &self.tree, &log))
                    })
                    .into_iter()
                    .collect()
            }
            Measure::ColdTar => {
                let mounted = self.mount_cold(peer, user)?;
                let tree = &self.tree;
                let mut tar = |root: &Path| {
                    let (seconds, bytes) = work::tar(root, tree, &log)?;
                    let expected = *self.tar_bytes.get_or_insert(bytes);
                    ensure!(
                        bytes == expected,
                        "tar wrote {bytes} bytes, but {expected} bytes on another mount"
                    );
                    Ok(seconds)
                };
                [Measure::ColdTar, Measure::WarmTar]
                    .map(|measure| Measured::on(&mounted, measure, &mut tar))
                    .into_iter()
                    .collect()
            }
            _ if first.is_random() => Ok(vec![self.read_cold(first, peer, user, round)?]),
            _ => {
                let pass = || self.read_cold(first, peer, user, round);
                Ok(vec![median_by(pass, |read: &Measured| read.value)?])
            }
        }
    }

    /// Makes the image cold, and mounts it with `peer` as `user`.
    fn mount_cold(&self, peer: Peer, user: User) -> Result<Mounted> {
        make_cold(peer.image_of(&self.tree))?;
        let folder = self.folder.path().join(if user == User::Own {
            "own"
        } else {
            "unprivileged"
        });
        fs::create_dir_all(&folder)?;
        Mounted::new(&self.programs, peer, user, &self.tree, &folder)
    }

    /// Reads the cold big file according to `measure`, on a new mount. [`Peer::Device`] reads the image.
    fn read_cold(
        &self,
        measure: Measure,
        peer: Peer,
        user: User,
        round: usize,
    ) -> Result<Measured> {
        if peer == Peer::Device {
            let image = &self.tree.image;
            make_cold(image)?;
            let read = || self.read(measure, peer, user, image, round);
            return Measured::with_processor_time(measure, None, read);
        }
        let mounted = self.mount_cold(peer, user)?;
        Measured::on(&mounted, measure, |root| {
            self.read(measure, peer, user, &root.join(BIG_FILE), round)
        })
    }

    /// Reads `file` according to `measure`, in a separate process, and returns the rate.
    fn read(
        &self,
        measure: Measure,
        peer: Peer,
        user: User,
        file: &Path,
        round: usize,
    ) -> Result<f64> {
        let mut command: Command = user.command(&self.programs.harness);
        if measure.is_random() {
            command.arg("read-random").arg(file).args([
                round.to_string(),
                self.plan.random_threads.to_string(),
                self.plan.random_reads.to_string(),
            ]);
        } else {
            command.arg("read-sequential").arg(file);
        }
        let reading: Reading = work::result_of(child::DEADLINE, command, &self.log())?;
        let (bytes, pages) = (reading.bytes, reading.bytes / PAGE_BYTES as u64);
        if peer.has_content() {
            let wrong = reading.wrong_pages;
            ensure!(wrong == 0, "{wrong} of {pages} pages have wrong content");
            let is_whole = measure.is_random() || bytes == self.tree.big_file_bytes;
            ensure!(is_whole, "the file ends after {bytes} bytes");
        }
        let read = if measure.is_random() {
            as_f64(pages)
        } else {
            megabytes(bytes)
        };
        Ok(read / reading.seconds)
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("work.log")
    }
}
