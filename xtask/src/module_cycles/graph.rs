//! Strongly connected components of the graph of files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A place where a file names an item, or calls a method, that another file defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    pub line: usize,
    /// The path as written in the source, or `self.` and the name of the method.
    pub path: String,
}

/// The first edge from each file to each other file.
pub type Edges = BTreeMap<(PathBuf, PathBuf), Edge>;

/// The edges inside a strongly connected component of more than one file.
pub type Cycle = Vec<(PathBuf, PathBuf, Edge)>;

/// Returns the edges inside each strongly connected component of more than one file.
pub fn cycles(edges: &Edges) -> Vec<Cycle> {
    let files: BTreeSet<&PathBuf> = edges.keys().map(|(from, _)| from).collect();
    let reached: BTreeMap<_, _> = files
        .iter()
        .map(|file| (*file, reach(edges, file)))
        .collect();
    let is_mutual = |a: &PathBuf, b: &PathBuf| {
        let has_path = |a, b| reached.get(a).is_some_and(|files| files.contains(b));
        has_path(a, b) && has_path(b, a)
    };
    let mut left = files.clone();
    let mut cycles = Vec::new();
    while let Some(first) = left.pop_first() {
        let inner = edges
            .iter()
            .filter(|((from, to), _)| is_mutual(from, first) && is_mutual(to, first));
        let inner: Vec<_> = inner
            .map(|((from, to), edge)| (from.clone(), to.clone(), edge.clone()))
            .collect();
        left.retain(|file| !is_mutual(file, first));
        if !inner.is_empty() {
            cycles.push(inner);
        }
    }
    cycles
}

/// Returns the files that `start` depends on, directly or indirectly.
fn reach<'e>(edges: &'e Edges, start: &PathBuf) -> BTreeSet<&'e PathBuf> {
    let mut reached = BTreeSet::new();
    let mut queue = vec![start];
    while let Some(file) = queue.pop() {
        for (_, to) in edges.keys().filter(|(from, _)| from == file) {
            if reached.insert(to) {
                queue.push(to);
            }
        }
    }
    reached
}
