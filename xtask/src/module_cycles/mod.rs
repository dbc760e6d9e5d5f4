//! Finds cyclic dependencies between the source files of a crate.
//!
//! A file depends on another when one of its paths, in a `use` or anywhere else, names an item that
//! the other defines. A re-export is followed to the definition, so a facade makes no cycle of its
//! own. The file that re-exports also depends on the definition. The declaration of a module is not
//! a dependency, and code for tests (`#[cfg(test)]`) is ignored.
//!
//! A call `self.method()` is a dependency on the file with the inherent method of this name. Calls
//! with other receivers are not seen, because their types are not in the source. Files that depend
//! on each other only because of such calls are a cluster. `clusters.txt` lists the clusters that
//! exist. The list may only become shorter: the check fails if a file joins a cluster, and also if a
//! file leaves one and is still listed.

mod clusters;
mod graph;
mod source;

use clusters::Cluster;
use graph::{Cycle, Edge};
use source::{Sources, located};
use std::collections::BTreeSet;
use std::io::{self, Error};
use std::path::{Path, PathBuf};

/// Prints the cycles of the crates in these folders, and the clusters if they differ from the list.
/// If `folders` is empty, checks all crates of the workspace.
///
/// # Errors
/// A source cannot be read or parsed, there is a cycle, or the list of clusters differs.
pub fn check(folders: &[PathBuf]) -> io::Result<()> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut listed = clusters::parse(clusters::LIST);
    let folders = if folders.is_empty() {
        workspace(root)?
    } else {
        listed.retain(|cluster| folders.contains(&cluster.folder));
        folders.to_vec()
    };
    let mut found = 0;
    let mut present = BTreeSet::new();
    for folder in folders {
        let dir = root.join(&folder).join("src");
        let roots = ["lib.rs", "main.rs"].map(Path::new);
        for file in roots.into_iter().filter(|file| dir.join(file).exists()) {
            let sources = Sources::load(&dir, file, &|path| {
                std::fs::read_to_string(path).map_err(|error| located(path, &error))
            })?;
            let paths = sources.edges();
            for cycle in graph::cycles(&paths) {
                found += 1;
                println!("{}: these files depend on each other:", folder.display());
                cycle.iter().for_each(print_edge);
            }
            let mut edges = sources.calls();
            edges.extend(paths);
            for cycle in graph::cycles(&edges) {
                let cluster = Cluster::new(&folder, &cycle);
                print_joining(&cluster, &cycle, &listed);
                present.insert(cluster);
            }
        }
    }
    if found > 0 {
        let cycles = if found == 1 { "cycle" } else { "cycles" };
        return Err(Error::other(format!("{found} {cycles} among modules")));
    }
    if listed != present {
        print_clusters(&listed, &present);
        let list = clusters::LIST_PATH;
        return Err(Error::other(format!(
            "{list} differs from the present clusters"
        )));
    }
    Ok(())
}

/// Returns the folders of the crates of the workspace, relative to `root`.
fn workspace(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut folders = vec![PathBuf::from("benches"), PathBuf::from("xtask")];
    for entry in std::fs::read_dir(root.join("crates"))? {
        folders.push(Path::new("crates").join(entry?.file_name()));
    }
    folders.sort();
    Ok(folders)
}

fn print_edge((from, to, edge): &(PathBuf, PathBuf, Edge)) {
    let (from, to) = (from.display(), to.display());
    println!("  {from}:{} -> {to} ({})", edge.line, edge.path);
}

/// Prints the dependencies in `cluster` of files that are in no listed cluster.
fn print_joining(cluster: &Cluster, cycle: &Cycle, listed: &BTreeSet<Cluster>) {
    let is_new = |file: &PathBuf| {
        let mut listed = listed.iter().filter(|old| old.folder == cluster.folder);
        listed.all(|old| !old.files.contains(file))
    };
    let mut new = cycle
        .iter()
        .filter(|(from, to, _)| is_new(from) || is_new(to))
        .peekable();
    if new.peek().is_some() {
        println!("{}: these files join a cluster:", cluster.folder.display());
        new.for_each(print_edge);
    }
}

/// Prints the differences between the listed and the present clusters, and the present ones in the
/// form of the list.
fn print_clusters(listed: &BTreeSet<Cluster>, present: &BTreeSet<Cluster>) {
    for difference in clusters::differences(listed, present) {
        println!("{difference}");
    }
    println!("The clusters, in the form of {}:", clusters::LIST_PATH);
    for cluster in present {
        println!("\n{cluster}");
    }
}

#[cfg(test)]
mod tests;
