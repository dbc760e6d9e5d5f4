//! The command `larder lab record`: records the accesses to the kernel's caches, or the keys of another table,
//! in a trace.

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
