//! The command `larder`, also installed as `mount.larder`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    larder_cli::run(std::env::args_os())
}
