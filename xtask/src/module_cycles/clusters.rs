//! Clusters: files of a crate that depend on each other only because calls of methods count as
//! dependencies. The file `clusters.txt` lists the clusters that the check accepts.

use super::graph::Cycle;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

/// The list of the accepted clusters.
pub const LIST: &str = include_str!("clusters.txt");

/// The path of the list, for messages.
pub const LIST_PATH: &str = "xtask/src/module_cycles/clusters.txt";

/// Files of a crate, each of which depends on every other one, directly or indirectly.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cluster {
    /// The folder of the crate.
    pub folder: PathBuf,
    /// The files, relative to the crate's folder of sources.
    pub files: BTreeSet<PathBuf>,
}

impl Cluster {
    /// Returns the cluster of the files in `cycle`.
    pub fn new(folder: &Path, cycle: &Cycle) -> Self {
        Self {
            folder: folder.to_owned(),
            files: cycle.iter().map(|(from, ..)| from.clone()).collect(),
        }
    }
}

/// Writes the cluster in the form of the list.
impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.folder.display())?;
        let mut files = self.files.iter();
        files.try_for_each(|file| writeln!(f, "  {}", file.display()))
    }
}

/// Reads a list of clusters. A line without indentation is the folder of a crate; the indented lines
/// after it are the files of the cluster. Empty lines, and lines that start with `#`, are ignored.
pub fn parse(list: &str) -> BTreeSet<Cluster> {
    let mut clusters: Vec<Cluster> = Vec::new();
    for line in list.lines() {
        let path = PathBuf::from(line.trim());
        match clusters.last_mut() {
            _ if path.as_os_str().is_empty() || line.starts_with('#') => {}
            Some(cluster) if line.starts_with(' ') => {
                cluster.files.insert(path);
            }
            _ => clusters.push(Cluster {
                folder: path,
                files: BTreeSet::new(),
            }),
        }
    }
    clusters.into_iter().collect()
}

/// Returns a description of each difference between the listed and the present clusters.
pub fn differences(listed: &BTreeSet<Cluster>, present: &BTreeSet<Cluster>) -> Vec<String> {
    let (old, new) = (files(listed), files(present));
    let joined = new.difference(&old).map(|(folder, file)| {
        let (folder, file) = (folder.display(), file.display());
        format!(
            "{folder}: {file} has joined a cluster: remove the dependency that closes the cycle"
        )
    });
    let left = old.difference(&new).map(|(folder, file)| {
        let (folder, file) = (folder.display(), file.display());
        format!("{folder}: {file} has left its cluster: remove it from the list")
    });
    let mut differences: Vec<_> = joined.chain(left).collect();
    if differences.is_empty() && listed != present {
        differences.push("the listed clusters have split or merged".to_owned());
    }
    differences
}

/// Returns the folder and the path of each file in `clusters`.
fn files(clusters: &BTreeSet<Cluster>) -> BTreeSet<(&Path, &Path)> {
    let files = clusters.iter().flat_map(|cluster| {
        let folder = cluster.folder.as_path();
        cluster
            .files
            .iter()
            .map(move |file| (folder, file.as_path()))
    });
    files.collect()
}
