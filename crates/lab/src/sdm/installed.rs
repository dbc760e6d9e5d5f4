//! Whether the commands of the script are installed.

use super::error::Error;
use super::script::{self, Needed};

/// Checks that all commands of the script are installed.
///
/// # Errors
/// Returns [`Error::Missing`] if a command is not installed.
pub fn check_commands() -> Result<(), Error> {
    check_installed(&script::NEEDED)
}

pub(super) fn check_installed(needed: &[Needed]) -> Result<(), Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    let is_missing = |command: &str| !folders.iter().any(|folder| folder.join(command).is_file());
    let missing = needed.iter().filter(|(command, _)| is_missing(command));
    let (commands, mut packages): (Vec<_>, Vec<_>) = missing.copied().unzip();
    if commands.is_empty() {
        return Ok(());
    }
    packages.dedup();
    Err(Error::Missing { commands, packages })
}
