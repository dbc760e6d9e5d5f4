//! The kernel's readahead as an oracle: what windows Linux chose for a pattern of reads.
//!
//! A [`Pattern`] is a list of reads, faults and advice on one file. The [`Recorder`] runs it on
//! the kernel's own ext4 and reads from a private trace instance which windows the kernel chose
//! and which pages it brought in. [`Golden`] is the text that keeps both, so that a replay needs
//! neither root nor this kernel.
//!
//! | file | what |
//! |---|---|
//! | `pattern` | what is done to a file |
//! | `groups/` | the table of patterns that is recorded |
//! | `trace` | the tracepoints, in an instance of their own |
//! | `queue` | the limits of the device |
//! | `mapping` | page faults |
//! | `recorder` | runs a pattern and collects what the kernel did |
//! | `outcome` | that |
//! | `golden` | patterns and outcomes as text |

mod golden;
pub mod groups;
mod mapping;
mod outcome;
mod pattern;
mod queue;
mod recorder;
mod trace;

pub use golden::{Golden, GoldenError};
pub use outcome::{FolioRun, KernelWindow, Outcome};
pub use pattern::{Action, Content, Operation, PAGE_BYTES, Pattern};
pub use recorder::{Folios, Recorder};

use crate::Requirement;

/// Why nothing can be recorded on this machine, if so.
#[must_use]
pub fn missing() -> Option<String> {
    [Requirement::LoopMount, Requirement::Tool("mke2fs")]
        .into_iter()
        .find_map(Requirement::missing)
        .or_else(trace::missing)
}
