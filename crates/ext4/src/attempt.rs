//! The state of attempts, which run an operation without waiting for the device. An attempt that misses
//! something *gives way*: its changes are undone, its result is discarded, and the operation is repeated
//! after the missing blocks were read. [`crate::needs`] explains how attempts are used.
//!
//! Attempts are internal to this crate, which repeats the operation itself. A caller of this crate that must not
//! wait can run an operation in a *memory-only part* ([`MemoryOnly`]), as a FUSE server does with most requests.
//! If something is missing, the operation fails, and the caller repeats it outside such a part.

use crate::error::Place;
use crate::{Error, FsBlock};
use larder_block::Waiting;
use std::cell::{Cell, RefCell};

thread_local! {
    /// Whether an attempt of this thread is active.
    static IS_ACTIVE: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread is in a memory-only part, in which it must not wait.
    static IS_MEMORY_ONLY: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread missed a block, or would have waited, in its current or last memory-only part.
    static PART_HAS_MISSED: Cell<bool> = const { Cell::new(false) };
    /// The state of this thread's current or last attempt.
    static STATE: RefCell<State> = const { RefCell::new(State::new()) };
}

/// The state of an attempt.
#[derive(Debug)]
struct State {
    missing: Missing,
    /// Blocks that could not be read after an earlier attempt of the same operation.
    unreadable: Vec<(FsBlock, larder_block::Error)>,
    /// Whether discards of free space are prevented during the attempt.
    excludes_discards: bool,
}

/// What an attempt needed but did not find.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    pub(crate) blocks: Vec<FsBlock>,
    /// The first block and the length of a run of blocks to prefetch before the missing blocks are read.
    pub(crate) ahead: Option<(FsBlock, u32)>,
    /// Whether the attempt found no free space while discards were not excluded. Until a discard
    /// ends, the free space that it discards counts as allocated. Therefore the next attempt must exclude discards
    /// and search again.
    pub(crate) exclusion_of_discards: bool,
}

impl State {
    const fn new() -> Self {
        Self {
            missing: Missing {
                blocks: Vec::new(),
                ahead: None,
                exclusion_of_discards: false,
            },
            unreadable: Vec::new(),
            excludes_discards: false,
        }
    }
}

/// Returns whether an attempt of this thread is active. If so, the thread must not wait.
#[inline]
pub(crate) fn is_attempt() -> bool {
    IS_ACTIVE.get()
}

/// Records that `block` is not in memory, and returns [`Error::NotInMemory`]. If the block could not be read
/// after an earlier attempt, returns the device's error instead.
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

/// Records that the `count` blocks from `block` on should be prefetched if the attempt gives way. Replaces an
/// earlier record.
pub(crate) fn request_prefetch(block: FsBlock, count: u32) {
    STATE.with_borrow_mut(|state| state.missing.ahead = Some((block, count)));
}

/// Returns whether an attempt of this thread is active and has missed something. Such an attempt gives way,
/// even if it succeeded.
pub(crate) fn gives_way() -> bool {
    is_attempt() && has_missed()
}

/// Returns whether the active attempt of this thread has missed something. If no attempt is active, returns
/// whether the last attempt has missed something.
pub(crate) fn has_missed() -> bool {
    STATE.with_borrow(|state| {
        !state.missing.blocks.is_empty() || state.missing.exclusion_of_discards
    })
}

/// Must be called if the attempt of this thread finds no free space, after the preallocated runs were released.
/// Returns whether discards are excluded during the attempt. If they are, the caller can search the released space
/// at once. If they are not, records that the next attempt must exclude them, and the current attempt gives way.
pub(crate) fn require_no_discards() -> bool {
    STATE.with_borrow_mut(|state| {
        state.missing.exclusion_of_discards |= !state.excludes_discards;
        state.excludes_discards
    })
}

/// The active attempt of a thread. It ends when this guard is dropped.
#[derive(Debug)]
pub(crate) struct Attempt {
    _waiting: Waiting,
}

