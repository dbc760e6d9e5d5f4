//! Files that get their names when they are complete.

use crate::signals;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::thread;
use tempfile::NamedTempFile;

/// Returns the directory of the file at `path`.
pub(super) fn directory(path: &Path) -> &Path {
    let parent = path.parent();
    parent
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Creates a file in the directory of `path`. Its name begins with `prefix`. A signal that ends the process removes it.
///
/// # Errors
/// The file cannot be created.
pub(super) fn create(path: &Path, prefix: &str) -> io::Result<NamedTempFile> {
    create_with(path, prefix, Permissions::from_mode(0o666))
}

/// Creates a file as [`create`] does, to which other users have no access.
///
/// # Errors
/// The file cannot be created.
pub(super) fn create_private(path: &Path, prefix: &str) -> io::Result<NamedTempFile> {
    create_with(path, prefix, Permissions::from_mode(0o600))
}

/// Gives `file` the owner and the permissions `old` of the file that it will replace.
///
/// # Errors
/// The process may not give files to this owner.
pub(super) fn keep_attributes(file: &File, old: &Metadata) -> io::Result<()> {
    // A change of the owner can clear permissions.
    fchown(file, Some(old.uid()), Some(old.gid()))?;
    file.set_permissions(old.permissions())
}

fn create_with(path: &Path, prefix: &str, permissions: Permissions) -> io::Result<NamedTempFile> {
    let file = tempfile::Builder::new()
        .prefix(prefix)
        .permissions(permissions)
        .tempfile_in(directory(path))?;
    remove_on_signal(file.path().to_owned())?;
    Ok(file)
}

/// Removes the file at `path` when a signal ends the process.
fn remove_on_signal(path: PathBuf) -> io::Result<()> {
    let mut received = Signals::new(signals::handled(&signals::ENDING)?)?;
    thread::Builder::new().spawn(move || {
        if let Some(signal) = received.forever().next() {
            // The process ends in any case.
            let _ = fs::remove_file(&path);
            let _ = emulate_default_handler(signal);
        }
    })?;
    Ok(())
}
