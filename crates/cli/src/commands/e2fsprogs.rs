//! The programs of e2fsprogs that make, check and shrink images.

use super::unfinished;
use larder::{OpenOptions, Volume};
use larder_block::programs;
use larder_console::{Failure, Result, name};
use larder_image::quoted;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::NamedTempFile;

/// The programs of e2fsprogs that check and shrink an image.
#[derive(Debug)]
pub(super) struct Tools {
    e2fsck: PathBuf,
    resize2fs: PathBuf,
    /// The time that the programs record instead of the present time, in seconds since 1970.
    time: Option<i64>,
}

impl Tools {
    /// Finds the programs for the command `larder COMMAND`.
    pub(super) fn find(command: &str, time: Option<i64>) -> Result<Self> {
        Ok(Self {
            e2fsck: find_program("e2fsck", command)?,
            resize2fs: find_program("resize2fs", command)?,
            time,
        })
    }

    /// Fails if e2fsck has to repair anything in the copy of `image`. What it updates in each file system does not
    /// count.
    pub(super) fn check(&self, copy: &NamedTempFile, image: &Path) -> Result<()> {
        let output = run_program(&self.e2fsck, &["-f", "-p"], copy.path(), None, self.time)?;
        if output.status.success() {
            return Ok(());
        }
        let found = format!("has errors: {}", messages(&output, copy.path(), image));
        Err(not_clean(image, &found))
    }

    /// Shrinks the file system in the copy of `image` to a number of `blocks`, or as far as possible.
    pub(super) fn shrink(
        &self,
        copy: &NamedTempFile,
        image: &Path,
        blocks: Option<u64>,
    ) -> Result<()> {
        let (options, size): (&[&str], _) = match blocks {
            Some(blocks) => (&[], Some(blocks.to_string())),
            None => (&["-M"], None),
        };
        let output = run_program(
            &self.resize2fs,
            options,
            copy.path(),
            size.as_deref(),
            self.time,
        )?;
        if output.status.success() {
            return Ok(());
        }
        let message = format!(
            "resize2fs cannot shrink {}: {}",
            image.display(),
            messages(&output, copy.path(), image)
        );
        Err(match blocks {
            Some(_) => Failure::with_hint(message, "omit --size for the smallest image"),
            None => Failure::new(message),
        })
    }
}

/// Truncates `copy` to the size of its file system, which is returned.
pub(super) fn truncate(copy: &NamedTempFile) -> Result<u64> {
    let volume = Volume::open(copy.path(), &OpenOptions::new())
        .map_err(|error| Failure::new(format!("{}: {error}", copy.path().display())))?;
    let info = volume.info();
    let new_bytes = info.blocks.saturating_mul(info.block_size_bytes.into());
    if new_bytes < copy.as_file().metadata()?.len() {
        copy.as_file().set_len(new_bytes)?;
    }
    Ok(new_bytes)
}

/// Returns the failure for an image that must be repaired first, because it `why`.
pub(super) fn not_clean(image: &Path, why: &str) -> Failure {
    let path = image.display();
    Failure::with_hint(
        format!("the file system in {path} {why}"),
        format!("repair it first: e2fsck -f {}", quoted(&path.to_string())),
    )
}

/// Returns the path of a program of e2fsprogs that the command `larder COMMAND` needs.
pub(super) fn find_program(program: &str, command: &str) -> Result<PathBuf> {
    programs::find(program).ok_or_else(|| {
        Failure::with_hint(
            format!("larder {command} needs the program {program}, which was not found"),
            "install the package e2fsprogs",
        )
    })
}

/// Runs `program` on the file at `path`. `last` is the last argument. The program records `time`, in seconds since 1970,
/// instead of the present time.
pub(super) fn run_program(
    program: &Path,
    options: &[&str],
    path: &Path,
    last: Option<&str>,
    time: Option<i64>,
) -> Result<Output> {
    // The libraries before e2fsprogs 1.47.1 ignore the time 0.
    let time = time.map(|time| time.max(1).to_string());
    let variables = ["SOURCE_DATE_EPOCH", "E2FSPROGS_FAKE_TIME", "E2FSCK_TIME"];
    Command::new(program)
        .envs(
            time.iter()
                .flat_map(|time| variables.map(|variable| (variable, time))),
        )
        .current_dir(unfinished::directory(path))
        .args(options)
        .arg(local(path))
        .args(last.map(OsStr::new))
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::new(format!("cannot run {}: {error}", program.display())))
}

/// Returns the path of a file relative to its directory. The programs treat a question mark in a path as the beginning
/// of options, and the path of the directory can contain one.
fn local(path: &Path) -> PathBuf {
    Path::new(".").join(path.file_name().unwrap_or_default())
}

/// Returns what a program has printed about the copy of `image` at `path`, in one line.
pub(super) fn messages(output: &Output, path: &Path, image: &Path) -> String {
    let text = [&*output.stdout, &*output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let text = text.replace(&*local(path).to_string_lossy(), &image.to_string_lossy());
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.collect::<Vec<_>>().join("; ");
    name::escaped(line.as_bytes())
}
