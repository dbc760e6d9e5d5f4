//! Search for programs of the system, such as those of e2fsprogs.

use std::path::PathBuf;

/// The directories of the administrator, which the `PATH` of users may lack.
const SYSTEM_DIRECTORIES: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// Returns the path of the program `name`, in `PATH` or in the directories of the administrator.
#[must_use]
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SYSTEM_DIRECTORIES.map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
}
