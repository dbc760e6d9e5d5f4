//! Completion of the command line of `larder`: options and their values, mount options, and paths inside images.
//! Images at URLs are not opened.
//!
//! The image can be damaged or hostile, and its storage can be slow. Therefore there is no completion if the answer
//! takes longer than [`TIME_LIMIT`], and the names in the image are only printed.

mod mount_options;
mod paths;

use crate::args::Cli;
use crate::commands::lab;
use clap::CommandFactory;
use larder_console::complete::{COMMAND, Completion, Cursor, Request};
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The time after which a completion is given up.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// Answers a completion script, whose request is `args`.
pub(crate) fn run(args: &[OsString]) -> ExitCode {
    let Some(request) = Request::parse(args) else {
        return ExitCode::SUCCESS;
    };
    if let [_, command, _, ..] = request.words()
        && command == lab::NAME
    {
        // If larder-lab is not installed, there is no completion.
        let _ = lab::run(&[&[OsString::from(COMMAND)], args].concat());
        return ExitCode::SUCCESS;
    }
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(request.answer(Cli::command(), request.words(), value)));
    if let Ok(answer) = receiver.recv_timeout(TIME_LIMIT) {
        // If the shell no longer waits for the answer, nothing is to be done.
        let _ = io::stdout().write_all(&answer);
    }
    ExitCode::SUCCESS
}

/// Returns the completion of a value that the definition of the command line does not describe.
fn value(cursor: &Cursor<'_>) -> Option<Completion> {
    match cursor.arg.get_id().as_str() {
        "options" => Some(mount_options::complete(cursor.text)),
        "path" | "paths" | "destination" | "old" | "new" => Some(paths::complete(cursor)),
        "image" if paths::follow_image(cursor.command) => Some(paths::complete(cursor)),
        _ => None,
    }
}
