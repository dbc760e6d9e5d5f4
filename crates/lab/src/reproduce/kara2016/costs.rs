//! The costs of the simulated machine and file system.

use serde::Serialize;

use crate::contention::record::FileSystemWork;
use crate::contention::{JournalSize, Prices};

/// The number of blocks of a transaction: a quarter of a journal of 16,384 blocks, which mke2fs creates by default
/// on a device of 2 to 16 GB.
const TRANSACTION_BLOCKS: usize = 4096;

/// The costs of the simulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Costs {
    pub prices: Prices,
    pub work: FileSystemWork,
    pub journal: JournalSize,
}

impl Costs {
    /// The costs from which the search starts.
    ///
    /// For a line that another processor used last, T. David, R. Guerraoui and V. Trigonakis,
    /// "Everything you always wanted to know about synchronization", SOSP 2013, measure about 110
    /// cycles within one socket and 290 between sockets, on machines like the letter's (2 GHz): 50 to
    /// 140 ns. The costs of waking a process and of switching to it have the order of magnitude that
    /// lmbench reports for Linux of that time. These costs are not fitted.
    ///
    /// According to the letter's table, a set with `off` and one process takes 2.9 microseconds. It is assumed that
    /// an entry is held for a third of this time. With F=1000 files for each process and many processes, a set
    /// takes about 5 microseconds and changes about one block.
    pub const START: Self = Self {
        prices: Prices {
            own_ns: 5,
            transfer_ns: 100,
            waiter_ns: 20,
            wake_ns: 500,
            switch_ns: 3000,
        },
        work: FileSystemWork {
            before_ns: 1900,
            held_ns: 950,
            shared_lines: 4,
        },
        journal: JournalSize {
            limit_blocks: TRANSACTION_BLOCKS,
            block_ns: 5000,
        },
    };

    /// The costs that the search of [`super::fit`] found on 24 November 2026, with
    /// `cargo test -p larder-lab --lib kara2016::fit -- --ignored --nocapture`.
    pub const FITTED: Self = Self {
        prices: Prices {
            waiter_ns: 47,
            ..Self::START.prices
        },
        work: FileSystemWork {
            shared_lines: 7,
            ..Self::START.work
        },
        journal: JournalSize {
            block_ns: 4808,
            ..Self::START.journal
        },
    };
}
