//! The two pipes between the launcher and the init.
//!
//! Each message is one byte: a request to the init, or a note for the launcher. The server only passes the pipes on to the
//! init. A process that inherits a pipe opens it again by its number, because a descriptor cannot be made from a number
//! without `unsafe`.

use super::failed::Failed;
use crate::stage::Link;
use larder_console::Result;
use rustix::io::{FdFlags, fcntl_setfd};
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsRawFd, RawFd};

/// The request to report whether the command is stopped. The other requests are the numbers of signals for the command.
pub(super) const QUERY: u8 = 0;

/// The note that the command has started.
pub(super) const STARTED: u8 = 0;
/// The note that a signal has stopped the command. It may have been continued since.
pub(super) const STOPPED: u8 = 1;
/// The note that the command has ended.
pub(super) const ENDED: u8 = 2;
/// The answers to [`QUERY`].
pub(super) const IS_STOPPED: u8 = 3;
pub(super) const IS_RUNNING: u8 = 4;

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
    let inherited = Inherited {
        signals: inherited_signals,
        notes: inherited_notes,
    };
    Ok((Ends { signals, notes }, inherited))
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

/// Opens the inherited pipe with the signals.
pub(super) fn open_signals(link: Link) -> Result<File> {
    open(link.signals, File::options().read(true))
}

/// Opens the inherited pipe for notes.
pub(super) fn open_notes(link: Link) -> Result<File> {
    open(link.notes, File::options().write(true))
}

fn open(number: RawFd, options: &OpenOptions) -> Result<File> {
    let opened = options.open(format!("/proc/self/fd/{number}"));
    opened.failed("cannot open a pipe of larder run")
}
