//! Images that are in use, or that cannot be written.

mod support;

use larder_block::lock_holder;
use larder_testkit::e2fsprogs::debugfs_write;
use larder_testkit::tool::Tool;
use rustix::mount::UnmountFlags;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use support::{
    Fixture, Mountpoint, User, assert_clean, assert_fails, can_mount, command, has_root,
    in_own_namespace, is_fuse_open, mount, mount_line, open_fuse_device, ready, run, sh, text,
    umount, wait_until,
};

/// Returns a file that is open on a detached mount.
fn open_on_detached_mount(fixture: &Fixture, mountpoint: &Path) -> File {
    mount(User::Same, fixture, mountpoint, "rw");
    let path = mountpoint.join("written");
    fs::write(&path, "content").unwrap();
    let file = File::open(&path).unwrap();
    rustix::mount::unmount(mountpoint, UnmountFlags::DETACH).unwrap();
    file
}

#[test]
fn command_waits_for_server_of_detached_mount() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    let file = open_on_detached_mount(&fixture, &mountpoint.0);
    let server = lock_holder(&fixture.image()).unwrap();
    let mut listing = command("larder", User::Same)
        .args(["ls".as_ref(), fixture.image().as_os_str(), "/".as_ref()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut note = String::new();
    let mut stderr = BufReader::new(listing.stderr.take().unwrap());
    stderr.read_line(&mut note).unwrap();
    let expected = format!("note: waiting for process {} (larder)", server.pid);
    assert!(note.contains(&expected), "{note}");
    // When its last file is closed, the server writes the remaining data and ends.
    drop(file);
    let mut names = Vec::new();
    let mut stdout = listing.stdout.take().unwrap();
    stdout.read_to_end(&mut names).unwrap();
    let names = text(&names);
    assert!(listing.wait().unwrap().success());
    assert!(names.contains("written"), "{names}");
    assert_clean(&fixture.image());
}

#[test]
fn command_that_times_out_names_server() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    let file = open_on_detached_mount(&fixture, &mountpoint.0);
    let server = lock_holder(&fixture.image()).unwrap();
    let refused = run(User::Same, &["ls".as_ref(), fixture.image().as_ref()]);
    let holder = format!("is in use by process {} (larder)", server.pid);
    let hint = "hint: the process has no mount of the image";
    assert_fails(&refused, 1, &["note: waiting", &holder, hint]);
    drop(file);
    wait_until("the end of the server", || {
        lock_holder(&fixture.image()).is_none()
    });
}

#[test]
fn background_server_is_named_after_its_program() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    mount(User::Same, &fixture, &mountpoint.0, "rw");
    let server = lock_holder(&fixture.image()).unwrap();
    let comm = fs::read_to_string(format!("/proc/{}/comm", server.pid)).unwrap();
    assert_eq!(comm, "larder\n");
    umount(User::Same, &mountpoint.0);
}

/// Mounts the image without `ro` and `rw`.
fn mount_without_options(user: User, image: &Path, mountpoint: &Path) -> Output {
    run(
        user,
        &["mount".as_ref(), image.as_ref(), mountpoint.as_ref()],
    )
}

/// Asserts that a mount succeeded and is read-only, and that a warning gave the reason.
#[track_caller]
fn assert_read_only(output: &Output, mountpoint: &Path, why: &str) {
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let warns = stderr.contains("warning: image") && stderr.contains("is mounted read-only");
    assert!(warns && stderr.contains(why), "{stderr}");
    let line = mount_line(mountpoint).unwrap();
    assert!(line.contains(" ro,"), "{line}");
    assert!(fs::read_dir(mountpoint).is_ok());
}

#[test]
fn image_that_may_not_be_written_is_mounted_read_only() {
    let name = "image_that_may_not_be_written_is_mounted_read_only";
    if !can_mount(User::Nobody) || !has_root() {
        return;
    }
    if !is_fuse_open() && !in_own_namespace(name) {
        return;
    }
    open_fuse_device();
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Nobody));
    let output = mount_without_options(User::Nobody, &fixture.image(), &mountpoint.0);
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.contains("is mounted read-only: no permission to write it"),
        "{stderr}"
    );
    assert!(mount_line(&mountpoint.0).unwrap().contains(" ro,"));
    umount(User::Nobody, &mountpoint.0);
}

