//! What the processor takes: a few constants, and processors that readers share.

use std::time::Duration;

/// What the processor takes for what a read does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuModel {
    /// Processors that the readers share; at least 1.
    pub processors: u32,
    /// Entering and leaving the kernel, for each operation.
    pub call: Duration,
    /// Looking one page up.
    pub lookup: Duration,
    /// Copying one page to or from the reader.
    pub copy: Duration,
    /// Asking the policy.
    pub decision: Duration,
    /// Bringing one page in: a page of memory, its place in the cache, its part of a request.
    pub insert: Duration,
}

impl CpuModel {
    /// Round figures for the document's Core 2 of 2.9 GHz with two cores: some 900 cycles for a
    /// system call, 200 for a lookup, 4 GB/s to copy cold pages, 1200 cycles to bring a page in.
    pub const CORE_2: Self = Self {
        processors: 2,
        call: Duration::from_nanos(300),
        lookup: Duration::from_nanos(70),
        copy: Duration::from_nanos(1000),
        decision: Duration::from_nanos(100),
        insert: Duration::from_nanos(400),
    };
}

impl Default for CpuModel {
    fn default() -> Self {
        Self::CORE_2
    }
}
