//! The subcommands, one module each.

mod cache;
mod cat;
mod compare;
mod copy;
mod create;
mod df;
pub(crate) mod diff;
mod du;
mod e2fsprogs;
mod expand;
mod export;
mod find;
pub(crate) mod fuse2fs;
mod info;
pub(crate) mod lab;
mod ls;
mod mkdir;
pub(crate) mod mount;
mod mv;
mod operands;
mod overlay;
mod profile;
mod put;
mod reading;
mod rm;
pub(crate) mod run;
mod shrink;
mod stat;
mod stats;
mod tar_attributes;
mod tar_header;
mod top;
mod tree;
mod tree_bytes;
mod umount;
mod unfinished;
mod unnamed;

use crate::args::Command;
use crate::remote;
use larder_console::{Result, logging};
use std::process::ExitCode;

/// Runs one subcommand.
pub(crate) fn run(command: Command) -> Result<ExitCode> {
    // The commands that mount, and larder-lab, configure their logs themselves.
    if !matches!(
        command,
        Command::Mount(_) | Command::Fuse2fs(_) | Command::Lab(_)
    ) {
        logging::start(None)?;
    }
    let code = match command {
        Command::Mount(args) => mount::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Fuse2fs(args) => fuse2fs::run(&args),
        Command::Lab(args) => lab::run(&args.args),
        Command::Umount(args) => umount::run(&args),
        Command::Ls(args) => ls::run(&args),
        Command::Find(args) => find::run(&args),
        Command::Tree(args) => tree::run(&args),
        Command::Du(args) => du::run(&args),
        Command::Df(args) => df::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Overlay(args) => overlay::run(&args),
        Command::Cache(args) => cache::run(&args),
        Command::Profile(args) => profile::run(&args),
        Command::Stat(args) => stat::run(&args),
        Command::Cat(args) => cat::run(&args),
        Command::Cp(args) => copy::run(&args),
        Command::Put(args) => put::run(&args),
        Command::Mkdir(args) => mkdir::run(&args),
        Command::Rm(args) => rm::run(&args),
        Command::Mv(args) => mv::run(&args),
        Command::Info(args) => info::run(&args),
        Command::Create(args) => create::run(&args),
        Command::Shrink(args) => shrink::run(&args),
        Command::Stats(args) => stats::run(&args),
        Command::Top(args) => top::run(&args),
    }?;
    if code == ExitCode::SUCCESS {
        // A mount has written its profile already.
        remote::finish_profile()?;
    }
    Ok(code)
}
