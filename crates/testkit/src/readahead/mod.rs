//! The kernel's readahead as an oracle: the windows that Linux chooses for a pattern of reads.
//!
//! A [`Pattern`] is a list of reads, faults and advice on one file. The [`Recorder`] runs it on the
//! kernel's own ext4, and records from a private trace instance which windows the kernel chose and which
//! pages it inserted. [`Golden`] is the text that stores both, so that a replay needs neither root nor
//! this kernel.
//!
//! | file | what |
//! |---|---|
//! | `pattern` | the operations on a file |
//! | `groups/` | the table of patterns that is recorded |
//! | `trace` | the tracepoints, in an instance of their own |
//! | `queue` | the limits of the device |
//! | `mapping` | page faults |
//! | `recorder` | runs a pattern and collects what the kernel did |
//! | `outcome` | what the kernel did |
//! | `golden` | patterns and outcomes as text |

mod golden;
pub mod groups;
mod mapping;
mod outcome;
mod pattern;
mod queue;
mod recorder;
mod trace;

pub use golden::{Folios, Golden, GoldenError};
pub use outcome::{FolioRun, KernelWindow, Outcome};
pub use pattern::{Action, Content, Operation, PAGE_BYTES, Pattern};
pub use recorder::Recorder;

use crate::Requirement;

/// Returns the reason why this machine cannot record, if there is one.
#[must_use]
pub fn missing() -> Option<String> {
    [Requirement::LoopMount, Requirement::Tool("mke2fs")]
        .into_iter()
        .find_map(Requirement::missing)
        .or_else(trace::missing)
}
