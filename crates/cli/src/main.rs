//! The program `larder`, which is also installed under the name `mount.larder`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    larder_cli::run(std::env::args_os())
}