impl Attempt {
    /// Begins an attempt. Reads of the blocks in `unreadable` fail with the given errors.
    /// `excludes_discards` must be true if the caller prevents discards during the attempt.
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

/// Returns what the last attempt of this thread missed, and clears the record. The attempt must have ended.
pub(crate) fn take_missing() -> Missing {
    debug_assert!(!is_attempt(), "the attempt must have ended");
    STATE.with_borrow_mut(|state| std::mem::take(&mut state.missing))
}

/// A guard that suspends an attempt, so that this thread may wait for the device. It is used after a failure
/// that makes the file system read-only: the thread can still make one last write, which records the failure
/// in the image. The attempt continues when the guard is dropped.
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

/// A part of a thread's work in which an operation fails instead of waiting. A read of a metadata block that is
/// not in memory fails with [`Error::NotInMemory`]. Every other wait for a device, or for a lock whose holder
/// may wait for a device, fails with [`Error::WouldWait`].
///
/// Code that tolerates an unreadable block continues after such an error, so an operation can succeed
/// without a block that it needs. Therefore the caller must check whether the part
/// [has missed](MemoryOnly::has_missed) anything. If it has, the operation has changed nothing. The caller must
/// discard the result, and repeat the operation where it may wait.
///
/// The part ends when this guard is dropped, or with the first change that cannot be undone
/// ([`MemoryOnly::begin_change`]). There are two kinds of such changes: stopping a journal [handle](crate::Handle),
/// which adds its changes to the transaction, and modifying cached file content. After such a change, the operation
/// may wait. After a miss, the operation can make neither change. `Filesystem::change` runs the operation with an open
/// handle, and returns the handle, which the caller then stops. After a miss, `change` fails and drops the handle
/// instead. The drop undoes the changes made with the handle. Code that is about to modify cached content calls
/// `begin_change`, which fails after a miss.
#[derive(Debug)]
#[must_use = "the part ends when this is dropped"]
pub struct MemoryOnly {
    _waiting: Waiting,
}

/// A guard that suspends a [`MemoryOnly`] part, so that the thread may wait, or may begin another part. The part
/// continues when the guard is dropped.
#[derive(Debug)]
#[must_use = "the part continues when this is dropped"]
pub struct MayWait {
    was_active: bool,
    had_missed: bool,
    _waiting: Waiting,
}

impl MemoryOnly {
    /// Begins a memory-only part of this thread.
    pub fn begin() -> Self {
        IS_MEMORY_ONLY.set(true);
        PART_HAS_MISSED.set(false);
        Self {
            _waiting: Waiting::forbid(),
        }
    }

    /// Returns whether this thread is in a memory-only part.
    #[must_use]
    #[inline]
    pub fn is_active() -> bool {
        IS_MEMORY_ONLY.get()
    }

    /// Returns whether this thread is in a memory-only part in which it has missed a block or would have
    /// waited.
    #[must_use]
    pub fn has_missed() -> bool {
        Self::is_active() && PART_HAS_MISSED.get()
    }

    /// Suspends the memory-only part of this thread. Does not require that the thread is in one.
    pub fn suspend() -> MayWait {
        MayWait {
            was_active: IS_MEMORY_ONLY.replace(false),
            had_missed: PART_HAS_MISSED.get(),
            _waiting: Waiting::allow(),
        }
    }

    /// Records that `block` is not in memory, and returns [`Error::NotInMemory`].
    #[cold]
    pub(crate) fn miss(block: FsBlock) -> Error {
        PART_HAS_MISSED.set(true);
        Error::NotInMemory(block)
    }

    /// Records that the operation would have to wait.
    #[cold]
    pub(crate) fn would_wait() -> Error {
        PART_HAS_MISSED.set(true);
        Error::WouldWait
    }

    /// Must be called before this thread waits.
    ///
    /// # Errors
    /// [`Error::WouldWait`] in a memory-only part.
    #[inline]
    pub fn check_may_wait() -> Result<(), Error> {
        if Self::is_active() {
            return Err(Self::would_wait());
        }
        Ok(())
    }

    /// Takes a lock whose holder may wait for a device. Calls `lock` or, in a memory-only part, `try_lock`.
    ///
    /// # Errors
    /// [`Error::WouldWait`] in a memory-only part, if the lock is held.
    #[inline]
    pub fn lock<G>(
        try_lock: impl FnOnce() -> Option<G>,
        lock: impl FnOnce() -> G,
    ) -> Result<G, Error> {
        if Self::is_active() {
            return try_lock().ok_or_else(Self::would_wait);
        }
        Ok(lock())
    }

    /// Ends the memory-only part of this thread, if it is in one, because the operation is about to make a
    /// change that cannot be undone.
    ///
    /// # Errors
    /// [`Error::WouldWait`] if the part has missed something. The change must then not be made.
    pub fn begin_change() -> Result<(), Error> {
        if Self::is_active() {
            if PART_HAS_MISSED.get() {
                return Err(Error::WouldWait);
            }
            IS_MEMORY_ONLY.set(false);
            Waiting::end();
        }
        Ok(())
    }
}

impl Drop for MemoryOnly {
    fn drop(&mut self) {
        IS_MEMORY_ONLY.set(false);
    }
}

impl Drop for MayWait {
    fn drop(&mut self) {
        IS_MEMORY_ONLY.set(self.was_active);
        PART_HAS_MISSED.set(self.had_missed);
    }
}
