//! The command `larder lab record`: records in a trace the accesses to the kernel's caches, or which processes, users
//! or memory areas exist.

mod args;
mod failure;
mod kernel;
mod keys;
mod stop;

pub(crate) use args::RecordArgs;
use larder_console::Result;
use std::process::ExitCode;

pub(super) fn run(args: &RecordArgs) -> Result<ExitCode> {
    match args.keys {
        Some(table) => keys::run(args, table),
        None => kernel::run(args),
    }
}
