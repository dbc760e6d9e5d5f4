//! The command `larder overlay`: shows, applies or removes the changes in an overlay.

mod commit;
mod diff;
mod discard;

use crate::args::{OverlayArgs, OverlayCommand};
use larder_console::Result;
use std::process::ExitCode;

pub(super) fn run(args: &OverlayArgs) -> Result<ExitCode> {
    match &args.command {
        OverlayCommand::Diff(args) => diff::run(args)?,
        OverlayCommand::Commit(args) => commit::run(args)?,
        OverlayCommand::Discard(args) => discard::run(args)?,
    }
    Ok(ExitCode::SUCCESS)
}
