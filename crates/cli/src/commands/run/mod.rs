//! The command `larder run`: mounts an image for one command.
//!
//! # Processes
//! Four processes run. Each is the parent of the following one:
//! 1. The launcher ([`launcher`]) is the process that the user starts. It passes signals on to the command, and stops
//!    when the command is stopped.
//! 2. The server ([`server`]) mounts the image in namespaces of its own, and serves the mount.
//! 3. The init ([`init`]) is the first process of a new PID namespace. It starts the command, and waits for it and for
//!    the processes that the command leaves.
//! 4. The command.
//!
//! The first three are larder, which starts itself again. The second argument says which of them a process is
//! ([`Stage`]). It is not an environment variable, because the command would inherit it. No process is killed by larder:
//! - If the launcher or the server ends in any way, the kernel kills the following process, which has requested this. A
//!   process whose parent has ended before the request finds the end of the pipe ([`link`]).
//! - If the init ends in any way, the kernel kills all processes in its PID namespace.
//! - The mount namespaces end with their last process, and the mount with them. It has no mount point elsewhere.
//!
//! # Signals and the terminal
//! All four processes are in the process group of the launcher, so the command can use the terminal, and the kernel sends
//! it the signals of the terminal, such as SIGINT for Ctrl-C. The launcher passes on only signals that were sent by a
//! process: such a signal may have been sent to the launcher alone. If it was sent to the whole process group, the command
//! gets it twice. The server suppresses signals. The init needs no handlers: the kernel never lets a signal from the
//! terminal end or stop the first process of a PID namespace.

mod init;
mod launcher;
mod link;
mod namespaces;
mod root;
mod server;
pub(super) mod signals;
mod terminal;

use crate::holder;
use larder_console::{Failure, Result};
use std::ffi::OsString;
use std::fmt::Display;

pub(crate) use init::run as init;
pub(crate) use launcher::launch;
pub(crate) use link::Link;
pub(super) use server::run;

/// The exit code if larder itself fails. env(1) and timeout(1) use the same.
pub(crate) const FAILED: u8 = 125;

/// The name of the subcommand.
pub(crate) const NAME: &str = "run";
/// The beginnings of the second argument of the server and of the init. The link follows.
const SERVER: &str = "run-server:";
const INIT: &str = "run-init:";

/// Which of the processes of `larder run` this one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Launcher,
    Server(Link),
    Init(Link),
}

impl Stage {
    /// Returns the stage of the process with `args`. Returns `None` if it does not belong to `larder run`.
    pub(crate) fn of(args: &[OsString]) -> Option<Self> {
        let name = holder::subcommand(args)?.to_str()?;
        if name == NAME {
            return Some(Self::Launcher);
        }
        let link = |prefix| name.strip_prefix(prefix)?.parse().ok();
        link(SERVER)
            .map(Self::Server)
            .or_else(|| link(INIT).map(Self::Init))
    }
}

/// Returns those of `args` that are arguments of larder. The arguments after `--` in `larder run` belong to the command.
pub(crate) fn own_args(args: &[OsString]) -> &[OsString] {
    let end = args.iter().position(|arg| arg == "--");
    match end {
        Some(end) if Stage::of(args).is_some() => &args[..end],
        _ => args,
    }
}

/// Adds to an error what has failed.
trait Failed<T> {
    fn failed(self, what: impl Display) -> Result<T>;
}

impl<T, E: Display> Failed<T> for Result<T, E> {
    fn failed(self, what: impl Display) -> Result<T> {
        self.map_err(|error| Failure::new(format!("{what}: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn stage_is_in_the_second_argument_of_larder() {
        let stage = |words: &[&str]| Stage::of(&args(words));
        let link: Link = "5,8".parse().ok().unwrap();
        assert_eq!(link.to_string(), "5,8");
        assert_eq!(stage(&["larder", "run", "x"]), Some(Stage::Launcher));
        assert_eq!(
            stage(&["/bin/larder", "run-server:5,8"]),
            Some(Stage::Server(link))
        );
        assert_eq!(stage(&["larder", "run-init:5,8"]), Some(Stage::Init(link)));
        for words in [
            &["larder"] as &[&str],
            &["larder", "ls", "run"],
            &["larder", "run-server:"],
            &["larder", "run-init:5"],
            &["larder", "run-init:5,x"],
            &["fuse2fs", "run", "mnt"],
            &["/sbin/mount.larder", "run", "mnt"],
        ] {
            assert_eq!(stage(words), None, "{words:?}");
        }
    }

    #[test]
    fn arguments_of_the_command_are_not_those_of_larder() {
        let own = |words: &[&str]| own_args(&args(words)).len();
        assert_eq!(own(&["larder", "run", "x", "--", "curl", "http://h"]), 3);
        assert_eq!(own(&["larder", "ls", "--", "http://h"]), 4);
        assert_eq!(own(&["larder", "run", "x"]), 3);
    }
}
