//! A run of clusters.

/// Clusters of one group that follow each other, counted from the file system's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) start: u64,
    pub(super) len: u32,
}
