//! The transport of a mount: which one is used and reported, and what happens if `io_uring` cannot be used.

mod support;

use larder_fuse::Transport;
use larder_testkit::{Requirement, report_skipped, skip};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use support::{
    Fixture, Mountpoint, Server, User, as_nobody, assert_clean, assert_fails, binary, can_mount,
    has_root, in_own_namespace, is_mounted, mount, open_fuse_device, ready, run, text, tool,
    umount, wait_until,
};

/// Returns whether the kernel offers `io_uring` to FUSE servers.
fn is_offered() -> bool {
    Requirement::FuseOverUring.missing().is_none()
}

/// Returns the output of `larder`, called by `user` with `arguments` and `path`.
fn report(user: User, arguments: &[&str], path: &Path) -> String {
    let mut all: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    all.push(path.as_os_str());
    text(&run(user, &all).stdout)
}

/// Returns the statistics of a mount.
fn stats(user: User, mountpoint: &Path) -> serde_json::Value {
    serde_json::from_str(&report(user, &["stats", "--json"], mountpoint)).unwrap()
}

/// Asserts that `larder stats` reports this transport.
#[track_caller]
fn assert_transport(user: User, mountpoint: &Mountpoint, transport: &str) {
    let stats = stats(user, &mountpoint.0);
    assert_eq!(stats["transport"], transport, "{stats}");
}

/// Asserts that `larder info` reports this transport for a read-only mount.
#[track_caller]
fn assert_info(fixture: &Fixture, mountpoint: &Mountpoint, transport: &str) {
    let (image, at) = (fixture.image(), mountpoint.0.display());
    let info = report(User::Same, &["info"], &image);
    let shown = format!("{at} (transport: {transport})");
    assert!(info.contains(&shown), "{info}");
    let info = report(User::Same, &["info", "--json"], &image);
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    let mounted = serde_json::json!({ "mountpoint": at.to_string(), "transport": transport });
    assert_eq!(info["mounts"], serde_json::json!([mounted]));
}

#[test]
fn auto_is_io_uring_where_the_kernel_offers_it() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    let auto = if is_offered() {
        "io_uring"
    } else {
        "/dev/fuse"
    };
    for (options, transport) in [
        ("ro", auto),
        ("ro,transport=auto", auto),
        ("ro,threads=1", "/dev/fuse"),
        ("ro,transport=dev", "/dev/fuse"),
        ("rw,transport=dev", "/dev/fuse"),
    ] {
        mount(User::Same, &fixture, &mountpoint.0, options);
        assert_transport(User::Same, &mountpoint, transport);
        if options.starts_with("ro") {
            assert_info(&fixture, &mountpoint, transport);
        }
        umount(User::Same, &mountpoint.0);
    }
}

#[test]
fn auto_is_dev_fuse_without_cap_sys_nice() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    if skip(&[Requirement::FuseOverUring, Requirement::Tool("setpriv")]) {
        return;
    }
    for (options, transport) in [
        ("rw", "/dev/fuse"),
        ("ro", "/dev/fuse"),
        ("rw,transport=uring", "io_uring"),
        ("ro,transport=uring", "io_uring"),
    ] {
        let output = Command::new(tool("setpriv"))
            .args(["--bounding-set=-sys_nice", "--inh-caps=-sys_nice"])
            .arg(binary())
            .args(["mount", "-o", options])
            .args([&fixture.image(), &mountpoint.0])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_transport(User::Same, &mountpoint, transport);
        umount(User::Same, &mountpoint.0);
    }
}

#[test]
fn forced_io_uring_serves_mounts() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    if skip(&[Requirement::FuseOverUring]) {
        return;
    }
    for options in ["ro", "rw", "ro,threads=1", "rw,threads=1"] {
        let forced = format!("{options},transport=uring");
        mount(User::Same, &fixture, &mountpoint.0, &forced);
        assert_transport(User::Same, &mountpoint, "io_uring");
        if options.starts_with("ro") {
            assert_info(&fixture, &mountpoint, "io_uring");
        }
        let read = fs::read(mountpoint.0.join("hello")).unwrap();
        assert_eq!(read, b"hello, larder\n");
        if options.starts_with("rw") {
            fs::write(mountpoint.0.join("new"), options).unwrap();
            assert_eq!(
                fs::read_to_string(mountpoint.0.join("new")).unwrap(),
                options
            );
        }
        umount(User::Same, &mountpoint.0);
        assert_clean(&fixture.image());
    }
}

#[test]
fn forced_io_uring_serves_mounts_of_other_users() {
    let name = "forced_io_uring_serves_mounts_of_other_users";
    if !can_mount(User::Nobody) || skip(&[Requirement::FuseOverUring]) {
        return;
    }
    if !support::is_fuse_open() {
        if !has_root() || !in_own_namespace(name) {
            return;
        }
        open_fuse_device();
    }
    let fixture = Fixture::new();
    fixture.give_image(User::Nobody);
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Nobody));
    let options = "rw,fakeroot,transport=uring";
    mount(User::Nobody, &fixture, &mountpoint.0, options);
    assert_transport(User::Nobody, &mountpoint, "io_uring");
    let read = as_nobody("cat", &mountpoint.0.join("hello"));
    assert_eq!(text(&read.stdout), "hello, larder\n");
    let made = as_nobody("mkdir", &mountpoint.0.join("new"));
    assert!(made.status.success(), "{}", text(&made.stderr));
    umount(User::Nobody, &mountpoint.0);
    assert_clean(&fixture.image());
}

