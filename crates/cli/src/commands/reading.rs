//! Functions that are shared by the commands that list files of an image.

use super::operands::Operands;
use crate::args::FilesArgs;
use crate::opening::open_image;
use larder::{FileKind, Fs, Metadata, Place};
use larder_console::{Failure, Result};
use std::cell::Cell;
use std::ffi::OsString;
use std::process::ExitCode;

/// The exit code if a file below a path of the command line cannot be read.
const PART_FAILED: u8 = 1;

/// Opens the image of a command. Returns it with the paths of the command line.
pub(super) fn open(files: &FilesArgs) -> Result<(Fs, Vec<OsString>)> {
    let Operands { source, paths } = Operands::new(&files.source, &files.paths, Some("/"))?;
    Ok((Fs::new(open_image(&source)?), paths))
}

/// The failures after which a command continues. Each is printed at once.
#[derive(Debug)]
pub(super) struct Failures {
    /// The exit code if a path of the command line fails.
    path_failed: u8,
    /// The largest exit code of all failures.
    code: Cell<u8>,
}

impl Failures {
    pub(super) fn new(path_failed: u8) -> Self {
        Self {
            path_failed,
            code: Cell::new(0),
        }
    }

    /// Prints a failure of a file below a path of the command line.
    pub(super) fn report(&self, failure: &Failure) {
        self.print(failure, PART_FAILED);
    }

    /// Prints a failure of a path of the command line.
    pub(super) fn report_path(&self, failure: &Failure) {
        self.print(failure, self.path_failed);
    }

    fn print(&self, failure: &Failure, code: u8) {
        failure.print(code);
        self.code.set(self.code.get().max(code));
    }

    /// Returns the exit code of the command.
    pub(super) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code.get())
    }
}

/// Fails if a directory records the type `recorded` for a file that has another type. Such damage hides the files below a
/// directory.
pub(super) fn check_kind(recorded: Option<FileKind>, metadata: &Metadata) -> larder::Result<()> {
    if recorded.is_some_and(|kind| kind != metadata.kind) {
        let damage = Place::Inode(metadata.ino).corrupt("its directory records another file type");
        return Err(damage.into());
    }
    Ok(())
}

/// Returns the space that is allocated to a file, as stat(2) reports it.
pub(super) fn allocated_bytes(metadata: &Metadata) -> u64 {
    metadata.blocks_512.saturating_mul(512)
}
