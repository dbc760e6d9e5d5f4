//! Attempts: parts of a thread's work that do not wait for the device. [`crate::needs`] describes them.

use crate::error::Place;
use crate::{Error, FsBlock};
use larder_block::Waiting;
use std::cell::{Cell, RefCell};

thread_local! {
    /// Whether this thread makes an attempt.
    static IS_ACTIVE: Cell<bool> = const { Cell::new(false) };
    /// What the attempt of this thread knows and misses.
    static STATE: RefCell<State> = const { RefCell::new(State::new()) };
}

/// The state of an attempt.
#[derive(Debug)]
struct State {
    missing: Missing,
    /// Blocks that could not be read.
    unreadable: Vec<(FsBlock, larder_block::Error)>,
    excludes_discards: bool,
}

/// What an attempt needs but did not find.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    pub(crate) blocks: Vec<FsBlock>,
    /// A run of blocks that are worth reading together with the missing ones.
    pub(crate) ahead: Option<(FsBlock, u32)>,
    /// Whether it needs the end of a discard.
    pub(crate) discards: bool,
}

impl State {
    const fn new() -> Self {
        Self {
            missing: Missing {
                blocks: Vec::new(),
                ahead: None,
                discards: false,
            },
            unreadable: Vec::new(),
            excludes_discards: false,
        }
    }
}

/// Returns whether this thread makes an attempt, and so must not wait.
#[inline]
pub(crate) fn is_attempt() -> bool {
    IS_ACTIVE.get()
}

/// Returns the error for `block`, which is not in memory.
#[cold]
pub(crate) fn miss(block: FsBlock, place: Place) -> Error {
    STATE.with_borrow_mut(|state| {
        let unreadable = state.unreadable.iter().find(|(known, _)| *known == block);
        if let Some((_, error)) = unreadable {
            let source = error.again();
            return Error::Unreadable { place, source };
        }
        state.missing.blocks.push(block);
        Error::NotInMemory(block)
    })
}

/// Records that the next missing block is the start of, or in, a run of `count` blocks that should be
/// read together.
pub(crate) fn expect(block: FsBlock, count: u32) {
    STATE.with_borrow_mut(|state| state.missing.ahead = Some((block, count)));
}

/// Returns whether this thread makes an attempt that gives way, whatever it does.
pub(crate) fn gives_way() -> bool {
    is_attempt() && has_missed()
}

/// Returns whether the attempt of this thread, or the last one, missed anything, so that it gives way
/// whatever it does.
pub(crate) fn has_missed() -> bool {
    STATE.with_borrow(|state| !state.missing.blocks.is_empty() || state.missing.discards)
}

/// Returns whether no discard is active while this thread makes its attempt. If not, the attempt will
/// give way.
pub(crate) fn excludes_discards() -> bool {
    STATE.with_borrow_mut(|state| {
        state.missing.discards |= !state.excludes_discards;
        state.excludes_discards
    })
}

/// An attempt. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Attempt {
    _waiting: Waiting,
}

impl Attempt {
    /// Begins an attempt in which the blocks `unreadable` cannot be read.
    pub(crate) fn begin(
        unreadable: &[(FsBlock, larder_block::Error)],
        excludes_discards: bool,
    ) -> Self {
        debug_assert!(!is_attempt(), "a thread makes one attempt at a time");
        STATE.with_borrow_mut(|state| {
            let again = |(block, error): &(FsBlock, larder_block::Error)| (*block, error.again());
            state.missing = Missing::default();
            state.unreadable.clear();
            state.unreadable.extend(unreadable.iter().map(again));
            state.excludes_discards = excludes_discards;
        });
        IS_ACTIVE.set(true);
        Self {
            _waiting: Waiting::forbid(),
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        IS_ACTIVE.set(false);
    }
}

/// Returns what the last attempt of this thread, which has ended, was missing.
pub(crate) fn take_missing() -> Missing {
    debug_assert!(!is_attempt(), "the attempt has ended");
    STATE.with_borrow_mut(|state| std::mem::take(&mut state.missing))
}

/// A part of an attempt in which this thread may wait after all: the last actions after a failure.
/// The attempt continues when this is dropped.
#[derive(Debug)]
pub(crate) struct Suspended {
    was_active: bool,
    _waiting: Waiting,
}

impl Suspended {
    pub(crate) fn new() -> Self {
        Self {
            was_active: IS_ACTIVE.replace(false),
            _waiting: Waiting::allow(),
        }
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        IS_ACTIVE.set(self.was_active);
    }
}
