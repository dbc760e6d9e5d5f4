//! The sides of the comparison.

use serde::Serialize;

/// One of those that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Our table: lookups that copy.
    Larder,
    /// Our table: lookups that pin.
    LarderPin,
    /// Our table: lookups that are told ahead.
    LarderAhead,
    /// Our table: lookups that pin and are not counted.
    LarderUncounted,
    /// `dashmap::DashMap`.
    Dashmap,
    /// `papaya::HashMap`.
    Papaya,
    /// `scc::HashIndex`.
    SccIndex,
    /// `scc::HashMap`.
    SccMap,
    /// `hashbrown::HashMap`, for one thread.
    Hashbrown,
}

impl Side {
    /// All of them, in the order in which they are printed.
    pub const ALL: [Self; 9] = [
        Self::Larder,
        Self::LarderPin,
        Self::LarderAhead,
        Self::LarderUncounted,
        Self::Dashmap,
        Self::Papaya,
        Self::SccIndex,
        Self::SccMap,
        Self::Hashbrown,
    ];

    /// Those that several threads may use at once, of other crates.
    pub const CONCURRENT_PEERS: [Self; 4] =
        [Self::Dashmap, Self::Papaya, Self::SccIndex, Self::SccMap];

    /// The name as it is printed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Larder => "larder",
            Self::LarderPin => "larder-pin",
            Self::LarderAhead => "larder-ahead",
            Self::LarderUncounted => "larder-uncounted",
            Self::Dashmap => "dashmap",
            Self::Papaya => "papaya",
            Self::SccIndex => "scc-index",
            Self::SccMap => "scc-map",
            Self::Hashbrown => "hashbrown",
        }
    }
}
