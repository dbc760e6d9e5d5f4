//! Tests the workload of real commands, in a separate directory.

use larder_lab::output::Report as _;
use larder_lab::sdm::{self, Error, SdmConfig};
use larder_testkit::{Seed, report_skipped};
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Returns whether all commands are installed, and prints a message if not.
fn has_commands() -> bool {
    sdm::check_commands()
        .inspect_err(|error| report_skipped(error))
        .is_ok()
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().next().is_none()
}

fn config(users: &[u32], runs: u32) -> SdmConfig {
    let seed = Seed::from_environment(0x5d4);
    println!("seed {seed}");
    SdmConfig {
        users: users.to_vec(),
        runs,
        seed: seed.0,
    }
}

#[test]
fn concurrent_users_complete_their_scripts_and_leave_no_files() {
    if !has_commands() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut runs = 0;
    let sdm = sdm::measure(dir.path(), &config(&[1, 3], 2), None, &mut || runs += 1).unwrap();
    assert_eq!(runs, 4);
    let users: Vec<_> = sdm.loads.iter().map(|load| load.users).collect();
    assert_eq!(users, [1, 3]);
    assert!(
        sdm.loads
            .iter()
            .all(|load| load.elapsed_s.len() == 2 && load.best() > 0.0)
    );
    assert!(is_empty(dir.path()));
    assert_eq!(sdm.to_csv().unwrap().lines().count(), 5);
}

#[test]
fn interrupt_ends_all_commands_and_leaves_no_files() {
    if !has_commands() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (interrupt, mut signal) = io::pipe().unwrap();
    signal.write_all(b"!").unwrap();
    let ended = sdm::measure(dir.path(), &config(&[4], 1), Some(&interrupt), &mut || ());
    assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
    assert!(is_empty(dir.path()));
}

#[test]
fn missing_directory_is_named_in_the_error() {
    if !has_commands() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let error = sdm::measure(&missing, &config(&[1], 1), None, &mut || ()).unwrap_err();
    assert!(error.to_string().contains("missing/larder-sdm-"), "{error}");
}
