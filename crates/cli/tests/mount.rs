//! `larder mount`, `umount` and `stats`, end to end.

mod support;

use rustix::process::Signal;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{
    Fixture, Mountpoint, User, as_nobody, assert_clean, assert_fails, can_mount, command, content,
    has_root, in_own_namespace, install_mount_helper, is_mounted, mount, mount_line, name_of,
    open_fuse_device, run, serve, sh, signal, text, umount, wait_until,
};

/// Returns the socket of the mount at `mountpoint`, in the directories for `uid`.
fn socket(mountpoint: &Path, uid: u32) -> Option<PathBuf> {
    let line = mount_line(mountpoint)?;
    let device = line.split(' ').nth(2)?.replace(':', "-");
    let name = format!("{device}.sock");
    [
        "/run/larder".to_owned(),
        format!("/run/user/{uid}/larder"),
        format!("/tmp/larder-{uid}"),
    ]
    .iter()
    .map(|directory| Path::new(directory).join(&name))
    .find(|path| path.exists())
}

#[test]
fn mounted_tree_equals_the_source() {
    if !can_mount(User::Same) || !has_root() {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    mount(User::Same, &fixture, &mountpoint.0, "ro");
    compare(&fixture.path("tree"), &mountpoint.0);
    // In the second comparison, the kernel answers from its caches.
    compare(&fixture.path("tree"), &mountpoint.0);
    assert_eq!(fs::metadata(&mountpoint.0).unwrap().ino(), 2);
    umount(User::Same, &mountpoint.0);
}

fn compare(source: &Path, mounted: &Path) {
    let names = |path: &Path| {
        let mut names: Vec<_> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.retain(|name| name != "lost+found");
        names.sort();
        names
    };
    assert_eq!(names(source), names(mounted));
    for name in names(source) {
        let (from, to) = (source.join(&name), mounted.join(&name));
        let (expected, found) = (
            from.symlink_metadata().unwrap(),
            to.symlink_metadata().unwrap(),
        );
        assert_eq!(expected.mode(), found.mode(), "{}", to.display());
        assert_eq!(expected.nlink(), found.nlink(), "{}", to.display());
        assert_eq!(expected.mtime(), found.mtime(), "{}", to.display());
        if expected.is_dir() {
            compare(&from, &to);
        } else if expected.is_symlink() {
            assert_eq!(fs::read_link(&from).unwrap(), fs::read_link(&to).unwrap());
        } else {
            assert_eq!(expected.len(), found.len(), "{}", to.display());
            assert!(
                fs::read(&from).unwrap() == fs::read(&to).unwrap(),
                "{}",
                to.display()
            );
        }
    }
}

#[test]
fn mounted_file_can_be_read_anywhere_and_its_holes_found() {
    if !can_mount(User::Same) || !has_root() {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    mount(User::Same, &fixture, &mountpoint.0, "ro,threads=2");
    let mut large = fs::File::open(mountpoint.0.join("dir/large")).unwrap();
    let mut piece = vec![0; 10_000];
    large.seek(SeekFrom::Start(1_234_567)).unwrap();
    large.read_exact(&mut piece).unwrap();
    assert!(piece == content(3 << 20)[1_234_567..1_244_567]);
    let sparse = fs::File::open(mountpoint.0.join("sparse")).unwrap();
    let data = rustix::fs::seek(&sparse, rustix::fs::SeekFrom::Data(0)).unwrap();
    let hole = rustix::fs::seek(&sparse, rustix::fs::SeekFrom::Hole(data)).unwrap();
    assert!(
        data <= 32 << 20 && hole > 32 << 20 && hole < 33 << 20,
        "{data} {hole}"
    );
    let past = rustix::fs::seek(&sparse, rustix::fs::SeekFrom::Data(hole)).unwrap_err();
    assert_eq!(past, rustix::io::Errno::NXIO);
    drop((large, sparse));
    umount(User::Same, &mountpoint.0);
}

#[test]
fn writes_to_read_only_mount_fail() {
    if !can_mount(User::Same) || !has_root() {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    let before = fs::read(fixture.image()).unwrap();
    mount(User::Same, &fixture, &mountpoint.0, "ro");
    for result in [
        fs::write(mountpoint.0.join("new"), "x"),
        fs::write(mountpoint.0.join("hello"), "x"),
        fs::remove_file(mountpoint.0.join("hello")),
        fs::create_dir(mountpoint.0.join("d")),
        fs::rename(mountpoint.0.join("hello"), mountpoint.0.join("x")),
    ] {
        assert_eq!(
            result.unwrap_err().kind(),
            std::io::ErrorKind::ReadOnlyFilesystem
        );
    }
    umount(User::Same, &mountpoint.0);
    assert!(before == fs::read(fixture.image()).unwrap());
}

#[test]
fn mount_type_follows_the_subtype() {
    if !can_mount(User::Same) || !has_root() {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    for (options, fs_type) in [
        ("ro", " - fuse.larder "),
        ("ro,subtype=", " - fuse "),
        ("ro,subtype=x4", " - fuse.x4 "),
    ] {
        mount(User::Same, &fixture, &mountpoint.0, options);
        let line = mount_line(&mountpoint.0).unwrap();
        assert!(line.contains(fs_type), "{line}");
        assert!(line.contains(" ro,nosuid,nodev"), "{line}");
        assert!(line.contains("default_permissions"), "{line}");
        umount(User::Same, &mountpoint.0);
    }
    mount(
        User::Same,
        &fixture,
        &mountpoint.0,
        "ro,suid,dev,noexec,allow_other,fsname=a\\,b",
    );
    let line = mount_line(&mountpoint.0).unwrap();
    assert!(
        line.contains(" ro,noexec") && line.contains("allow_other") && line.contains(" a,b "),
        "{line}"
    );
    umount(User::Same, &mountpoint.0);
}

#[test]
fn stats_are_restricted_to_owner_and_root() {
    if !can_mount(User::Same) || !has_root() {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    mount(User::Same, &fixture, &mountpoint.0, "ro,cache_size=32M");
    fs::read(mountpoint.0.join("dir/large")).unwrap();
    let table = run(User::Same, &["stats".as_ref(), mountpoint.0.as_ref()]);
    let shown = text(&table.stdout);
    assert!(
        shown.contains("32.0 MiB") && shown.contains("readahead"),
        "{shown}{}",
        text(&table.stderr)
    );
    let json = run(
        User::Same,
        &["stats".as_ref(), "--json".as_ref(), mountpoint.0.as_ref()],
    );
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(json["page"]["lookups"].as_u64().unwrap() > 0, "{json}");
    assert!(
        json["device"]["bytes"].as_u64().unwrap() >= 3 << 20,
        "{json}"
    );
    assert_eq!(json["readahead"]["policy"], "ondemand", "{json}");
    assert_eq!(json["readahead"]["max_bytes"], 1 << 20, "{json}");
    let back_ends = ["io_uring", "threads"].map(serde_json::Value::from);
    assert!(back_ends.contains(&json["device"]["back_end"]), "{json}");
    for cache in ["page", "buffer", "dentry", "inode"] {
        let output = run(
            User::Same,
            &[
                "stats".as_ref(),
                "--histogram".as_ref(),
                cache.as_ref(),
                mountpoint.0.as_ref(),
            ],
        );
        assert!(!output.stdout.is_empty(), "{}", text(&output.stderr));
    }
    let other = run(User::Nobody, &["stats".as_ref(), mountpoint.0.as_ref()]);
    assert_fails(
        &other,
        1,
        &[
            "was mounted by user 0",
            "hint: run the command as user 0 or as root",
        ],
    );
    let socket = socket(&mountpoint.0, 0).unwrap();
    assert_eq!(fs::metadata(&socket).unwrap().mode() & 0o777, 0o600);
    umount(User::Same, &mountpoint.0);
    assert!(!socket.exists());
}

#[test]
fn umount_waits_until_the_image_is_free() {
    if !can_mount(User::Same) || !has_root() {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    mount(User::Same, &fixture, &mountpoint.0, "ro");
    let image = fs::File::open(fixture.image()).unwrap();
    let exclusive = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    assert!(
        rustix::fs::flock(&image, exclusive).is_err(),
        "the image is not locked"
    );
    umount(User::Same, &mountpoint.0);
    rustix::fs::flock(&image, exclusive).unwrap();
}

#[test]
fn mount_in_use_is_unmounted_only_lazily() {
    if !can_mount(User::Same) || !has_root() {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    mount(User::Same, &fixture, &mountpoint.0, "ro");
    let mut open = fs::File::open(mountpoint.0.join("hello")).unwrap();
    let output = run(User::Same, &["umount".as_ref(), mountpoint.0.as_ref()]);
    assert_fails(&output, 1, &["is in use", "hint:", "--lazy"]);
    let output = run(
        User::Same,
        &["umount".as_ref(), "-l".as_ref(), mountpoint.0.as_ref()],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!is_mounted(&mountpoint.0));
    let mut read = String::new();
    open.read_to_string(&mut read).unwrap();
    assert_eq!(read, "hello, larder\n");
}

#[test]
fn signal_unmounts_a_foreground_server() {
    if !can_mount(User::Same) || !has_root() {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    for number in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut server = serve(&fixture, &mountpoint.0, "ro");
        assert!(mountpoint.0.join("hello").exists());
        signal(&server, number);
        assert!(server.0.wait().unwrap().success());
        assert!(!is_mounted(&mountpoint.0));
    }
}

#[test]
fn signal_detaches_a_mount_in_use() {
    if !can_mount(User::Same) || !has_root() {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    let mut server = serve(&fixture, &mountpoint.0, "ro");
    let open = fs::File::open(mountpoint.0.join("hello")).unwrap();
    signal(&server, Signal::TERM);
    wait_until("the detached mount", || !is_mounted(&mountpoint.0));
    assert!(server.0.try_wait().unwrap().is_none());
    drop(open);
    assert!(server.0.wait().unwrap().success());
}

#[test]
fn server_ends_when_the_system_unmounts() {
    if !can_mount(User::Same) || !has_root() {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    let mut server = serve(&fixture, &mountpoint.0, "ro");
    // A server fails if its mount ends before it is served, so this waits for a reply.
    assert!(mountpoint.0.join("hello").exists());
    wait_until("an unmount", || {
        rustix::mount::unmount(&mountpoint.0, rustix::mount::UnmountFlags::empty()).is_ok()
    });
    assert!(server.0.wait().unwrap().success());
}

#[test]
fn umount_removes_mount_of_killed_server() {
    if !can_mount(User::Same) || !has_root() {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    let mut server = serve(&fixture, &mountpoint.0, "ro");
    wait_until("the socket", || socket(&mountpoint.0, 0).is_some());
    let socket = socket(&mountpoint.0, 0).unwrap();
    signal(&server, Signal::KILL);
    server.0.wait().unwrap();
    assert!(is_mounted(&mountpoint.0) && socket.exists());
    let again = run(
        User::Same,
        &[
            "mount".as_ref(),
            fixture.image().as_ref(),
            mountpoint.0.as_ref(),
        ],
    );
    assert_fails(
        &again,
        1,
        &[
            "is a mount whose server has exited",
            "hint: unmount it first: larder umount",
        ],
    );
    let stats = run(User::Same, &["stats".as_ref(), mountpoint.0.as_ref()]);
    assert_fails(&stats, 1, &["no larder server answers", "hint:"]);
    umount(User::Same, &mountpoint.0);
    assert!(!socket.exists());
}

/// Runs mount(8), which must succeed.
#[track_caller]
fn system_mount<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) {
    let output = Command::new("mount").args(args).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// Returns the options of the mount point itself, such as `rw,nosuid`.
fn mount_flags(path: &Path) -> Vec<String> {
    let line = mount_line(path).unwrap();
    let flags = line.split(' ').nth(5).unwrap();
    flags.split(',').map(str::to_owned).collect()
}

#[test]
fn mount_without_root_needs_no_path() {
    let name = "mount_without_root_needs_no_path";
    if !can_mount(User::Nobody) || (!support::is_fuse_open() && !has_root()) {
        return;
    }
    if !support::is_fuse_open() && !in_own_namespace(name) {
        return;
    }
    open_fuse_device();
    let fixture = Fixture::new();
    fixture.give_image(User::Nobody);
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Nobody));
    for args in [
        vec!["mount".into(), fixture.image(), mountpoint.0.clone()],
        vec!["umount".into(), mountpoint.0.clone()],
    ] {
        let mut larder = command("larder", User::Nobody);
        let output = larder.env_clear().args(args).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    assert!(!is_mounted(&mountpoint.0));
    assert_clean(&fixture.image());
}

#[test]
fn fstab_line_with_user_mounts_without_root() {
    let name = "fstab_line_with_user_mounts_without_root";
    if !can_mount(User::Nobody) || !has_root() || !in_own_namespace(name) {
        return;
    }
    open_fuse_device();
    let fixture = Fixture::new();
    fixture.give_image(User::Nobody);
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Nobody));
    install_mount_helper(&fixture.path("sbin"));
    // mount(8) accepts user mounts only from this file.
    let fstab = fixture.path("fstab");
    let line = format!(
        "{} {} larder noauto,user 0 0\n",
        fixture.image().display(),
        mountpoint.0.display()
    );
    fs::write(&fstab, line).unwrap();
    sh("mount --bind \"$1\" /etc/fstab", &[&fstab]);
    let output = as_nobody("mount", &mountpoint.0);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let flags = mount_flags(&mountpoint.0);
    for flag in ["nosuid", "nodev"] {
        assert!(flags.contains(&flag.to_owned()), "{flag} not in {flags:?}");
    }
    let read = as_nobody("cat", &mountpoint.0.join("hello"));
    assert_eq!(text(&read.stdout), "hello, larder\n");
    umount(User::Nobody, &mountpoint.0);
    assert_clean(&fixture.image());
}

#[test]
fn mount_by_type_has_the_flags_that_root_gives() {
    let name = "mount_by_type_has_the_flags_that_root_gives";
    if !can_mount(User::Same) || !has_root() || !in_own_namespace(name) {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    install_mount_helper(&fixture.path("sbin"));
    let image = fixture.image();
    let refused = |flag: &str| mount_flags(&mountpoint.0).contains(&flag.to_owned());
    for (options, suid, dev) in [
        ("suid,dev", true, true),
        ("defaults", true, true),
        ("nosuid", false, true),
        ("nodev", true, false),
        ("suid,dev,nosuid,nodev", false, false),
        ("user", false, false),
        ("user,suid", true, false),
    ] {
        system_mount([
            "-t".as_ref(),
            "larder".as_ref(),
            "-o".as_ref(),
            options.as_ref(),
            image.as_os_str(),
            mountpoint.0.as_os_str(),
        ]);
        let found = (!refused("nosuid"), !refused("nodev"));
        assert_eq!(found, (suid, dev), "-o {options}");
        umount(User::Same, &mountpoint.0);

        let fstab = fixture.path("fstab");
        let (image, at) = (image.display(), mountpoint.0.display());
        fs::write(&fstab, format!("{image} {at} larder {options} 0 0\n")).unwrap();
        system_mount(["-T".as_ref(), fstab.as_os_str(), mountpoint.0.as_os_str()]);
        let found = (!refused("nosuid"), !refused("nodev"));
        assert_eq!(found, (suid, dev), "fstab: {options}");
        umount(User::Same, &mountpoint.0);
    }
}

#[test]
fn mount_without_root_works_end_to_end() {
    if !can_mount(User::Nobody) {
        return;
    }
    if !support::is_fuse_open() {
        if !has_root() || !in_own_namespace("mount_without_root_works_end_to_end") {
            return;
        }
        open_fuse_device();
    }
    let fixture = Fixture::new();
    fixture.give_image(User::Nobody);
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Nobody));
    mount(
        User::Nobody,
        &fixture,
        &mountpoint.0,
        "subtype=larder,cache_size=16M",
    );
    let line = mount_line(&mountpoint.0).unwrap();
    assert!(
        line.contains(" - fuse.larder ") && line.contains("nosuid,nodev"),
        "{line}"
    );
    let read = as_nobody("cat", &mountpoint.0.join("hello"));
    assert_eq!(
        text(&read.stdout),
        "hello, larder\n",
        "{}",
        text(&read.stderr)
    );
    let listed = as_nobody("ls", &mountpoint.0);
    assert!(listed.stdout.starts_with(b"dir\nhello\n"));
    // The kernel checks permissions: this directory and the root belong to root.
    if has_root() {
        assert!(
            !as_nobody("ls", &mountpoint.0.join("dir/deep"))
                .status
                .success()
        );
        assert!(
            !as_nobody("touch", &mountpoint.0.join("new"))
                .status
                .success()
        );
        assert!(
            fs::metadata(&mountpoint.0).is_err(),
            "root is kept out without allow_root"
        );
    }
    for user in [User::Nobody, User::Same] {
        let stats = run(user, &["stats".as_ref(), mountpoint.0.as_ref()]);
        assert!(stats.status.success(), "{}", text(&stats.stderr));
    }
    let again = run(
        User::Nobody,
        &[
            "mount".as_ref(),
            fixture.image().as_ref(),
            mountpoint.0.as_ref(),
        ],
    );
    assert_fails(&again, 1, &["is already a larder mount of"]);
    umount(User::Nobody, &mountpoint.0);
    assert_clean(&fixture.image());
    mount(User::Nobody, &fixture, &mountpoint.0, "fakeroot");
    let made = as_nobody("touch", &mountpoint.0.join("new"));
    assert!(made.status.success(), "{}", text(&made.stderr));
    umount(User::Nobody, &mountpoint.0);
    assert_clean(&fixture.image());
    mount(User::Nobody, &fixture, &mountpoint.0, "ro,subtype=");
    assert!(mount_line(&mountpoint.0).unwrap().contains(" - fuse "));
    umount(User::Nobody, &mountpoint.0);
}

#[test]
fn mount_by_type_and_fstab_work() {
    let name = "mount_by_type_and_fstab_work";
    if !can_mount(User::Same) || !has_root() || !in_own_namespace(name) {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    install_mount_helper(&fixture.path("sbin"));
    let system_mount =
        |args: &[&std::ffi::OsStr]| Command::new("mount").args(args).output().unwrap();
    let output = system_mount(&[
        "-t".as_ref(),
        "larder".as_ref(),
        "-o".as_ref(),
        "ro,noatime,cache_size=16M".as_ref(),
        fixture.image().as_ref(),
        mountpoint.0.as_ref(),
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        fs::read(mountpoint.0.join("hello")).unwrap(),
        b"hello, larder\n"
    );
    assert!(
        Command::new("umount")
            .arg(&mountpoint.0)
            .status()
            .unwrap()
            .success()
    );

    let fstab = fixture.path("fstab");
    let line = format!(
        "{} {} larder ro,noauto,user,x-test 0 0\n",
        fixture.image().display(),
        mountpoint.0.display()
    );
    fs::write(&fstab, line).unwrap();
    let output = system_mount(&["-T".as_ref(), fstab.as_ref(), mountpoint.0.as_ref()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(mount_line(&mountpoint.0).unwrap().contains("noexec"));
    umount(User::Same, &mountpoint.0);

    let output = system_mount(&[
        "-t".as_ref(),
        "larder".as_ref(),
        "/nonexistent".as_ref(),
        mountpoint.0.as_ref(),
    ]);
    assert_fails(&output, 32, &["error: image /nonexistent does not exist"]);
    let output = system_mount(&[
        "-t".as_ref(),
        "larder".as_ref(),
        "-o".as_ref(),
        "frobnicate".as_ref(),
        fixture.image().as_ref(),
        mountpoint.0.as_ref(),
    ]);
    assert_fails(&output, 1, &["unknown mount option 'frobnicate'"]);
}

#[test]
fn helper_accepts_flags_of_mount() {
    let helper = |args: &[&str]| {
        command("mount.larder", User::Same)
            .args(args)
            .output()
            .unwrap()
    };
    let fake = helper(&[
        "/nonexistent",
        "/mnt",
        "-f",
        "-n",
        "-s",
        "-v",
        "-t",
        "larder",
        "-o",
        "rw,frobnicate",
    ]);
    assert!(fake.status.success(), "{}", text(&fake.stderr));
    assert_fails(
        &helper(&["/nonexistent", "/mnt", "-o", "frobnicate"]),
        1,
        &["frobnicate"],
    );
    assert_fails(&helper(&["/nonexistent"]), 1, &["Usage"]);
}

#[test]
fn non_utf8_names_can_be_read() {
    if !can_mount(User::Same) || !has_root() {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    mount(User::Same, &fixture, &mountpoint.0, "ro");
    assert_eq!(
        fs::read(mountpoint.0.join(name_of(b"no\xfftext"))).unwrap(),
        b"bytes\n"
    );
    assert_eq!(
        fs::metadata(mountpoint.0.join("absent"))
            .unwrap_err()
            .kind(),
        std::io::ErrorKind::NotFound
    );
    umount(User::Same, &mountpoint.0);
}
