//! Golden files of the kernel's readahead.

use larder_testkit::readahead::{Folios, Golden, Recorder, groups, missing};
use std::fs;
use std::io;
use std::path::Path;

/// Records `names`, or all groups if `names` is empty, with single-page and with large folios.
pub fn readahead(dir: &Path, names: &[String]) -> io::Result<()> {
    if let Some(reason) = missing() {
        return Err(io::Error::other(format!("cannot record: {reason}")));
    }
    let known = groups::all();
    if let Some(name) = names
        .iter()
        .find(|name| known.iter().all(|group| group.name != **name))
    {
        let names: Vec<_> = known.iter().map(|group| group.name).collect();
        return Err(io::Error::other(format!(
            "unknown group '{name}'; available: {}",
            names.join(", ")
        )));
    }
    for folios in [Folios::Single, Folios::Large] {
        let dir = dir.join(folios.as_str());
        fs::create_dir_all(&dir)?;
        let recorder = Recorder::new(folios).map_err(io::Error::other)?;
        for group in &known {
            if names.is_empty() || names.iter().any(|name| group.name == *name) {
                let golden = recorder.record_group(group).map_err(io::Error::other)?;
                let path = dir.join(group.name).with_extension("txt");
                fs::write(&path, golden.to_string())?;
                println!("{}: {}", path.display(), summary(&golden));
            }
        }
    }
    Ok(())
}

fn summary(golden: &Golden) -> String {
    let patterns = golden.recordings.len();
    let outcomes = golden.recordings.iter().flat_map(|(_, outcomes)| outcomes);
    let windows: usize = outcomes.map(|outcome| outcome.windows.len()).sum();
    format!("{patterns} patterns, {windows} windows")
}
