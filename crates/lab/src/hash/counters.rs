//! Why processor-cache misses are not counted.

use std::fs;

/// Where the kernel lists what counts events.
const SOURCES: &str = "/sys/bus/event_source/devices";

/// In a sentence, and what else counts them where the processor can.
pub(super) fn uncounted() -> &'static str {
    let sources = fs::read_dir(SOURCES).into_iter().flatten().flatten();
    let mut names = sources.map(|source| source.file_name().to_string_lossy().into_owned());
    if names.any(|name| name.starts_with("cpu") || name.starts_with("armv")) {
        "Processor-cache misses are not counted: perf stat -e cache-misses counts a run's."
    } else {
        "Processor-cache misses are not counted: this processor shows no counters."
    }
}
