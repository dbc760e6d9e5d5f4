//! Runs of larder-remote, for the tests.

use std::env;
use std::path::Path;
use std::process::Command;

/// The variables that select servers, credentials, proxies or directories.
const SELECTING: [&str; 7] = [
    "AWS_",
    "GOOGLE_",
    "AZURE_",
    "HTTP",
    "ALL_PROXY",
    "HOME",
    "XDG_",
];

/// The program.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_larder-remote");

/// Returns a command without a disk cache and without the settings of this process's user. A disk cache could return
/// the images of other tests, because their servers can have had the same port.
pub fn command() -> Command {
    command_of(PROGRAM)
}

/// Returns a command that runs `program` with the variables of [`command`].
pub fn command_of(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        let upper = name.to_string_lossy().to_ascii_uppercase();
        if SELECTING.iter().any(|prefix| upper.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command
}

/// Unmounts when it is dropped.
pub struct Mounted<'p>(pub &'p Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let unmounted = command().arg("umount").arg(self.0).output().unwrap();
        if !unmounted.status.success() {
            eprintln!("{}", String::from_utf8_lossy(&unmounted.stderr));
        }
    }
}
