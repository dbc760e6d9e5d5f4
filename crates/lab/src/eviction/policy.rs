//! The names of all replacement policies.

use super::access::Policy;
use super::arc::Arc;
use super::belady::Belady;
use super::clock::Clock;
use super::frames::FramesClock;
use super::lru::Lru;
use super::sieve::Sieve;
use super::small_main::SmallMain;
use super::w_tiny_lfu::WTinyLfu;
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The name of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyName {
    /// The clock of Larder's frames.
    Larder,
    /// CLOCK, also known as second chance or FIFO-reinsertion.
    Clock,
    /// CLOCK in which the use that inserts an object counts.
    ClockFirstUse,
    /// Least recently used.
    Lru,
    /// S3-FIFO.
    S3Fifo,
    /// SIEVE.
    Sieve,
    /// `Clock2Q+`.
    Clock2QPlus,
    /// ARC.
    Arc,
    /// W-TinyLFU.
    WTinyLfu,
    /// Belady's optimum.
    Belady,
}

/// An unknown name of a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown policy '{0}'; available: {names}",
    names = PolicyName::ALL.map(PolicyName::as_str).join(", ")
)]
pub struct UnknownPolicy(String);

impl PolicyName {
    /// All policies.
    pub const ALL: [Self; 10] = [
        Self::Larder,
        Self::Clock,
        Self::ClockFirstUse,
        Self::Lru,
        Self::Sieve,
        Self::S3Fifo,
        Self::Clock2QPlus,
        Self::Arc,
        Self::WTinyLfu,
        Self::Belady,
    ];

    /// Returns the name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Larder => "larder",
            Self::Clock => "clock",
            Self::ClockFirstUse => "clock-first-use",
            Self::Lru => "lru",
            Self::S3Fifo => "s3-fifo",
            Self::Sieve => "sieve",
            Self::Clock2QPlus => "clock2q+",
            Self::Arc => "arc",
            Self::WTinyLfu => "w-tinylfu",
            Self::Belady => "belady",
        }
    }

    /// Returns an empty cache with room for `capacity` objects, whose numbers are below `objects`.
    #[must_use]
    pub fn cache(self, capacity: usize, objects: usize) -> Box<dyn Policy> {
        let capacity = capacity.max(1);
        match self {
            Self::Larder => Box::new(FramesClock::new(capacity, objects)),
            Self::ClockFirstUse => Box::new(Clock::new(capacity, objects, true)),
            Self::Clock => Box::new(Clock::new(capacity, objects, false)),
            Self::Lru => Box::new(Lru::new(capacity, objects)),
            Self::S3Fifo => Box::new(SmallMain::s3_fifo(capacity, objects)),
            Self::Sieve => Box::new(Sieve::new(capacity, objects)),
            Self::Clock2QPlus => Box::new(SmallMain::clock2q_plus(capacity, objects)),
            Self::Arc => Box::new(Arc::new(capacity, objects)),
            Self::WTinyLfu => Box::new(WTinyLfu::new(capacity, objects)),
            Self::Belady => Box::new(Belady::new(capacity, objects)),
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for PolicyName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl FromStr for PolicyName {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter();
        all.find(|name| name.as_str() == text)
            .ok_or_else(|| UnknownPolicy(text.to_owned()))
    }
}
