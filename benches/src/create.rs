//! `larder create` beside `mke2fs -d`, on one tree of small files.
//!
//! | side | what it is |
//! |---|---|
//! | archive | `larder create --size … --from` of a tar archive of the tree |
//! | fixed-time | the same, with `SOURCE_DATE_EPOCH` |
//! | directory | `larder create --size … --from` of the directory |
//! | fitting | `larder create` of the directory without a size |
//! | mke2fs | `mke2fs -t ext4 -d` of the directory |
//! | copy | `cat` of the archive to a new file, and `sync` of this file: the floor |
//!
//! The sides take turns, in an order that rotates from round to round. Everything that they read is in the page cache.
//! Larder makes the image durable, and mke2fs does not. e2fsck checks each image, and its files are counted.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use larder_testkit::e2fsprogs;
use serde::{Deserialize, Serialize};

use crate::measure::median;
use crate::named::named;
use crate::origin::Origin;
use crate::outcome::{Outcome, absent};
use crate::peer::Programs;
use crate::report::{counted, figure, thousands};
use crate::{child, tree};

named! {
    /// One of the compared sides.
    Side {
        /// `larder create` of an archive.
        Archive: "archive",
        /// The same, with a fixed time.
        FixedTime: "fixed-time",
        /// `larder create` of a directory.
        Directory: "directory",
        /// The same, without a size.
        Fitting: "fitting",
        /// `mke2fs -d`.
        Mke2fs: "mke2fs",
        /// A copy of the archive.
        Copy: "copy",
    }
}

impl Side {
    /// Returns the command, as it is printed.
    const fn command(self) -> &'static str {
        match self {
            Self::Archive => "`larder create x.img --size … --from tree.tar`",
            Self::FixedTime => "the same, with `SOURCE_DATE_EPOCH`",
            Self::Directory => "`larder create x.img --size … --from tree` (the directory)",
            Self::Fitting => "`larder create x.img --from tree`",
            Self::Mke2fs => "`mke2fs -q -t ext4 -d tree x.img …`",
            Self::Copy => "`cat tree.tar > copy` and `sync copy`, the floor",
        }
    }
}

/// The sizes of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The number of files.
    pub files: u32,
    /// The maximum size of a file, in bytes. Sizes are uniformly distributed.
    pub max_file_bytes: u64,
    /// The number of rounds. Results are medians over them.
    pub rounds: usize,
}

impl Plan {
    /// Returns the plan of the full run: 10,000 files and about 200 MB.
    #[must_use]
    pub fn full() -> Self {
        Self {
            files: 10_000,
            max_file_bytes: 40 << 10,
            rounds: 7,
        }
    }

    /// Returns a plan of two rounds with fewer files, to try a change.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            files: 2_000,
            rounds: 2,
            ..Self::full()
        }
    }

    /// Returns a plan for the test.
    #[must_use]
    pub fn tiny() -> Self {
        Self {
            files: 50,
            rounds: 1,
            ..Self::full()
        }
    }

    /// Returns the size of the images, in MiB.
    fn image_mib(&self) -> u64 {
        let content_bytes = u64::from(self.files) * (self.max_file_bytes + (1 << 10));
        (content_bytes >> 20) + 64
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// The side.
    pub side: Side,
    /// The wall time, in seconds.
    pub seconds: f64,
}

/// The stored results of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results {
    /// The time, the commit and the machine of the run.
    #[serde(flatten)]
    pub origin: Origin,
    /// The sizes of the run.
    pub plan: Plan,
    /// The measurements.
    #[serde(flatten)]
    pub outcome: Outcome<Sample>,
}

impl Results {
    /// Returns the times of `side`, in seconds.
    fn seconds(&self, side: Side) -> Vec<f64> {
        let samples = self.outcome.samples.iter();
        let samples = samples.filter(|sample| sample.side == side);
        samples.map(|sample| sample.seconds).collect()
    }

    /// Returns the median time of `side`, in seconds.
    #[must_use]
    pub fn median(&self, side: Side) -> Option<f64> {
        median(&self.seconds(side))
    }

    /// Returns a table with a row for each side.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = "| command | seconds | minimum | times as fast as `mke2fs -d` |\n\
                        |---|---:|---:|---:|\n"
            .to_owned();
        let mke2fs = self.median(Side::Mke2fs);
        for side in Side::ALL {
            let median = self.median(side);
            let least = self.seconds(side).into_iter().reduce(f64::min);
            let ratio = mke2fs.zip(median).map(|(mke2fs, own)| mke2fs / own);
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} |",
                side.command(),
                figure(median, 3),
                figure(least, 3),
                figure(ratio, 2),
            );
        }
        text
    }

    /// Returns a sentence on the sizes, the machine and the commit of the run.
    #[must_use]
    pub fn origin(&self) -> String {
        format!(
            "{} files of up to {} KiB; medians and minima of {} on {}.",
            thousands(self.plan.files.into()),
            self.plan.max_file_bytes >> 10,
            counted(self.plan.rounds, "interleaved round"),
            self.origin,
        )
    }

    /// Returns the whole report.
    #[must_use]
    pub fn page(&self) -> String {
        let absent = absent(&self.outcome.skipped, &self.outcome.failures);
        format!("{}\n{}\n{absent}", self.table(), self.origin())
    }

    /// Writes the results to a file in `folder` that is named by date and commit, and returns its path.
    pub fn save(&self, folder: &Path) -> Result<PathBuf> {
        self.origin.save_samples(self, folder, "create", "side")
    }
}

