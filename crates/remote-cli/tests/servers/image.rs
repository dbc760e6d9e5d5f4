//! A local image, and the comparison of its files with those that `larder-remote` shows for the image on a server.

use crate::larder::{Mounted, command};
use larder::{OpenOptions, Volume};
use larder_testkit::e2fsprogs::make_image_of;
use larder_testkit::oracle::{Comparison, DirectorySource, Fields, VolumeSource, compare};
use larder_testkit::{Requirement, skip};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// The size of the image, as mke2fs expects it.
const SIZE: &str = "48M";
/// The number of small files.
const FILES: usize = 300;
/// The size of the largest file.
const LARGE_BYTES: usize = 5_000_000;

/// A folder with a local image.
pub struct Local {
    folder: TempDir,
}

impl Local {
    /// Creates the image.
    pub fn new() -> Option<Self> {
        if skip(&[Requirement::Tool("mke2fs"), Requirement::Tool("setpriv")]) {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let local = Self { folder };
        local.write_tree().unwrap();
        make_image_of(&local.path("tree"), &local.image(), "-t ext4", SIZE).unwrap();
        Some(local)
    }

    fn write_tree(&self) -> std::io::Result<()> {
        let tree = self.path("tree");
        let deep = tree.join("a/b/c/d");
        for directory in [&deep, &tree.join("many"), &self.path("mnt")] {
            fs::create_dir_all(directory)?;
        }
        for number in 0..FILES {
            let content = format!("{number}\n").repeat(number * 7 % 5000);
            fs::write(tree.join(format!("many/file-{number}")), content)?;
        }
        let large =
            (0..LARGE_BYTES).map(|at| (at.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]);
        fs::write(deep.join("large"), large.collect::<Vec<u8>>())?;
        fs::write(tree.join("hello"), "hello\n")?;
        fs::hard_link(tree.join("hello"), deep.join("hello-link"))?;
        symlink("a/b/c/d/large", tree.join("to-large"))?;
        File::create(tree.join("sparse"))?.write_all_at(b"end", 9 << 20)
    }

    /// Returns a path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the path of the image.
    pub fn image(&self) -> PathBuf {
        self.path("image")
    }

    /// Returns the content of the image.
    pub fn bytes(&self) -> Vec<u8> {
        fs::read(self.image()).unwrap()
    }

    /// Returns another version of the image, in which one byte that belongs to no file is changed.
    pub fn other_bytes(&self) -> Vec<u8> {
        let mut bytes = self.bytes();
        bytes[0] ^= 1;
        bytes
    }

    /// Checks that the image at `url` has the files of the local image, with ls, cat and a mount. `command` returns
    /// a subcommand of larder-remote with the options and variables that it needs.
    pub fn assert_same(&self, url: &str, command: impl Fn(&str) -> Command) {
        let listing = succeeds(command("ls").args([url, "/many"]));
        let names = String::from_utf8(listing).unwrap();
        assert_eq!(names.lines().count(), FILES, "{names}");
        let large = succeeds(command("cat").args([url, "/a/b/c/d/large"]));
        assert!(large == fs::read(self.path("tree/a/b/c/d/large")).unwrap());
        self.with_mount(url, command, |mountpoint| {
            let volume = Volume::open(self.image(), &OpenOptions::default()).unwrap();
            let comparison = Comparison {
                fields: Fields::all() - Fields::CREATED,
                closed: &[],
            };
            let mounted = DirectorySource::new("mount", mountpoint);
            let report = compare(&VolumeSource::new(&volume), &mounted, &comparison);
            report.assert_same(url);
            assert!(report.entries > FILES as u64, "{report}");
        });
    }

    /// Mounts the image at `url`, and calls `work` with the path of the mount, if this process can mount.
    pub fn with_mount(
        &self,
        url: &str,
        command: impl Fn(&str) -> Command,
        work: impl FnOnce(&Path),
    ) {
        if skip(&[Requirement::Root, Requirement::Fuse]) {
            return;
        }
        let mountpoint = self.path("mnt");
        succeeds(command("mount").arg(url).arg(&mountpoint));
        let mounted = Mounted(&mountpoint);
        work(&mountpoint);
        drop(mounted);
    }

    /// Mounts the image at `url`, calls `replace`, and checks that a read of a part that was not read before fails
    /// with `ESTALE`.
    pub fn assert_stale(
        &self,
        url: &str,
        command: impl Fn(&str) -> Command,
        replace: impl FnOnce(),
    ) {
        self.with_mount(url, command, |mountpoint| {
            assert_eq!(fs::read(mountpoint.join("hello")).unwrap(), b"hello\n");
            replace();
            let error = fs::read(mountpoint.join("to-large")).unwrap_err();
            assert_eq!(
                error.kind(),
                std::io::ErrorKind::StaleNetworkFileHandle,
                "{error}"
            );
        });
    }
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}

/// Returns what a command that must succeed prints.
#[track_caller]
pub fn succeeds(command: &mut Command) -> Vec<u8> {
    let output = run(command);
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {messages}");
    output.stdout
}

/// Checks that `command` fails with `message` for the image at `url`.
#[track_caller]
pub fn fails(command: &mut Command, url: &str, message: &str) {
    let output = run(command.arg(url));
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{command:?} succeeds");
    assert!(messages.contains(message), "{command:?}: {messages}");
}

/// Returns a subcommand of larder-remote without settings.
pub fn plain(subcommand: &str) -> Command {
    let mut command = command();
    command.arg(subcommand);
    command
}
