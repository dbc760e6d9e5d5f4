//! Programs that are part of larder, but are separate so that larder stays small.

use larder_console::{Failure, Result};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Replaces this process by `program`, which is searched for in the directory of this program, and then in PATH. The
/// first of `args` is the name by which the program is called. If the program is not found, the error message begins
/// with `purpose`, which says what needs the program.
pub(crate) fn replace_by(program: &str, args: &[OsString], purpose: &str) -> Result<ExitCode> {
    // Without /proc, the path of this program is unknown.
    let beside = std::env::current_exe().map(|path| path.with_file_name(program));
    for path in beside.into_iter().chain([PathBuf::from(program)]) {
        let mut command = Command::new(&path);
        if let Some((name, args)) = args.split_first() {
            command.arg0(name).args(args);
        }
        let error = command.exec();
        if error.kind() != ErrorKind::NotFound {
            return Err(Failure::new(format!(
                "cannot run {}: {error}",
                path.display()
            )));
        }
    }
    Err(Failure::with_hint(
        format!(
            "{purpose} needs the program {program}, which was not found beside larder or in PATH"
        ),
        format!(
            "install {program}, or add its directory to PATH; make install installs all programs"
        ),
    ))
}
