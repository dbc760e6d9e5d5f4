//! `larder lab`, which runs the program larder-lab: here a script that prints its arguments.

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};
use support::{assert_fails, binary, text};
use tempfile::TempDir;

/// Only one test runs at a time. If another test forks a child while a copy of the program is written,
/// the child has the copy open, and the copy cannot be executed (`ETXTBSY`).
static EXCLUSIVE: Mutex<()> = Mutex::new(());

/// A directory with a copy of larder, and a second directory, the only one in PATH.
struct Installed {
    _exclusive: MutexGuard<'static, ()>,
    beside: TempDir,
    path: TempDir,
}

impl Installed {
    fn new() -> Self {
        let installed = Self {
            _exclusive: EXCLUSIVE.lock().unwrap_or_else(PoisonError::into_inner),
            beside: tempfile::tempdir().unwrap(),
            path: tempfile::tempdir().unwrap(),
        };
        fs::copy(binary(), installed.beside.path().join("larder")).unwrap();
        installed
    }

    fn run(&self, args: &[&str]) -> Output {
        Command::new(self.beside.path().join("larder"))
            .args(args)
            .env("PATH", self.path.path())
            .output()
            .unwrap()
    }
}

/// Creates a larder-lab in `dir` that prints `name` and its arguments, and exits with code 7.
fn install_lab(dir: &Path, name: &str) {
    let lab = dir.join("larder-lab");
    let script = format!("#!/bin/sh\necho {name} \"$#:$*\"\nexit 7\n");
    fs::write(&lab, script).unwrap();
    fs::set_permissions(&lab, Permissions::from_mode(0o755)).unwrap();
}

#[track_caller]
fn assert_ran(output: &Output, printed: &str) {
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).trim_end(), printed);
}

#[test]
fn lab_runs_larder_lab_from_own_directory_or_path() {
    let installed = Installed::new();
    install_lab(installed.path.path(), "path");
    let args = ["lab", "record", "--kernel", "--", "sh", "-c", "true; false"];
    assert_ran(
        &installed.run(&args),
        "path 6:record --kernel -- sh -c true; false",
    );
    install_lab(installed.beside.path(), "beside");
    assert_ran(&installed.run(&["lab"]), "beside 0:");
    for help in [&["lab", "--help"][..], &["lab", "-h"]] {
        assert_ran(&installed.run(help), &format!("beside 1:{}", help[1]));
    }
    assert_ran(&installed.run(&["lab", "help"]), "beside 1:help");
    assert_ran(&installed.run(&["help", "lab"]), "beside 1:help");
    assert_ran(
        &installed.run(&["help", "lab", "hash"]),
        "beside 2:help hash",
    );
}

#[test]
fn lab_without_larder_lab_hints_at_install() {
    let installed = Installed::new();
    for args in [&["lab", "list"][..], &["help", "lab"]] {
        assert_fails(&installed.run(args), 1, &["larder-lab", "hint: install"]);
    }
    assert!(installed.run(&["--help"]).status.success());
}

#[test]
fn larder_lab_that_cannot_be_run_is_named() {
    let installed = Installed::new();
    fs::write(installed.beside.path().join("larder-lab"), "").unwrap();
    let output = installed.run(&["lab", "list"]);
    assert_fails(&output, 1, &["cannot run", "larder-lab", "denied"]);
}
