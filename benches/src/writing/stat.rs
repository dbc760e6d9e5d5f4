//! stat(2) after changes: the time of a call, and the requests that it sends to a FUSE server.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, ensure};

use crate::measure::{Measure, as_f64};
use crate::measured::Measured;
use crate::requests;

/// The file on which stat(2) is called, and its name after it was renamed.
const FILE: &str = "file";
const RENAMED: &str = "renamed";
/// The other file in its directory.
const NEIGHBOUR: &str = "neighbour";
/// What is written to each file.
const CONTENT: &[u8] = b"content";

/// A change of a directory with two files, and a file in it on which stat(2) is then called.
struct Case {
    measure: Measure,
    requests: Measure,
    change: fn(&Path) -> io::Result<()>,
    file: &'static str,
}

/// The cases. Each of them changes what the previous one has left.
const CASES: [Case; 3] = [
    Case {
        measure: Measure::StatAfterWrite,
        requests: Measure::StatAfterWriteRequests,
        change: |directory| {
            let file = File::options().write(true).open(directory.join(FILE))?;
            file.write_all_at(CONTENT, CONTENT.len() as u64)
        },
        file: FILE,
    },
    Case {
        measure: Measure::StatAfterRename,
        requests: Measure::StatAfterRenameRequests,
        change: |directory| fs::rename(directory.join(FILE), directory.join(RENAMED)),
        file: RENAMED,
    },
    Case {
        measure: Measure::StatAfterUnlink,
        requests: Measure::StatAfterUnlinkRequests,
        change: |directory| fs::remove_file(directory.join(NEIGHBOUR)),
        file: RENAMED,
    },
];

/// Changes `count` directories below `root`, and calls stat(2) for a file in each of them. One half of the calls is
/// timed. The requests of the other half are counted if `counts_requests`.
pub(super) fn after_changes(
    root: &Path,
    count: u32,
    counts_requests: bool,
) -> Result<Vec<Measured>> {
    let directories: Vec<PathBuf> = (0..count)
        .map(|number| root.join(format!("directory-{number:06}")))
        .collect();
    for directory in &directories {
        fs::create_dir(directory)?;
        for name in [FILE, NEIGHBOUR] {
            fs::write(directory.join(name), CONTENT)?;
        }
    }
    // With these calls, the kernel caches what it needs for the path of each file.
    stat_all(&files(&directories, FILE), CONTENT.len())?;
    let mut values: Vec<Measured> = Vec::new();
    for case in CASES {
        for directory in &directories {
            (case.change)(directory)?;
        }
        let files = files(&directories, case.file);
        let size_bytes = 2 * CONTENT.len();
        let (timed, counted) = files.split_at(files.len() / 2);
        let started = Instant::now();
        stat_all(timed, size_bytes)?;
        let micros = started.elapsed().as_secs_f64() * 1e6;
        values.push((case.measure, micros / as_f64(timed.len() as u64)).into());
        if counts_requests {
            let sent = requests::sent_by(|| stat_all(counted, size_bytes))?;
            let per_call = as_f64(sent) / as_f64(counted.len() as u64);
            values.push((case.requests, per_call).into());
        } else {
            stat_all(counted, size_bytes)?;
        }
    }
    Ok(values)
}

/// Returns the path of the file `name` in each directory.
fn files(directories: &[PathBuf], name: &str) -> Vec<PathBuf> {
    directories.iter().map(|one| one.join(name)).collect()
}

/// Calls stat(2) for each file, and checks its size.
fn stat_all(files: &[PathBuf], size_bytes: usize) -> Result<()> {
    for file in files {
        // In contrast to `fs::metadata`, this does not request the creation time, which the kernel does not cache.
        let found = rustix::fs::stat(file)?.st_size;
        ensure!(
            usize::try_from(found) == Ok(size_bytes),
            "{} has {found} bytes instead of {size_bytes}",
            file.display()
        );
    }
    Ok(())
}
