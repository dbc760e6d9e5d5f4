//! The sides of the comparison.

use crate::named::named;

named! {
    /// One of those that are compared.
    Side {
        /// Our table: lookups that copy.
        Larder: "larder",
        /// Our table: lookups that pin.
        LarderPin: "larder-pin",
        /// Our table: lookups that are told ahead.
        LarderAhead: "larder-ahead",
        /// Our table: lookups that pin and are not counted.
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
    /// Those that several threads may use at once, of other crates.
    pub const CONCURRENT_PEERS: [Self; 4] =
        [Self::Dashmap, Self::Papaya, Self::SccIndex, Self::SccMap];
}
