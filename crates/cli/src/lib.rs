//! The command `larder`: arguments and output, nothing else.
//!
//! The command is a library, so that the manual pages and the shell completions are generated from
//! [`command`], the same definition that parses the arguments.
//!
//! The exit code is 0 for success, 1 for failure, and 2 for invalid arguments. `larder diff` has the exit codes of
//! diff(1). `larder run` has the exit code of its command, or 125 for its own failures. If the program is called as `mount.larder` or as `fuse2fs`, it uses
//! the exit codes of mount(8): 1 for invalid arguments, and 32 for a failed mount. A failure prints a line that begins with `error:` to standard error. If the user can do
//! something about the failure, a line that begins with `hint:` follows. If the reader of the output closes
//! the pipe early, the command succeeds.

#![forbid(unsafe_code)]

mod args;
mod background;
mod commands;
mod complete;
mod contents;
mod criteria;
mod failure;
mod holder;
mod image_path;
mod json;
mod metrics;
mod mode;
mod mount_helper;
mod mount_options;
mod opening;
mod option_list;
mod overlay;
mod pattern;
mod programs;
mod progress;
mod recording;
mod remote;
mod reporting_clock;
mod signals;
mod stage;
mod threads;

use args::Command;
use clap::{CommandFactory, Parser};
use commands::lab;
use commands::run as run_command;
use larder_console::{Failure, print_usage};
use remote::Prepared;
use stage::Stage;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

/// Returns the definition of the command line, for manual pages and completions.
#[must_use]
pub fn command() -> clap::Command {
    args::Cli::command()
}

/// Returns the definition of the command line of `mount.larder`, for its manual page.
#[must_use]
pub fn mount_helper_command() -> clap::Command {
    mount_helper::HelperArgs::command()
}

pub use progress::{end_check, show_check};
pub use remote::{CachedImage, Pruned, RemoteArgs, RemoteFailure, RemoteImages, RemoteSettings};

/// Runs the command with `args`. The first argument is the program's name. Images at URLs are opened by the program
/// larder-remote.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    run_prepared(args, None)
}

/// Runs the command with `args`, and opens images at URLs with `images`.
pub fn run_with(
    args: impl IntoIterator<Item = OsString>,
    images: Box<dyn RemoteImages>,
) -> ExitCode {
    run_prepared(args, Some(images))
}

fn run_prepared(
    args: impl IntoIterator<Item = OsString>,
    images: Option<Box<dyn RemoteImages>>,
) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    // A URL on the command line that is completed must not be opened.
    if let Some(request) = larder_console::complete::request(&args) {
        return complete::run(request);
    }
    let stage = Stage::of(&args);
    let failed = failed_code(&args, stage);
    let done = match stage {
        Some(Stage::Launcher) => run_command::launch(&args),
        Some(Stage::Init(link)) => run_command::init(&args, link),
        Some(Stage::Server(_)) | None => match remote::prepare(args, images) {
            Ok(Prepared::Args(args)) => return run_local(args, stage, failed),
            Ok(Prepared::Ended(ended)) => ended,
            Err(failure) => Err(failure),
        },
    };
    done.unwrap_or_else(|failure| print(&failure, stage, failed))
}

/// Returns the exit code of failures other than invalid arguments. `stage` is that of this process, if it belongs to
/// `larder run`.
fn failed_code(args: &[OsString], stage: Option<Stage>) -> u8 {
    match (stage, holder::subcommand(args)) {
        (Some(_), _) => stage::FAILED,
        (None, Some(subcommand)) if subcommand == "diff" => commands::diff::TROUBLE,
        (None, _) => 1,
    }
}

/// Prints the failure, and returns the exit code: `failed`, unless the arguments are invalid. In `larder run`, to which
/// `stage` belongs, the code is `failed` for those, too.
fn print(failure: &Failure, stage: Option<Stage>, failed: u8) -> ExitCode {
    let code = failure.print(failed);
    stage.map_or(code, |_| ExitCode::from(failed))
}

fn run_local(mut args: Vec<OsString>, stage: Option<Stage>, failed: u8) -> ExitCode {
    let program = args.first().map(Path::new).and_then(Path::file_name);
    if program == Some(OsStr::new(holder::MOUNT_HELPER)) {
        return mount_helper::run(args);
    }
    if program == Some(OsStr::new(holder::FUSE2FS)) {
        return commands::fuse2fs::run_standalone(args);
    }
    // `larder help lab` is passed to larder-lab, which has its own help.
    let done = if let [_, help, name, rest @ ..] = &*args
        && help == "help"
        && name == lab::NAME
    {
        lab::run(&[std::slice::from_ref(help), rest].concat())
    } else {
        if let Some(Stage::Server(_)) = stage {
            args[1] = stage::NAME.into();
        }
        let is_find =
            stage.is_none() && holder::subcommand(&args).is_some_and(|name| name == "find");
        let wrong = is_find
            .then(|| args::FindArgs::single_hyphen(&args))
            .flatten();
        match args::Cli::try_parse_from(args) {
            Ok(mut cli) => {
                if let (Command::Run(args), Some(Stage::Server(link))) = (&mut cli.command, stage) {
                    args.link = Some(link);
                }
                commands::run(cli.command)
            }
            Err(error)
                if let Some(failure) = wrong
                    && error.use_stderr() =>
            {
                Err(failure)
            }
            Err(error) => return print_usage(&error, stage.map_or(2, |_| stage::FAILED)),
        }
    };
    done.unwrap_or_else(|failure| print(&failure, stage, failed))
}
