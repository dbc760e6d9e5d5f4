//! The simulated links.

use std::time::Duration;

use larder_instruments::simulated::{DeviceModel, ServiceModel};
use larder_testkit::http::Link;

use crate::named::named;

named! {
    /// A link between a client and the server.
    Network {
        /// No delay, and no limit.
        Local: "0 ms",
        /// 20 ms and 1 Gbit/s.
        B: "B",
        /// 30 ms and 10 Gbit/s.
        A: "A",
        /// 30 ms, 10 Gbit/s, and 90 MB/s for each connection: the lab's device `object-30ms`.
        Object: "object-30ms",
        /// Round trips of which some are long, 10 Gbit/s, and 90 MB/s for each connection: the lab's device
        /// `object-tail`.
        ObjectTail: "object-tail",
    }
}

/// The seed of the round trips of `object-tail`.
pub(super) const SEED: u64 = 1;
/// The number of round trips after which they repeat.
const ROUND_TRIPS: usize = 1 << 16;

impl Network {
    /// Returns the time from a request to the first byte of its reply, or the median of these times.
    #[must_use]
    pub const fn round_trip(self) -> Duration {
        Duration::from_millis(match self {
            Self::Local => 0,
            Self::B => 20,
            Self::ObjectTail => 27,
            Self::A | Self::Object => 30,
        })
    }

    /// Returns the limit of all replies together.
    #[must_use]
    pub const fn bytes_per_second(self) -> Option<u64> {
        match self {
            Self::Local => None,
            Self::B => Some(125_000_000),
            Self::A | Self::Object | Self::ObjectTail => Some(1_250_000_000),
        }
    }

    /// Returns a new link.
    pub(super) fn link(self) -> Link {
        let link = Link::new(self.round_trip(), self.bytes_per_second());
        match self {
            Self::Object => link.with_stream_limit(90_000_000),
            Self::ObjectTail => link
                .with_stream_limit(90_000_000)
                .with_round_trips(round_trips(self.name())),
            Self::Local | Self::B | Self::A => link,
        }
    }
}

/// Returns the round trips of the device `name`.
fn round_trips(name: &str) -> Vec<Duration> {
    let model = DeviceModel::named(name).expect("the lab has this device");
    let ServiceModel::Parallel(model) = &model.service else {
        unreachable!("the device is not a disk");
    };
    model.read_latencies(SEED).take(ROUND_TRIPS).collect()
}
