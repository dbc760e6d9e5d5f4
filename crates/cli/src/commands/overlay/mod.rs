//! The command `larder overlay`: describes an overlay, and shows, applies or removes its changes.

mod commit;
mod diff;
mod discard;
mod info;

use crate::args::{OverlayArgs, OverlayCommand};
use larder_console::Result;
use std::process::ExitCode;

pub(super) fn run(args: &OverlayArgs) -> Result<ExitCode> {
    match &args.command {
        OverlayCommand::Info(args) => info::run(args)?,
        OverlayCommand::Diff(args) => return diff::run(args),
        OverlayCommand::Commit(args) => commit::run(args)?,
        OverlayCommand::Discard(args) => discard::run(args)?,
    }
    Ok(ExitCode::SUCCESS)
}
