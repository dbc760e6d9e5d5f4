//! The panes, each with the figures of one subject. A pane adapts to the size of its area.

pub(super) mod attributes;
pub(super) mod cache;
pub(super) mod caches;
pub(super) mod chains;
pub(super) mod device;
pub(super) mod files;
pub(super) mod journal;
pub(super) mod latency;
pub(super) mod memory;
pub(super) mod network;
pub(super) mod operations;
pub(super) mod processes;
mod ranking;
pub(super) mod readahead;
pub(super) mod requests;
