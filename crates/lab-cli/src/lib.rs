//! The command `larder-lab`, which `larder lab` runs: only arguments and output.
//!
//! The crate is a library, so that manual pages and shell completions are generated from
//! [`command`], the definition that also parses the arguments. Exit codes and failures are those of
//! `larder`.

#![forbid(unsafe_code)]

mod commands;
mod options;

use clap::{CommandFactory, Parser};
use commands::xattr_bench;
use larder_console::complete::{self, Request};
use larder_console::{Failure, print_usage};
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// Returns the definition of the command line, for manual pages and completions.
#[must_use]
pub fn command() -> clap::Command {
    commands::Cli::command()
}

/// Runs the command with `args`, which start with the program's name.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    if let [_, first, job] = &*args
        && first == xattr_bench::WORKER
    {
        return xattr_bench::work(job);
    }
    if let Some(request) = complete::request(&args) {
        return answer(request);
    }
    if args.get(1).is_some_and(|command| command == "tune") {
        let (message, hint) = (
            "unknown command `tune`",
            "`larder lab tune` is now `larder lab advise`",
        );
        return Failure::usage_with_hint(message, hint).print(2);
    }
    match commands::Cli::try_parse_from(args) {
        Ok(cli) => commands::run(&cli.command).unwrap_or_else(|failure| failure.print(1)),
        Err(error) => print_usage(&error, 2),
    }
}

/// Answers a completion script. The words of the request begin with `larder-lab`, or with `larder lab`.
fn answer(request: &[OsString]) -> ExitCode {
    if let Some(request) = Request::parse(request) {
        let words = match request.words() {
            [_, words @ ..] if matches!(words, [name, _, ..] if name == "lab") => words,
            words => words,
        };
        let answer = request.answer(command(), words, |_| None);
        // If the shell no longer waits for the answer, nothing is to be done.
        let _ = io::stdout().write_all(&answer);
    }
    ExitCode::SUCCESS
}
