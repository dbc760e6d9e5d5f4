//! Finds cycles among the source files of a crate.
//!
//! A file depends on another when one of its paths, in a `use` or anywhere else, names an item that
//! the other defines. A re-export is followed to the definition, so a facade makes no cycle of its
//! own. The file that re-exports also depends on the definition. The declaration of a module is not
//! a dependency, and code for tests (`#[cfg(test)]`) is ignored. Method calls are not seen, because
//! they contain no path.

mod graph;
mod source;

use graph::Edge;
use source::Sources;
use std::io::{self, Error};
use std::path::{Path, PathBuf};

/// The crates without cycles.
const CRATES: [&str; 9] = [
    "block",
    "cache",
    "console",
    "ext4",
    "fuse",
    "observe",
    "readahead",
    "trace",
    "volume",
];

/// Prints the cycles of `crates`, or of [`CRATES`] if that is empty.
///
/// # Errors
/// A source cannot be read or parsed, or there is a cycle.
pub fn check(crates: &[String]) -> io::Result<()> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates"));
    let all = CRATES.map(str::to_owned);
    let crates = if crates.is_empty() { &all } else { crates };
    let mut found = 0;
    for name in crates {
        let sources = Sources::load(&root.join(name).join("src"), &|path| {
            std::fs::read_to_string(path).map_err(|error| located(path, &error))
        })?;
        for cycle in graph::cycles(&sources.edges()) {
            found += 1;
            print_cycle(name, &cycle);
        }
    }
    if found > 0 {
        let cycles = if found == 1 { "cycle" } else { "cycles" };
        return Err(Error::other(format!("{found} {cycles} among modules")));
    }
    Ok(())
}

fn located(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::other(format!("{}: {error}", path.display()))
}

fn print_cycle(name: &str, cycle: &[(PathBuf, PathBuf, Edge)]) {
    println!("{name}: these files depend on each other:");
    for (from, to, edge) in cycle {
        let (from, to) = (from.display(), to.display());
        println!("  {from}:{} -> {to} ({})", edge.line, edge.path);
    }
}

#[cfg(test)]
mod tests;