#[test]
fn forced_io_uring_that_is_not_offered_is_refused() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    if is_offered() {
        report_skipped("the kernel offers io_uring to FUSE servers");
        return;
    }
    let arguments = ["mount", "-o", "rw,transport=uring"].map(OsStr::new);
    let (image, at) = (fixture.image(), mountpoint.0.as_os_str());
    let output = run(
        User::Same,
        &[&arguments[..], &[image.as_os_str(), at]].concat(),
    );
    assert_fails(
        &output,
        1,
        &[
            "error: cannot use io_uring for requests of the kernel: the kernel does not offer it to \
             FUSE servers",
            "hint: on Linux 6.14 or later, as root: echo Y > \
             /sys/module/fuse/parameters/enable_uring; or use --transport auto",
        ],
    );
    assert!(!is_mounted(&mountpoint.0));
    // The image is free again.
    mount(User::Same, &fixture, &mountpoint.0, "rw");
    umount(User::Same, &mountpoint.0);
    assert_clean(&fixture.image());
}

#[test]
fn stats_note_once_what_root_sets_to_enable_io_uring() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    if !Path::new(Transport::URING_PARAMETER).exists() {
        report_skipped("this kernel cannot offer io_uring to FUSE servers");
        return;
    }
    let notes_on_io_uring = |arguments: &[&OsStr]| -> Vec<String> {
        let output = run(User::Same, arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let notes = text(&output.stderr);
        let on_io_uring = notes.lines().filter(|line| line.contains("io_uring"));
        on_io_uring.map(str::to_owned).collect()
    };
    let (image, at) = (fixture.image(), mountpoint.0.as_os_str());
    let of_mount = notes_on_io_uring(&["mount".as_ref(), image.as_os_str(), at]);
    assert!(of_mount.is_empty(), "{of_mount:?}");
    let note = "note: io_uring is off; walks of directory trees are faster with it: as root, echo Y > \
                /sys/module/fuse/parameters/enable_uring, and mount again";
    let expected: &[&str] = if is_offered() || !has_root() {
        &[]
    } else {
        &[note]
    };
    assert_eq!(notes_on_io_uring(&["stats".as_ref(), at]), expected);
    umount(User::Same, &mountpoint.0);
}

/// Returns a command that runs `larder` in the foreground. In it, no ring can be created: the system call fails with
/// `EPERM`, as it does with `kernel.io_uring_disabled` or in a container.
fn mount_without_rings(fixture: &Fixture, mountpoint: &Path, options: &str) -> Command {
    let mut command = Command::new(tool("strace"));
    command
        .args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=io_uring_setup"])
        .args(["-e", "inject=io_uring_setup:error=EPERM"])
        .arg(binary())
        .args(["mount", "--foreground", "-o", options])
        .arg(fixture.image())
        .arg(mountpoint)
        .env_remove("LARDER_LOG")
        .stdin(Stdio::null());
    command
}

#[test]
fn auto_falls_back_to_dev_fuse_without_losing_a_request() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    if skip(&[Requirement::FuseOverUring, Requirement::Tool("strace")]) {
        return;
    }
    let at = &mountpoint.0;
    let mut server = thread::scope(|scope| {
        // These programs send their requests as soon as the mount exists, so many requests arrive before it is served.
        let readers = [(); 8].map(|()| {
            scope.spawn(|| {
                wait_until("the mount", || is_mounted(at));
                fs::read(at.join("hello"))
            })
        });
        let mut mount = mount_without_rings(&fixture, at, "rw,transport=auto");
        let server = Server(mount.stdout(Stdio::null()).spawn().unwrap());
        for reader in readers {
            assert_eq!(reader.join().unwrap().unwrap(), b"hello, larder\n");
        }
        server
    });
    assert_transport(User::Same, &mountpoint, "/dev/fuse");
    assert_eq!(stats(User::Same, at)["device"]["back_end"], "threads");
    fs::write(at.join("new"), "new").unwrap();
    umount(User::Same, at);
    assert!(server.0.wait().unwrap().success());
    assert_clean(&fixture.image());
}

#[test]
fn forced_io_uring_without_rings_is_refused() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    if skip(&[Requirement::FuseOverUring, Requirement::Tool("strace")]) {
        return;
    }
    let output = mount_without_rings(&fixture, &mountpoint.0, "rw,transport=uring")
        .output()
        .unwrap();
    assert_fails(
        &output,
        1,
        &[
            "error: cannot use io_uring for requests of the kernel: Operation not permitted",
            "hint: as root: sysctl kernel.io_uring_disabled=0",
            "or use --transport dev",
        ],
    );
    assert!(!is_mounted(&mountpoint.0));
    assert_clean(&fixture.image());
}
