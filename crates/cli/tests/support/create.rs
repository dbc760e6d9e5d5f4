//! Functions for the tests of `larder create`.

use super::{Fixture, User, assert_clean, can_make_images, command, text};
use larder_testkit::{Requirement, skip};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Returns whether the programs that `larder create` needs, and tar, are installed.
pub fn can_create() -> bool {
    can_make_images()
        && !skip(&["tune2fs", "e2fsck", "resize2fs", "dumpe2fs", "tar"].map(Requirement::Tool))
}

/// Runs `larder create` for the image `name` in the directory of `fixture`, where it also searches for the sources.
pub fn create(fixture: &Fixture, name: &str, args: &[&str]) -> Output {
    create_of(fixture, name, args).output().unwrap()
}

/// Returns the command of [`create`]. The time of the image is fixed, so that the times of lost+found are those of other
/// images.
pub fn create_of(fixture: &Fixture, name: &str, args: &[&str]) -> Command {
    let mut command = command("larder", User::Same);
    command
        .current_dir(fixture.path(""))
        .args(["create", name])
        .args(args)
        .env("SOURCE_DATE_EPOCH", "1600000000");
    command
}

/// Makes an image, which must succeed. Returns its path.
#[track_caller]
pub fn created(fixture: &Fixture, name: &str, args: &[&str]) -> PathBuf {
    let output = create(fixture, name, args);
    assert!(
        output.status.success(),
        "{args:?}: {}",
        text(&output.stderr)
    );
    let start = format!("created {name}: ext");
    assert!(
        text(&output.stdout).starts_with(&start),
        "{}",
        text(&output.stdout)
    );
    let image = fixture.path(name);
    assert_clean(&image);
    image
}

/// Asserts that no image with the name `name`, and no unfinished image, is left.
#[track_caller]
pub fn assert_nothing_left(fixture: &Fixture, name: &str) {
    for entry in fs::read_dir(fixture.path("")).unwrap() {
        let entry = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            entry != name && !entry.starts_with(".larder-create-"),
            "{entry}"
        );
    }
}
