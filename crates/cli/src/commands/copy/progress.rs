//! The progress bar: on standard error, and only on a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use larder::{FileKind, Ino, Volume};
use std::collections::HashSet;
use std::io::{self, IsTerminal};
use std::ops::ControlFlow;

/// How much has been copied.
#[derive(Debug)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// `total_bytes` is asked only where the bar is shown: it walks the tree.
    pub(super) fn new(total_bytes: impl FnOnce() -> u64) -> Self {
        if !io::stderr().is_terminal() {
            return Self { bar: None };
        }
        let bar = ProgressBar::new(total_bytes());
        let style = "{bar:30} {bytes} of {total_bytes}, {binary_bytes_per_sec}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        Self { bar: Some(bar) }
    }

    pub(super) fn add(&self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
        }
    }

    /// Takes the bar away while something else is printed.
    pub(super) fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Bytes of data below an inode, as far as they can be counted.
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
                // What cannot be listed is told when it is copied.
                let _ = volume.read_dir(ino, 0, &mut |entry| {
                    let goes_up = entry.name == b"..";
                    if !goes_up && seen.insert(entry.ino) {
                        left.push(entry.ino);
                    }
                    ControlFlow::Continue(())
                });
            }
            _ => {}
        }
    }
    total_bytes
}
