//! The number of bytes that a copy or an archive of a tree reads.

use larder::{FileKind, Ino, Volume};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Returns the number of bytes of data below `root`. Files and directories that cannot be read count as 0.
pub(super) fn tree_bytes(volume: &Volume, root: Ino) -> u64 {
    let mut total_bytes = 0_u64;
    let mut seen = HashSet::from([root]);
    let mut left = vec![root];
    while let Some(ino) = left.pop() {
        let Ok(metadata) = volume.metadata(ino) else {
            continue;
        };
        match metadata.kind {
            FileKind::Regular => {
                let stored_bytes = metadata.blocks_512.saturating_mul(512);
                total_bytes = total_bytes.saturating_add(metadata.size_bytes.min(stored_bytes));
            }
            FileKind::Directory => {
                let start = left.len();
                // Directories that cannot be listed are reported when they are copied.
                let _ = volume.read_dir(ino, 0, &mut |entry| {
                    let is_parent = entry.name == b"..";
                    if !is_parent && seen.insert(entry.ino) {
                        left.push(entry.ino);
                    }
                    ControlFlow::Continue(())
                });
                // In the order of the entries, which readahead expects.
                left[start..].reverse();
            }
            _ => {}
        }
    }
    total_bytes
}
