//! Shows the progress of a copy, and prints its errors.

use crate::failure::without_inode;
use indicatif::ProgressBar;
use larder::Errno;
use larder::fs::copy::{CopyError, Observer};
use larder_console::{name, print_error};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

#[derive(Debug)]
pub(super) struct Reporter {
    pub progress: ProgressBar,
    /// Whether at least one file was not copied completely.
    pub has_failed: bool,
    /// Whether at least one file was not copied because the image has no space.
    pub has_filled_image: bool,
}

impl Reporter {
    pub(super) fn new(progress: ProgressBar) -> Self {
        Self {
            progress,
            has_failed: false,
            has_filled_image: false,
        }
    }
}

impl Observer for Reporter {
    fn copied(&mut self, len_bytes: u64) {
        self.progress.inc(len_bytes);
    }

    fn failed(&mut self, path: &Path, error: CopyError) -> ControlFlow<()> {
        self.has_failed = true;
        let inner = error.cause.get_ref();
        let of_image = inner.and_then(|inner| inner.downcast_ref::<larder::Error>());
        let is_full = of_image.is_some_and(|error| error.errno() == Errno::NOSPC);
        self.has_filled_image |= is_full;
        let message = match of_image {
            Some(cause) if !error.what.is_empty() => {
                format!("{}: {}", error.what, without_inode(cause))
            }
            _ => error.to_string(),
        };
        let path = name::escaped(path.as_os_str().as_bytes());
        self.progress
            .suspend(|| print_error(&format!("{path}: {message}")));
        ControlFlow::Continue(())
    }
}
