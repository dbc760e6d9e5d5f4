//! The tracepoints of readahead and the page cache, in a private trace instance.
//!
//! The reading thread writes the events while it chooses a window. Once a read has returned, all its
//! events are therefore in the buffer. They are read through `trace_pipe`, because clearing the buffer
//! through `trace` makes the kernel wait for all processors.

use super::PAGE_BYTES;
use super::outcome::{KernelWindow, Outcome};
use crate::error::{Context, Error, Result};
use crate::trace_instance::{self, TraceInstance};
use rustix::fd::OwnedFd;
use rustix::fs::{Dev, Mode, OFlags};
use rustix::io::Errno;
use std::cell::Cell;

const EVENTS: [&str; 4] = [
    "readahead/page_cache_ra_unbounded",
    "readahead/page_cache_ra_order",
    "filemap/mm_filemap_add_to_page_cache",
    "filemap/mm_filemap_delete_from_page_cache",
];

/// Returns the reason why tracing is impossible, if there is one.
pub(super) fn missing() -> Option<String> {
    trace_instance::missing(&EVENTS)
}

/// A trace instance.
#[derive(Debug)]
pub(super) struct Trace {
    /// Closed before the instance is removed: an open pipe makes the instance busy.
    pipe: OwnedFd,
    watched: Cell<Option<(Dev, u64)>>,
    instance: TraceInstance,
}

impl Trace {
    pub(super) fn new() -> Result<Self> {
        let instance = TraceInstance::new()?;
        instance.write("trace_clock", "counter")?;
        instance.write("buffer_size_kb", "4096")?;
        let path = instance.folder().join("trace_pipe");
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let pipe = rustix::fs::open(&path, flags, Mode::empty()).context("open", &path)?;
        Ok(Self {
            pipe,
            watched: Cell::new(None),
            instance,
        })
    }

    /// Traces only this file from now on.
    pub(super) fn watch(&self, device: Dev, ino: u64) -> Result<()> {
        if self.watched.get() == Some((device, ino)) {
            return Ok(());
        }
        // The kernel's own form of a device number, which differs from that of stat(2).
        let major = u64::from(rustix::fs::major(device));
        let kernel_device = major << 20 | u64::from(rustix::fs::minor(device));
        for event in EVENTS {
            let switch = format!("events/{event}/enable");
            let filter = format!("s_dev=={kernel_device} && i_ino=={ino}");
            self.instance.write(&switch, "0")?;
            let filter_file = format!("events/{event}/filter");
            self.instance.write(&filter_file, &filter)?;
            self.instance.write(&switch, "1")?;
        }
        self.watched.set(Some((device, ino)));
        Ok(())
    }

    /// Returns the outcome since the last call.
    pub(super) fn take(&self) -> Result<Outcome> {
        let mut text = Vec::new();
        let mut buf = [0; 16 << 10];
        loop {
            match rustix::io::read(&self.pipe, &mut buf) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(len) => text.extend_from_slice(&buf[..len]),
                Err(error) => {
                    return Err(error).context("read trace_pipe of", self.instance.folder());
                }
            }
        }
        parse(&String::from_utf8_lossy(&text))
    }
}

fn parse(text: &str) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        // `CPU:1 [LOST 42 EVENTS]` is not an event, so lost events are an error.
        event(&mut outcome, line)
            .ok_or_else(|| Error::Inconsistent(format!("not an event: {line}")))?;
    }
    Ok(outcome)
}

/// Records the event of a line such as
/// `reader-123 [001] ..... 42: page_cache_ra_unbounded: dev=7:0 ino=c index=0 nr_to_read=4 …`.
fn event(outcome: &mut Outcome, line: &str) -> Option<()> {
    let mut parts = line.splitn(3, ": ");
    let name = parts.nth(1)?;
    let fields = parts.next()?;
    let number = |key: &str| -> Option<u64> {
        let field = fields
            .split_whitespace()
            .find_map(|field| field.strip_prefix(key)?.strip_prefix('='));
        field?.parse().ok()
    };
    let order = || u8::try_from(number("order")?).ok();
    match name {
        "page_cache_ra_unbounded" => outcome.windows.push(KernelWindow {
            start: number("index")?,
            size: number("nr_to_read")?,
            async_size: number("lookahead_size")?,
            order: None,
        }),
        "page_cache_ra_order" => outcome.windows.push(KernelWindow {
            start: number("index")?,
            size: number("size")?,
            async_size: number("async_size")?,
            order: Some(order()?),
        }),
        "mm_filemap_add_to_page_cache" => outcome.add(number("ofs")? / PAGE_BYTES, order()?),
        "mm_filemap_delete_from_page_cache" => outcome.dropped_pages += 1 << order()?,
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readahead::FolioRun;

    #[test]
    fn trace_text_gives_windows_folios_and_drops() {
        let text = "  r-7 [001] ..... 42: page_cache_ra_unbounded: dev=7:0 ino=c index=4 nr_to_read=8 lookahead_size=9\n\
             \x20 r-7 [001] ..... 43: page_cache_ra_order: dev=7:0 ino=c index=4 order=2 size=8 async_size=3 ra_pages=32\n\
             \x20 r-7 [001] ..... 44: mm_filemap_add_to_page_cache: dev 7:0 ino c pfn=0x5 ofs=16384 order=2\n\
             \x20 r-7 [001] ..... 45: mm_filemap_add_to_page_cache: dev 7:0 ino c pfn=0x9 ofs=32768 order=2\n\
             \x20 r-7 [001] ..... 46: mm_filemap_delete_from_page_cache: dev 7:0 ino c pfn=0x9 ofs=32768 order=2\n";
        let outcome = parse(text).unwrap();
        let window = |async_size, order| KernelWindow {
            start: 4,
            size: 8,
            async_size,
            order,
        };
        assert_eq!(outcome.windows, [window(9, None), window(3, Some(2))]);
        let run = FolioRun {
            start: 4,
            order: 2,
            count: 2,
        };
        assert_eq!(outcome.added, [run]);
        assert_eq!((outcome.added_pages(), outcome.dropped_pages), (8, 4));
    }

    #[test]
    fn trace_with_lost_events_is_refused() {
        assert!(parse("CPU:1 [LOST 42 EVENTS]\n").is_err());
    }
}
