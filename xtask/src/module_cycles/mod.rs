//! Finds cyclic dependencies between the source files of a crate.
//!
//! A file depends on another when one of its paths, in a `use` or anywhere else, names an item that
//! the other defines. A re-export is followed to the definition, so a facade makes no cycle of its
//! own. The file that re-exports also depends on the definition. The declaration of a module is not
//! a dependency, and code for tests (`#[cfg(test)]`) is ignored. Method calls are not seen, because
//! they contain no path.

mod graph;
mod source;

use graph::Edge;
use source::{Sources, located};
use std::io::{self, Error};
use std::path::{Path, PathBuf};

/// Prints the cycles of the crates in these folders. If `folders` is empty, checks all crates of the
/// workspace.
///
/// # Errors
/// A source cannot be read or parsed, or there is a cycle.
pub fn check(folders: &[PathBuf]) -> io::Result<()> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let folders = if folders.is_empty() {
        workspace(root)?
    } else {
        folders.to_vec()
    };
    let mut found = 0;
    for folder in folders {
        let dir = root.join(&folder).join("src");
        let roots = ["lib.rs", "main.rs"].map(Path::new);
        for file in roots.into_iter().filter(|file| dir.join(file).exists()) {
            let sources = Sources::load(&dir, file, &|path| {
                std::fs::read_to_string(path).map_err(|error| located(path, &error))
            })?;
            for cycle in graph::cycles(&sources.edges()) {
                found += 1;
                print_cycle(&folder, &cycle);
            }
        }
    }
    if found > 0 {
        let cycles = if found == 1 { "cycle" } else { "cycles" };
        return Err(Error::other(format!("{found} {cycles} among modules")));
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

fn print_cycle(folder: &Path, cycle: &[(PathBuf, PathBuf, Edge)]) {
    println!("{}: these files depend on each other:", folder.display());
    for (from, to, edge) in cycle {
        let (from, to) = (from.display(), to.display());
        println!("  {from}:{} -> {to} ({})", edge.line, edge.path);
    }
}

#[cfg(test)]
mod tests;
