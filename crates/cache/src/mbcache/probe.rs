//! What a variant does that other processors may have to wait for, told to whoever wants to know.
//!
//! Two processors cannot show what 24 did to one another. So the lab runs an operation once, is told
//! what it locked and wrote, and simulates any number of processors from that. The mount's caches
//! have the probe `()`, which the compiler removes.

use std::fmt::Debug;

/// Something done to a place that processors share. Places are numbered by the cache: the same number
/// is the same lock, or the same cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Touch {
    /// A lock was taken.
    Lock(u64),
    /// It was given back.
    Unlock(u64),
    /// A line was written, with no lock.
    Write(u64),
    /// Whoever holds this entry excludes others, until [`Touch::Release`].
    HoldAlone(u64),
    /// Whoever holds this entry excludes those that want it alone, until [`Touch::Release`].
    HoldShared(u64),
    /// The entry was let go.
    Release(u64),
}

/// Is told of every [`Touch`].
pub trait Probe: Clone + Debug + Send + Sync + 'static {
    /// The caller did this.
    #[inline]
    fn touched(&self, touch: Touch) {
        let _ = touch;
    }
}

impl Probe for () {}
