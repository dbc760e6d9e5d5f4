//! The command `larder lab record`: writes a trace of the kernel's cache accesses, or of the existing processes, users
//! or memory areas.

mod args;
mod failure;
mod kernel;
mod keys;
mod stop;

pub(crate) use args::RecordArgs;
use larder_console::Result;
use std::process::ExitCode;
pub(super) use stop::exit_code;

pub(super) fn run(args: &RecordArgs) -> Result<ExitCode> {
    match args.keys {
        Some(table) => keys::run(args, table),
        None => kernel::run(args),
    }
}
