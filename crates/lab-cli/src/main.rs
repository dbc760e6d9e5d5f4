//! The command `larder-lab`, which `larder lab` runs.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    larder_lab_cli::run(std::env::args_os())
}
