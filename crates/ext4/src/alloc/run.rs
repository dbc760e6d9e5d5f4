//! A run of clusters.

/// Adjacent clusters of one group, counted from the first cluster of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) start: u64,
    pub(super) len: u32,
}
