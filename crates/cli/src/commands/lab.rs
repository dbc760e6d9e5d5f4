//! The command `larder lab`: runs the separate program larder-lab, as git runs some of its subcommands.

use crate::programs;
use larder_console::Result;
use std::ffi::OsString;
use std::process::ExitCode;

/// The name of the subcommand.
pub(crate) const NAME: &str = "lab";

const PROGRAM: &str = "larder-lab";

/// Replaces this process by larder-lab.
pub(crate) fn run(args: &[OsString]) -> Result<ExitCode> {
    let args = [&[OsString::from(PROGRAM)], args].concat();
    programs::replace_by(PROGRAM, &args, "larder lab")
}
