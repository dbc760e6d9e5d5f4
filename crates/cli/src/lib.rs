//! The command `larder`: arguments and output, nothing else.
//!
//! It is a library, so that the manual pages and the shell completions are generated from the
//! definition that also parses: [`command`].
//!
//! Exit codes: 0 for success, 1 for failure, 2 for invalid arguments. When called as `mount.larder` by
//! mount(8), those that mount(8) documents: 1 for invalid arguments, 32 for a failed mount. `fuse2fs`
//! uses the same codes. A failure prints a line `error:` and, if the user can do something about it, a
//! line `hint:` to standard error. A reader that closes the pipe early is not a failure.

#![forbid(unsafe_code)]

mod args;
mod background;
mod commands;
mod failure;
mod json;
mod metrics;
mod mode;
mod mount_helper;
mod mount_options;
mod opening;
mod recording;
mod reporting_clock;
mod threads;

use clap::{CommandFactory, Parser};
use commands::lab;
use larder_console::print_usage;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

/// The definition of the command line, for manual pages and completions.
#[must_use]
pub fn command() -> clap::Command {
    args::Cli::command()
}

/// Runs the command with `args`. The first argument is the program's name.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let program = args.first().map(Path::new).and_then(Path::file_name);
    if program == Some(OsStr::new(mount_helper::NAME)) {
        return mount_helper::run(args);
    }
    if program == Some(OsStr::new(commands::fuse2fs::NAME)) {
        return commands::fuse2fs::run_standalone(args);
    }
    // larder-lab prints the output of `larder help lab`.
    let done = if let [_, help, name, rest @ ..] = &*args
        && help == "help"
        && name == lab::NAME
    {
        lab::run(&[std::slice::from_ref(help), rest].concat())
    } else {
        match args::Cli::try_parse_from(args) {
            Ok(cli) => commands::run(cli.command),
            Err(error) => return print_usage(&error, 2),
        }
    };
    done.unwrap_or_else(|failure| failure.print(1))
}
