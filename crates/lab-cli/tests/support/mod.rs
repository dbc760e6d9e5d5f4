//! Helpers that the tests of `larder-lab` share.

#![allow(dead_code, reason = "each test file uses a part")]

#[path = "../../../cli/tests/support/shared.rs"]
mod shared;

#[allow(unused_imports, reason = "each test file uses a part")]
pub use shared::*;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

/// Returns the path of the binary.
pub fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_larder-lab"))
}

/// Returns a command line for the binary.
pub fn command(user: User) -> Command {
    command_of(binary(), "larder-lab", user)
}

/// Runs `larder-lab`.
pub fn lab<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    command(User::Same).args(args).output().unwrap()
}

/// Runs `larder-lab`, which must succeed, and returns its output.
pub fn lab_ok<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> String {
    let output = lab(args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}
