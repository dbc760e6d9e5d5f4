//! Which of the processes of `larder run` a process is. See [`commands::run`](mod@crate::commands::run).

use crate::holder;
use std::ffi::OsString;
use std::fmt::{self, Display, Formatter};
use std::os::fd::RawFd;
use std::str::FromStr;

/// The name of the subcommand.
pub(crate) const NAME: &str = "run";
/// The beginnings of the second argument of the server and of the init. The link follows.
pub(crate) const SERVER: &str = "run-server:";
pub(crate) const INIT: &str = "run-init:";
/// The exit code if larder itself fails. env(1) and timeout(1) use the same.
pub(crate) const FAILED: u8 = 125;

/// Which of the processes of `larder run` this one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Launcher,
    Server(Link),
    Init(Link),
}

/// The numbers of the inherited descriptors of two pipes between the launcher and the init.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Signals for the command. When the other end of this pipe is closed, the launcher has ended.
    pub signals: RawFd,
    /// Notes for the launcher.
    pub notes: RawFd,
}

impl Stage {
    /// Returns the stage of the process with `args`. Returns `None` if it does not belong to `larder run`.
    pub(crate) fn of(args: &[OsString]) -> Option<Self> {
        let name = holder::subcommand(args)?.to_str()?;
        if name == NAME {
            return Some(Self::Launcher);
        }
        let link = |prefix: &str| name.strip_prefix(prefix)?.parse().ok();
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

impl Display for Link {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.signals, self.notes)
    }
}

/// The text does not consist of two numbers.
#[derive(Debug)]
pub(crate) struct NotALink;

impl FromStr for Link {
    type Err = NotALink;

    fn from_str(text: &str) -> Result<Self, NotALink> {
        let (signals, notes) = text.split_once(',').ok_or(NotALink)?;
        let number = |text: &str| text.parse().map_err(|_| NotALink);
        Ok(Self {
            signals: number(signals)?,
            notes: number(notes)?,
        })
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
        let link: Link = "5,8".parse().unwrap();
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
