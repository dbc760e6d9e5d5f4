//! Explains why a report does not count the misses of the processor's caches.

use std::fs;

/// The directory in which the kernel lists its performance event sources.
const SOURCES: &str = "/sys/bus/event_source/devices";

/// Returns a sentence with the reason, and with the way to count these misses outside the lab if the
/// processor supports that.
pub(super) fn uncounted() -> &'static str {
    let sources = fs::read_dir(SOURCES).into_iter().flatten().flatten();
    let mut names = sources.map(|source| source.file_name().to_string_lossy().into_owned());
    if names.any(|name| name.starts_with("cpu") || name.starts_with("armv")) {
        "Processor-cache misses are not counted: use `perf stat -e cache-misses`."
    } else {
        "Processor-cache misses are not counted: the processor has no counters."
    }
}