#[test]
fn image_on_a_read_only_file_system_is_mounted_read_only() {
    if !can_mount(User::Same)
        || !has_root()
        || !in_own_namespace("image_on_a_read_only_file_system_is_mounted_read_only")
    {
        return;
    }
    let (fixture, mountpoint) = ready().unwrap();
    let shown = fixture.directory("shown", User::Same);
    let script =
        r#"touch "$2/image"; mount --bind "$1" "$2/image"; mount -o remount,bind,ro "$2/image""#;
    sh(script, &[&fixture.image(), &shown]);
    let image = shown.join("image");
    let output = mount_without_options(User::Same, &image, &mountpoint.0);
    assert_read_only(&output, &mountpoint.0, "read-only file system");
    umount(User::Same, &mountpoint.0);
    let refused = run(
        User::Same,
        &[
            "mount".as_ref(),
            "-orw".as_ref(),
            image.as_ref(),
            mountpoint.0.as_ref(),
        ],
    );
    assert_fails(&refused, 1, &["read-only file system", "hint:", "-o ro"]);
}

#[test]
fn image_on_a_read_only_device_is_mounted_read_only() {
    if larder_testkit::skip(&[larder_testkit::Requirement::LoopMount]) {
        return;
    }
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    let attach = || Tool::new("losetup").args(["--find", "--show", "--read-only"]);
    let device = Device(attach().arg(fixture.image()).run().unwrap().trim().into());
    let output = mount_without_options(User::Same, &device.0, &mountpoint.0);
    assert_read_only(&output, &mountpoint.0, "read-only file system or device");
    umount(User::Same, &mountpoint.0);
}

/// A loop device, detached when dropped.
struct Device(PathBuf);

impl Drop for Device {
    fn drop(&mut self) {
        let detached = Tool::new("losetup").arg("--detach").arg(&self.0).run();
        if let Err(error) = detached {
            eprintln!("{error}");
        }
    }
}

#[test]
fn image_with_a_feature_that_cannot_be_written_is_mounted_read_only() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    let request = "set_super_value feature_ro_compat 0x10000000";
    debugfs_write(&fixture.image(), &[request]).unwrap();
    let output = mount_without_options(User::Same, &fixture.image(), &mountpoint.0);
    assert_read_only(&output, &mountpoint.0, "feature");
    umount(User::Same, &mountpoint.0);
    // mount(8) passes `rw` itself.
    let output = command("mount.larder", User::Same)
        .args([fixture.image(), mountpoint.0.clone()])
        .args(["-o", "rw"])
        .output()
        .unwrap();
    assert_read_only(&output, &mountpoint.0, "feature");
    umount(User::Same, &mountpoint.0);
    let refused = run(
        User::Same,
        &[
            "mount".as_ref(),
            "-orw".as_ref(),
            fixture.image().as_ref(),
            mountpoint.0.as_ref(),
        ],
    );
    assert_fails(&refused, 1, &["cannot be mounted for writing", "-o ro"]);
}

#[test]
fn stats_without_lookups_print_note() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    mount(User::Same, &fixture, &mountpoint.0, "rw");
    let note = || {
        let output = run(User::Same, &["stats".as_ref(), mountpoint.0.as_ref()]);
        assert!(output.status.success());
        let notes = text(&output.stderr);
        let is_about_lookups = |line: &&str| !line.contains("io_uring");
        notes.lines().filter(is_about_lookups).collect::<String>()
    };
    assert!(note().starts_with("note: no "), "{}", note());
    fs::read_dir(&mountpoint.0).unwrap().for_each(drop);
    let note_on_pages = note();
    assert!(
        note_on_pages.starts_with("note: no pages were looked up yet"),
        "{note_on_pages}"
    );
    fs::read(mountpoint.0.join("hello")).unwrap();
    assert_eq!(note(), "");
    umount(User::Same, &mountpoint.0);
}
