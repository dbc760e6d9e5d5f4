//! The sides of the comparison.

use crate::named::named;

named! {
    /// One of the compared sides.
    Side {
        /// Larder's table: lookups that copy.
        Larder: "larder",
        /// Larder's table: lookups that pin.
        LarderPin: "larder-pin",
        /// Larder's table: lookups that prefetch.
        LarderAhead: "larder-ahead",
        /// Larder's table: lookups that pin, without counters.
        LarderUncounted: "larder-uncounted",
        /// `dashmap::DashMap`.
        Dashmap: "dashmap",
        /// `papaya::HashMap`.
        Papaya: "papaya",
        /// `scc::HashIndex`.
        SccIndex: "scc-index",
        /// `scc::HashMap`.
        SccMap: "scc-map",
        /// `hashbrown::HashMap`, for one thread.
        Hashbrown: "hashbrown",
    }
}

impl Side {
    /// The concurrent maps of other crates.
    pub const CONCURRENT_PEERS: [Self; 4] =
        [Self::Dashmap, Self::Papaya, Self::SccIndex, Self::SccMap];
}
