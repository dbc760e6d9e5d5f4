//! A walk that calls every operation of a volume, accepts every result, and terminates.

use larder::{FileKind, Ino, Metadata, Volume};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// The limits at which the walk stops. Damage can produce directories with billions of names, and files
/// of exabytes.
#[derive(Clone, Copy, Debug)]
pub struct WalkLimits {
    /// The number of entries, over all directories.
    pub entries: u64,
    /// The number of data runs to seek in each file.
    pub runs: u32,
    /// The number of bytes to read at each position.
    pub piece_bytes: usize,
    /// Whether to read content.
    pub content: bool,
}

impl Default for WalkLimits {
    fn default() -> Self {
        Self {
            entries: 20_000,
            runs: 64,
            piece_bytes: 16_384,
            content: true,
        }
    }
}

/// Counts of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkOutcome {
    /// Entries listed.
    pub entries: u64,
    /// Operations that succeeded, or correctly reported that no result exists.
    pub successes: u64,
    /// Operations that returned an error.
    pub errors: u64,
}

impl WalkOutcome {
    fn count<T>(&mut self, result: larder::Result<T>) -> Option<T> {
        match result {
            Ok(value) => {
                self.successes += 1;
                Some(value)
            }
            Err(error) => {
                // Formatting the text must not panic either.
                debug_assert!(!error.to_string().is_empty());
                let _ = error.errno();
                // The end of the data is a valid result.
                if matches!(error, larder::Error::NoMoreData(_)) {
                    self.successes += 1;
                } else {
                    self.errors += 1;
                }
                None
            }
        }
    }
}

/// Lists, stats, looks up, reads and seeks everything that is reachable.
#[must_use]
pub fn walk(volume: &Volume, limits: &WalkLimits) -> WalkOutcome {
    let mut outcome = WalkOutcome::default();
    let mut buf = vec![0; limits.piece_bytes];
    let mut seen = HashSet::from([Ino::ROOT]);
    let mut pending = vec![Ino::ROOT];
    while let Some(ino) = pending.pop() {
        let Some(metadata) = outcome.count(volume.metadata(ino)) else {
            continue;
        };
        if let Some(names) = outcome.count(volume.xattrs(ino)) {
            for name in names {
                outcome.count(volume.xattr(ino, &name));
            }
        }
        match metadata.kind {
            FileKind::Directory => {
                for found in list(volume, ino, limits, &mut outcome) {
                    if seen.insert(found) {
                        pending.push(found);
                    }
                }
            }
            FileKind::Symlink => {
                outcome.count(volume.read_link(ino));
            }
            FileKind::Regular => content(volume, &metadata, limits, &mut buf, &mut outcome),
            _ => {}
        }
    }
    let _ = (volume.statfs(), volume.info(), volume.stats());
    outcome
}

/// Lists a directory, and looks up some of its names.
fn list(volume: &Volume, ino: Ino, limits: &WalkLimits, outcome: &mut WalkOutcome) -> Vec<Ino> {
    let mut found = Vec::new();
    let mut names = Vec::new();
    let listed = volume.read_dir(ino, 0, &mut |entry| {
        outcome.entries += 1;
        found.push(entry.ino);
        if outcome.entries.is_multiple_of(8) {
            names.push((entry.name.to_vec(), entry.next_cookie));
        }
        if outcome.entries < limits.entries {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    outcome.count(listed);
    for (name, _) in &names {
        outcome.count(volume.lookup(ino, name));
    }
    if let Some((_, cookie)) = names.first() {
        let mut left = 3;
        let listed = volume.read_dir(ino, *cookie, &mut |_| {
            left -= 1;
            if left > 0 {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        outcome.count(listed);
    }
    match volume.lookup(ino, b"no such name") {
        Err(larder::Error::NotFound(_)) => outcome.successes += 1,
        other => {
            outcome.count(other);
        }
    }
    found
}

fn content(
    volume: &Volume,
    metadata: &Metadata,
    limits: &WalkLimits,
    buf: &mut [u8],
    outcome: &mut WalkOutcome,
) {
    let (ino, size_bytes) = (metadata.ino, metadata.size_bytes);
    let mut at = 0;
    for _ in 0..limits.runs {
        let Some(start) = outcome.count(volume.seek_data(ino, at)) else {
            break;
        };
        if limits.content {
            outcome.count(volume.read_at(ino, buf, start));
        }
        let Some(end) = outcome.count(volume.seek_hole(ino, start)) else {
            break;
        };
        if end <= at {
            break;
        }
        at = end;
    }
    if limits.content {
        let ends = [
            0,
            size_bytes.saturating_sub(buf.len() as u64),
            size_bytes / 2,
            u64::MAX - 7,
        ];
        for at in ends {
            outcome.count(volume.read_at(ino, buf, at));
        }
    }
}
