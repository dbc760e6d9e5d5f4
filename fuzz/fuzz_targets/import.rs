//! A file of another program. The input is the format, the cache for formats that contain only
//! keys, and the file.
#![no_main]

use larder_cache::tape::{CacheKind, Operation};
use larder_lab::trace::Error;
use larder_lab::trace::import::{Format, import};
use libfuzzer_sys::fuzz_target;
use std::io;

/// The limit of events of one input. A single line may request 2^19 pages.
const MAX_EVENTS: u64 = 1 << 22;

fuzz_target!(|data: &[u8]| {
    let &[format, cache, ref file @ ..] = data else {
        return;
    };
    let format = Format::ALL[usize::from(format) % Format::ALL.len()];
    let cache = CacheKind::ALL.get(usize::from(cache)).copied();
    let mut events = 0;
    // The import stops at the limit, so that the target stays fast. Its result is ignored.
    let _ = import(format, cache, file, &mut |event| {
        assert_eq!(event.operation, Operation::Lookup { hit: false });
        events += 1;
        if events > MAX_EVENTS {
            return Err(Error::Io(io::Error::other("limit of events reached")));
        }
        Ok(())
    });
});
