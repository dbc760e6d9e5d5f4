//! The two pipes between the launcher and the init.
//!
//! Each message is one byte. The server only passes the pipes on to the init. A process that inherits a pipe opens it
//! again by its number, because a descriptor cannot be made from a number without `unsafe`.

use super::Failed;
use larder_console::Result;
use rustix::io::{FdFlags, fcntl_setfd};
use std::fmt::{self, Display, Formatter};
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsRawFd, RawFd};
use std::str::FromStr;

/// The note that the command has started. All other notes say that the command has stopped.
pub(super) const STARTED: u8 = 0;
/// The note that a signal has stopped the command.
pub(super) const STOPPED: u8 = 1;

/// The numbers of the inherited descriptors of the pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Signals for the command. The end of this pipe says that the launcher has ended.
    signals: RawFd,
    /// Notes for the launcher.
    notes: RawFd,
}

/// The ends of the pipes that the launcher uses.
#[derive(Debug)]
pub(super) struct Ends {
    pub signals: PipeWriter,
    pub notes: PipeReader,
}

/// The ends of the pipes that the child processes of the launcher inherit.
#[derive(Debug)]
pub(super) struct Inherited {
    signals: PipeReader,
    notes: PipeWriter,
}

/// Creates the pipes.
pub(super) fn create() -> io::Result<(Ends, Inherited)> {
    let (inherited_signals, signals) = io::pipe()?;
    let (notes, inherited_notes) = io::pipe()?;
    fcntl_setfd(&inherited_signals, FdFlags::empty())?;
    fcntl_setfd(&inherited_notes, FdFlags::empty())?;
    let ends = Ends { signals, notes };
    let inherited = Inherited {
        signals: inherited_signals,
        notes: inherited_notes,
    };
    Ok((ends, inherited))
}

impl Inherited {
    /// Returns the numbers of the descriptors.
    pub(super) fn link(&self) -> Link {
        Link {
            signals: self.signals.as_raw_fd(),
            notes: self.notes.as_raw_fd(),
        }
    }
}

impl Link {
    /// Opens the pipe with the signals.
    pub(super) fn signals(self) -> Result<File> {
        open(self.signals, File::options().read(true))
    }

    /// Opens the pipe for notes.
    pub(super) fn notes(self) -> Result<File> {
        open(self.notes, File::options().write(true))
    }
}

fn open(number: RawFd, options: &OpenOptions) -> Result<File> {
    let opened = options.open(format!("/proc/self/fd/{number}"));
    opened.failed("cannot open a pipe of larder run")
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
