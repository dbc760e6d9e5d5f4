//! Space that is preallocated for files that grow.
//!
//! # Model
//! ext4's preallocation for an inode: the clusters that a file will probably need next are held for
//! it, in memory only. Therefore files that grow at the same time are not fragmented. These
//! clusters are released when the file is closed or deleted, when space is preallocated for too many
//! files, or when an allocation finds no other space.

use super::run::Run;
use crate::Ino;
use std::collections::{HashMap, VecDeque};

/// The maximum number of files for which space is preallocated.
const WINDOWS_MAX: usize = 256;

/// The preallocated space, by inode.
#[derive(Debug, Default)]
pub(super) struct Windows {
    runs: HashMap<Ino, Run>,
    /// The inodes in the order in which space was preallocated for them.
    order: VecDeque<Ino>,
}

impl Windows {
    /// Records that `run` is preallocated for `ino`. Returns the run that the caller must release, if any: the
    /// previous run of `ino` or, if there are too many runs, the oldest one.
    pub(super) fn set(&mut self, ino: Ino, run: Run) -> Option<Run> {
        let before = self.runs.insert(ino, run);
        if before.is_none() {
            self.order.push_back(ino);
        }
        if before.is_some() || self.order.len() <= WINDOWS_MAX {
            return before;
        }
        self.order
            .pop_front()
            .and_then(|ino| self.runs.remove(&ino))
    }

    /// Removes and returns at most `want` clusters of the space preallocated for `ino`, if that
    /// space starts at `start`.
    pub(super) fn take(&mut self, ino: Ino, start: u64, want: u32) -> Option<Run> {
        let window = self.runs.get_mut(&ino).filter(|run| run.start == start)?;
        let len = window.len.min(want);
        let taken = Run { start, len };
        if len < window.len {
            window.start += u64::from(len);
            window.len -= len;
        } else {
            self.runs.remove(&ino);
            self.order.retain(|&other| other != ino);
        }
        Some(taken)
    }

    /// Removes and returns the space preallocated for `ino`.
    pub(super) fn remove(&mut self, ino: Ino) -> Option<Run> {
        let run = self.runs.remove(&ino)?;
        self.order.retain(|&other| other != ino);
        Some(run)
    }

    /// Removes and returns all preallocated space.
    pub(super) fn remove_all(&mut self) -> Vec<Run> {
        self.order.clear();
        self.runs.drain().map(|(_, run)| run).collect()
    }
}
