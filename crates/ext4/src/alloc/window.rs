//! Space that is set aside for files that grow.
//!
//! # Model
//! ext4's preallocation for an inode: what a file will probably want next is kept from
//! others, in memory only, so that files that grow at the same time stay in few pieces. Given up
//! when the file is closed or deleted, when there are too many, or when space is short.

use super::run::Run;
use crate::Ino;
use std::collections::{HashMap, VecDeque};

/// Files with space set aside, at most.
const WINDOWS_MAX: usize = 256;

/// The space set aside, by inode.
#[derive(Debug, Default)]
pub(super) struct Windows {
    runs: HashMap<Ino, Run>,
    /// The inodes in the order in which they were set aside; some may have none any more.
    order: VecDeque<Ino>,
}

impl Windows {
    /// Sets `run` aside for `ino`. Returns what is to be released for it.
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

    /// Takes the first `want` clusters of what is set aside for `ino`, if they start at `start`.
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

    /// Gives up what is set aside for `ino`.
    pub(super) fn remove(&mut self, ino: Ino) -> Option<Run> {
        let run = self.runs.remove(&ino)?;
        self.order.retain(|&other| other != ino);
        Some(run)
    }

    /// Gives up all.
    pub(super) fn remove_all(&mut self) -> Vec<Run> {
        self.order.clear();
        self.runs.drain().map(|(_, run)| run).collect()
    }
}
