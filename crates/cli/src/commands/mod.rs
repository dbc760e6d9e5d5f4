//! The subcommands, one module each.

mod cat;
mod copy;
mod info;
mod lab;
mod ls;
pub(crate) mod mount;
mod stat;
mod stats;
mod umount;

use crate::args::{Command, VolumeArgs};
use crate::failure::{self, Result};
use crate::{logging, mount_options};
use larder::Volume;
use std::path::Path;
use std::process::ExitCode;

/// Runs one subcommand.
pub(crate) fn run(command: Command) -> Result<ExitCode> {
    if let Command::Mount(args) = command {
        return mount::run(&args);
    }
    logging::start(None)?;
    match command {
        Command::Mount(_) => Ok(ExitCode::SUCCESS),
        Command::Umount(args) => umount::run(&args),
        Command::Ls(args) => ls::run(&args),
        Command::Stat(args) => stat::run(&args),
        Command::Cat(args) => cat::run(&args),
        Command::Cp(args) => copy::run(&args),
        Command::Info(args) => info::run(&args),
        Command::Stats(args) => stats::run(&args),
        Command::Lab(args) => lab::run(&args),
    }
}

/// Opens an image for the commands that do not mount.
fn open(image: &Path, args: &VolumeArgs) -> Result<Volume> {
    Volume::open(image, &mount_options::open_options(args))
        .map_err(|error| failure::of_image(image, &error))
}
