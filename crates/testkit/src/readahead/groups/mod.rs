//! The table of patterns: one golden file for each group.
//!
//! Patterns are short, about twenty operations: each branch of each rule must be covered, but need not be
//! covered often. The name of a random pattern includes its seed.

mod advised;
mod cached;
mod faults;
mod mixed;
mod sequential;
mod sizes;
mod streams;

use super::pattern::Pattern;

pub use mixed::seeded;

/// Patterns of one kind.
#[derive(Clone, Debug)]
pub struct Group {
    /// The name of its golden file.
    pub name: &'static str,
    /// The patterns, in the order in which they are recorded.
    pub patterns: Vec<Pattern>,
}

/// Returns all groups.
#[must_use]
pub fn all() -> Vec<Group> {
    [
        ("sequential", sequential::patterns as fn() -> Vec<Pattern>),
        ("mid-file", sequential::mid_file),
        ("end-of-file", sequential::ends_of_files),
        ("oversize", sequential::oversize),
        ("strided", streams::strided),
        ("backward", streams::backward),
        ("interleaved", streams::interleaved),
        ("random", mixed::random),
        ("mixed", mixed::mixed),
        ("evicted", cached::evicted),
        ("partly-cached", cached::partly_cached),
        ("advice", advised::patterns),
        ("faults", faults::patterns),
        ("blocks", mixed::blocks),
    ]
    .map(|(name, patterns)| Group {
        name,
        patterns: patterns(),
    })
    .into()
}

/// Returns the group with this name.
#[must_use]
pub fn named(name: &str) -> Option<Group> {
    all().into_iter().find(|group| group.name == name)
}
