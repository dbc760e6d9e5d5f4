//! The events of an import: lookups, and the function that receives them.

use crate::trace::Error;
use larder_cache::hash::HashKey;
use larder_cache::tape::{CacheKind, Event, Operation};
use larder_trace::TraceEvent;

/// A function that receives imported events.
pub type EventSink<'a> = dyn FnMut(TraceEvent) -> Result<(), Error> + 'a;

/// Returns a lookup whose outcome, hit or miss, is unknown.
pub(super) fn lookup(time_ns: u64, cache: CacheKind, object: u64, index: u64) -> TraceEvent {
    let event = Event {
        cache,
        operation: Operation::Lookup { hit: false },
        key: HashKey { object, index },
    };
    TraceEvent::new(time_ns, 0, event)
}
