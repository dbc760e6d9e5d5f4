//! Write workloads of Larder and its peers. Each workload has a new image, which e2fsck must find clean
//! afterwards.
//!
//! | workload | what is timed or counted |
//! |---|---|
//! | untar, copy, chmod, remove | `tar -xf` of the tree of small files, then `cp -a`, `chmod -R` and `rm -r` of that tree; afterwards the first three again, not timed, so that e2fsck checks a full tree |
//! | append | 100 bytes at a time to a new file |
//! | write-sequential | one file of the plan's size in requests of 1 MiB, and one fsync |
//! | overwrite-random | 4 KiB at random in such a file, then one fsync |
//! | overlay-write-sequential, overlay-overwrite-random | the same in an overlay; the overwritten file is in the base |
//! | setxattr | one attribute of 100 files, by one process |
//! | stat-after-write, -rename, -unlink | stat(2) of a file after it was written, after it was renamed, and after another file in its directory was removed; the requests of other such calls are counted |
//! | fsync-files | create, write 4 KiB, fsync, close; by one process, and by 16 |
//! | database | sysbench's `oltp_read_write` on a `MariaDB` server whose data is stored on the mount |
//! | extents | mean extents of a file, by filefrag on the kernel's mount, after an untar concurrent with several files that grow in small pieces |
//!
//! Nothing is read cold: the workloads start with an empty file system.

mod database;
pub mod files;
mod stat;
mod work;

use std::path::Path;

use anyhow::{Result, bail};
use larder_lab::xattr_bench::{BenchConfig, Case};

use crate::measure::{Measure, megabytes};
use crate::measured::Measured;
use crate::peer::{Mounted, Peer, Programs};
use crate::plan::Plan;
use crate::requests;
use crate::scratch::{Scratch, Size};
use crate::xattr;
use work::FileWork;
pub use work::make_archive;

/// The inputs of the writing workloads, except the peer.
#[derive(Debug)]
pub struct Writing<'r> {
    /// The programs.
    pub programs: &'r Programs,
    /// The sizes.
    pub plan: &'r Plan,
    /// The archive of small files, made by [`make_archive`].
    pub archive: &'r Path,
    /// The directory of images and logs.
    pub folder: &'r Path,
}

impl Writing<'_> {
    /// Runs the workload that yields `first` and the measures of its group.
    ///
    /// # Errors
    /// Fails if the workload fails, or if e2fsck does not find the image clean.
    pub fn measure(&self, first: Measure, peer: Peer) -> Result<Vec<Measured>> {
        let scratch = Scratch::make(self.folder, size(self.plan))?;
        let log = self.folder.join("work.log");
        if first == Measure::OverlayOverwriteRandom {
            // The file that is overwritten is in the base.
            let base = scratch.mount(self.programs, Peer::LarderDev, &[])?;
            work::write(FileWork::Write, self.programs, base.root(), self.plan, &log)?;
        }
        let mounted = scratch.mount(self.programs, peer, &[])?;
        let root = mounted.root();
        let write = |work| work::write(work, self.programs, root, self.plan, &log);
        let mut values = match first {
            Measure::Untar => {
                let untar = |root: &Path| work::untar(root, self.archive, &log);
                let copy = |root: &Path| work::copy(root, &log);
                let chmod = |root: &Path| work::chmod(root, &log);
                let remove = |root: &Path| work::remove(root, &log);
                let values = vec![
                    Measured::on(&mounted, first, untar)?,
                    Measured::on(&mounted, Measure::Copy, copy)?,
                    Measured::on(&mounted, Measure::Chmod, chmod)?,
                    Measured::on(&mounted, Measure::Remove, remove)?,
                ];
                untar(root)?;
                copy(root)?;
                chmod(root)?;
                values
            }
            Measure::WriteSequential | Measure::OverlayWriteSequential => {
                vec![Measured::on(&mounted, first, |_| {
                    let written = write(FileWork::Write)?;
                    Ok(megabytes(written.bytes) / written.seconds)
                })?]
            }
            Measure::OverwriteRandom | Measure::OverlayOverwriteRandom => {
                if first == Measure::OverwriteRandom {
                    write(FileWork::Write)?;
                }
                vec![Measured::on(&mounted, first, |_| {
                    Ok(write(FileWork::Overwrite)?.seconds)
                })?]
            }
            Measure::Append => {
                vec![Measured::on(&mounted, first, |_| {
                    Ok(write(FileWork::Append)?.seconds)
                })?]
            }
            Measure::SetXattr => {
                let (case, config) = self.attributes();
                let set = |root: &Path| xattr::run::seconds(self.programs, root, case, &config);
                vec![Measured::on(&mounted, first, set)?]
            }
            Measure::StatAfterWrite => {
                let servers = Measure::StatAfterWriteRequests.peers();
                let counts_requests = servers.contains(&peer) && requests::missing().is_none();
                stat::after_changes(root, self.plan.stat_directories, counts_requests)?
            }
            Measure::FsyncFiles => vec![self.fsync_files(first, &mounted, 1, &log)?],
            Measure::FsyncFiles16 => vec![self.fsync_files(first, &mounted, 16, &log)?],
            Measure::Database => {
                // The load runs for the same time on each side, so processor times cannot be compared.
                let rate = database::transactions(root, self.plan, self.folder)?;
                vec![(first, rate).into()]
            }
            Measure::Extents => {
                work::untar(root, self.archive, &log)?;
                files::append_at_once(root, self.plan)?;
                Vec::new()
            }
            other => bail!("{} is not a measure of writing", other.name()),
        };
        drop(mounted);
        scratch.check()?;
        if first == Measure::Extents {
            values.push((first, scratch.mean_extents()?).into());
        }
        Ok(values)
    }

    fn fsync_files(
        &self,
        measure: Measure,
        mounted: &Mounted,
        processes: u32,
        log: &Path,
    ) -> Result<Measured> {
        let files = self.plan.fsync_files;
        Measured::on(mounted, measure, |root| {
            work::fsync_files(self.programs, root, processes, files, log)
        })
    }

    /// Returns the parameters of `setxattr`: one process, and ten times as many values as files.
    fn attributes(&self) -> (Case, BenchConfig) {
        let case = Case {
            processes: 1,
            files: 100,
            values: 1_000,
        };
        let config = BenchConfig {
            operations: self.plan.attribute_sets,
            is_warm: false,
            runs: 1,
            seed: 1,
        };
        (case, config)
    }
}

fn size(plan: &Plan) -> Size {
    Size {
        mib: (plan.write_bytes >> 20) * 2 + u64::from(plan.files) / 16 + 1024,
        inodes: u64::from(plan.files) * 3 + 20_000,
    }
}
