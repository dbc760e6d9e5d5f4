//! The command `larder lab`: runs the separate program larder-lab, as git runs some of its subcommands.

use larder_console::{Failure, Result};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// The name of the subcommand.
pub(crate) const NAME: &str = "lab";

const PROGRAM: &str = "larder-lab";

/// Replaces this process by larder-lab. Searches for larder-lab in the directory of this program, and
/// then in PATH.
pub(crate) fn run(args: &[OsString]) -> Result<ExitCode> {
    let beside = std::env::current_exe()?.with_file_name(PROGRAM);
    for program in [beside.as_os_str(), PROGRAM.as_ref()] {
        let error = Command::new(program).args(args).exec();
        if error.kind() != ErrorKind::NotFound {
            return Err(Failure::new(format!(
                "cannot run {}: {error}",
                program.display()
            )));
        }
    }
    Err(Failure::with_hint(
        "larder lab needs the program larder-lab, which was not found beside larder or in PATH",
        "install larder-lab, or add its directory to PATH; make install installs both programs",
    ))
}