/// The parameters of a run.
#[derive(Debug)]
pub struct Run<'r> {
    /// The sizes.
    pub plan: &'r Plan,
    /// The sides.
    pub sides: &'r [Side],
    /// The programs.
    pub programs: &'r Programs,
    /// The directory of the tree, the archive and the images, on the storage to measure.
    pub folder: &'r Path,
    /// Ends the run early when it is set.
    pub interrupted: &'r AtomicBool,
    /// Called before each round.
    pub progress: fn(&str),
}

impl Run<'_> {
    /// Runs everything. If a side fails, the failure is recorded, and the run continues.
    ///
    /// # Errors
    /// The tree or the archive cannot be made.
    pub fn measure(&self) -> Result<Outcome<Sample>> {
        (self.progress)("making the tree and the archive");
        let source = self.folder.join("tree");
        let (folders, _) =
            tree::make_small_files(&source, self.plan.files, self.plan.max_file_bytes)?;
        let mut tar = Command::new(child::find("tar")?);
        tar.args(["--numeric-owner", "-C"])
            .arg(&source)
            .arg("-cf")
            .arg(self.folder.join("tree.tar"))
            .arg(".");
        child::run(tar, &self.log(), |_| {})?;
        // And lost+found.
        let files = u64::from(self.plan.files) + folders + 1;
        let mut outcome = Outcome::default();
        let (rounds, sides) = (self.plan.rounds, self.sides);
        for round in 0..rounds {
            (self.progress)(&format!("round {} of {rounds}", round + 1));
            for turn in 0..sides.len() {
                if self.interrupted.load(Ordering::Relaxed) {
                    outcome.failures.push("interrupted".to_owned());
                    return Ok(outcome);
                }
                let side = sides[(turn + round) % sides.len()];
                match self.measure_side(side, files) {
                    Ok(seconds) => outcome.samples.push(Sample { side, seconds }),
                    Err(error) => outcome.failures.push(format!("{}: {error:#}", side.name())),
                }
            }
        }
        Ok(outcome)
    }

    /// Returns the time of a command, in seconds, and checks the image that it makes, which must contain `files` files.
    fn measure_side(&self, side: Side, files: u64) -> Result<f64> {
        let image = self.folder.join("x.img");
        if image.exists() {
            fs::remove_file(&image)?;
        }
        let seconds = child::run(self.command(side, &image)?, &self.log(), |_| {})?;
        if side != Side::Copy {
            e2fsprogs::check(&image)?;
            let fs = larder::open(&image)?;
            let mut found = 0;
            for entry in fs.walk("/")? {
                entry?;
                found += 1;
            }
            ensure!(found == files, "the image has {found} files, not {files}");
        }
        fs::remove_file(&image)?;
        Ok(seconds)
    }

    fn command(&self, side: Side, image: &Path) -> Result<Command> {
        let fixed = format!("{}M", self.plan.image_mib());
        let (source, archive) = (self.folder.join("tree"), self.folder.join("tree.tar"));
        let larder = |from: &Path, size: &str| {
            let program = self.programs.larder.as_ref();
            let program = program.context("the larder binary was not found; build it")?;
            let mut command = Command::new(program);
            command.arg("create").arg(image).args(["--size", size]);
            command.arg("--from").arg(from);
            command.env_remove("SOURCE_DATE_EPOCH");
            Ok::<_, anyhow::Error>(command)
        };
        Ok(match side {
            Side::Archive => larder(&archive, &fixed)?,
            Side::FixedTime => {
                let mut command = larder(&archive, &fixed)?;
                command.env("SOURCE_DATE_EPOCH", "1700000000");
                command
            }
            Side::Directory => larder(&source, &fixed)?,
            Side::Fitting => larder(&source, "auto")?,
            Side::Mke2fs => {
                let mut command = Command::new(child::find("mke2fs")?);
                command.args(["-q", "-t", "ext4", "-d"]);
                command.arg(&source).arg(image).arg(fixed);
                command
            }
            Side::Copy => {
                let mut command = Command::new("sh");
                command.args(["-c", "cat \"$1\" > \"$2\" && sync \"$2\"", "sh"]);
                command.arg(&archive).arg(image);
                command
            }
        })
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }
}
