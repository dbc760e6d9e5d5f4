//! A file of another program: the input is the format, which cache keys alone are of, and the file.
#![no_main]

use larder_cache::tape::{CacheKind, Operation};
use larder_lab::trace::Error;
use larder_lab::trace::import::{Format, import};
use libfuzzer_sys::fuzz_target;
use std::io;

/// More than the lines of small inputs are to ask for. A line may ask for 2^19 pages.
const MOST_EVENTS: u64 = 1 << 22;

fuzz_target!(|data: &[u8]| {
    let &[format, cache, ref file @ ..] = data else {
        return;
    };
    let format = Format::ALL[usize::from(format) % Format::ALL.len()];
    let cache = CacheKind::ALL.get(usize::from(cache)).copied();
    let mut told = 0;
    // What was read is left out of account if it is too much: the target is to be quick.
    let _ = import(format, cache, file, &mut |event| {
        assert_eq!(event.operation, Operation::Lookup { hit: false });
        told += 1;
        if told > MOST_EVENTS {
            return Err(Error::Io(io::Error::other("enough")));
        }
        Ok(())
    });
});
