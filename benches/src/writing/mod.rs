//! Write workloads compared with the peers: each on a new image, which e2fsck must find clean
//! afterwards.
//!
//! | workload | what is timed or counted |
//! |---|---|
//! | untar, remove | `tar -xf` of the tree of small files, then `rm -r` of that tree |
//! | write-sequential | one file of the plan's size in requests of 1 MiB, and one fsync |
//! | overwrite-random | 4 KiB at random in such a file, then one fsync |
//! | fsync-files | create, write 4 KiB, fsync, close; by one process, and by 16 |
//! | database | sysbench's `oltp_read_write` on a `MariaDB` server whose data is stored on the mount |
//! | extents | mean extents of a file, by filefrag on the kernel's mount, after an untar concurrent with several files that grow in small pieces |
//!
//! Nothing is read cold: the workloads start with an empty file system.

pub mod database;
pub mod files;
mod work;

use std::path::Path;

use anyhow::{Result, bail};

use crate::measure::Measure;
use crate::peer::{Peer, Programs};
use crate::plan::Plan;
use crate::scratch::{Scratch, Size};
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
    /// Returns the failure, also if e2fsck does not find the image clean.
    pub fn measure(&self, first: Measure, peer: Peer) -> Result<Vec<(Measure, f64)>> {
        let scratch = Scratch::make(self.folder, size(self.plan))?;
        let log = self.folder.join("work.log");
        let mounted = scratch.mount(self.programs, peer, &[])?;
        let root = mounted.root();
        let mut values = match first {
            Measure::Untar => {
                let untar = work::untar(root, self.archive, &log)?;
                let remove = work::remove(root, &log)?;
                vec![(Measure::Untar, untar), (Measure::Remove, remove)]
            }
            Measure::WriteSequential => {
                let rate = work::write_sequential(self.programs, root, self.plan, &log)?;
                vec![(first, rate)]
            }
            Measure::OverwriteRandom => {
                work::write_sequential(self.programs, root, self.plan, &log)?;
                vec![(first, work::overwrite_random(root, self.plan, &log)?)]
            }
            Measure::FsyncFiles => vec![(first, self.fsync_files(root, 1, &log)?)],
            Measure::FsyncFiles16 => vec![(first, self.fsync_files(root, 16, &log)?)],
            Measure::Database => {
                vec![(first, database::transactions(root, self.plan, self.folder)?)]
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
            values.push((first, scratch.mean_extents()?));
        }
        Ok(values)
    }

    fn fsync_files(&self, root: &Path, processes: u32, log: &Path) -> Result<f64> {
        let files = self.plan.fsync_files;
        work::fsync_files(self.programs, root, processes, files, log)
    }
}

fn size(plan: &Plan) -> Size {
    Size {
        mib: (plan.write_bytes >> 20) * 2 + u64::from(plan.files) / 16 + 1024,
        inodes: u64::from(plan.files) * 3 + 20_000,
    }
}
