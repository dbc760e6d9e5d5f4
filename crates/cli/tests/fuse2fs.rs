//! The command lines by which apptainer and singularity run fuse2fs, option for option.

mod support;

use larder_testkit::report_skipped;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags, unmount};
use rustix::process::Signal;
use std::ffi::CString;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use support::processes::can_unshare;
use support::{
    Fixture, Mountpoint, NOBODY, Server, User, assert_clean, assert_fails, binary, can_mount,
    command, has_root, in_own_namespace, is_mounted, larder_ok, open_fuse_device, ready, sh,
    signal, text, tool, umount, wait_until,
};

/// The offset of the file system in the images of the tests with an offset.
const OFFSET_BYTES: &str = "1048576";

/// The script of a container engine in its own mount namespace. Its arguments are the image, the mount point, the
/// options, the access (`ro` or `rw`), and the command line of fuse2fs up to the options. The engine passes the image as
/// descriptor 3, looks for the mount in the list of mounts, and unmounts.
const ENGINE: &str = r#"
image=$1 mountpoint=$2 options=$3 access=$4
shift 4
if [ "$access" = ro ]; then exec 3<"$image"; else exec 3<>"$image"; fi
"$@" -f -o "$options" /proc/self/fd/3 "$mountpoint" &
server=$!
# If a command fails, the server must not outlive the script.
trap 'kill $server 2>/dev/null' EXIT
until grep -q " $mountpoint " /proc/self/mountinfo; do
    kill -0 $server || exit 1
    sleep 0.01
done
cat "$mountpoint/hello"
if [ "$access" = rw ]; then
    echo written >"$mountpoint/dir/deep/$(id -u)"
elif touch "$mountpoint/refused" 2>/dev/null; then
    exit 3
fi
umount "$mountpoint"
wait $server
trap - EXIT
"#;

/// Returns the fixture with a copy of the program, or `None` if a user without privileges cannot mount in a user
/// namespace.
fn ready_for_namespaces(test: &str) -> Option<(Fixture, PathBuf)> {
    if !can_mount(User::Nobody) || !has_root() || !in_own_namespace(test) {
        return None;
    }
    if !can_unshare(User::Nobody, &["--user", "--mount"]) {
        report_skipped("no user namespaces");
        return None;
    }
    open_fuse_device();
    let fixture = Fixture::new();
    make_overlay(&fixture, NOBODY);
    let program = fixture.path("fuse2fs");
    fs::copy(binary(), &program).unwrap();
    Some((fixture, program))
}

/// Makes the image whose files belong to `owner`, as `apptainer overlay create` does. With `--fakeroot`, this is root.
fn make_overlay(fixture: &Fixture, owner: u32) {
    let script = format!("chown -R {owner}:{owner} \"$1\"");
    sh(&script, &[&fixture.path("tree")]);
    fixture.make_image("ext3", "");
    fixture.give_image(User::Nobody);
}

/// Runs [`ENGINE`] as a user without privileges in a user namespace with the mapping `map`. `before` is the part of the
/// command line before the options.
fn run_engine(
    fixture: &Fixture,
    map: &str,
    (options, access): (&str, &str),
    before: &[&str],
) -> Output {
    let id = NOBODY.to_string();
    Command::new(tool("setpriv"))
        .args(["--reuid", &id, "--regid", &id, "--clear-groups"])
        .args(["unshare", "--user", map, "--mount", "--keep-caps"])
        .args(["sh", "-ec", ENGINE, "engine"])
        .args([fixture.path("image"), fixture.path("mnt")])
        .args([options, access])
        .args(before)
        .env_remove("LARDER_LOG")
        .output()
        .unwrap()
}

#[test]
fn apptainer_mounts_overlay_images() {
    let Some((fixture, program)) = ready_for_namespaces("apptainer_mounts_overlay_images") else {
        return;
    };
    fixture.directory("mnt", User::Nobody);
    let program = program.to_str().unwrap();
    // In the namespace, the user has the same ID or, with --fakeroot, that of root. The first two of each are the options of
    // versions 1.1 and 1.2.
    let cases = [
        (
            ("--map-current-user", NOBODY),
            [
                ("fakeroot", "rw"),
                ("fakeroot,ro", "ro"),
                ("allow_other,fakeroot", "rw"),
                ("allow_other,ro,fakeroot", "ro"),
            ],
        ),
        (
            ("--map-root-user", 0),
            [
                ("", "rw"),
                ("ro", "ro"),
                ("allow_other", "rw"),
                ("allow_other,ro", "ro"),
            ],
        ),
    ];
    for ((map, user), options) in cases {
        make_overlay(&fixture, user);
        for call in options {
            let output = run_engine(&fixture, map, call, &["stdbuf", "-oL", program]);
            let case = format!("{map} {call:?}: {}", text(&output.stderr));
            assert!(output.status.success(), "{case}");
            assert_eq!(text(&output.stdout), "hello, larder\n", "{case}");
            // apptainer prints messages of fuse2fs. The user's directory for sockets can belong to another user, because
            // all of these users are root in their namespaces.
            let stderr = text(&output.stderr);
            let messages = stderr.lines();
            let unexpected: Vec<_> = messages
                .filter(|line| !line.contains("statistics are not available"))
                .collect();
            assert!(unexpected.is_empty(), "{unexpected:?}");
            assert_clean(&fixture.image());
        }
        let path = format!("/dir/deep/{user}");
        let written = larder_ok(["cat".as_ref(), fixture.image().as_os_str(), path.as_ref()]);
        assert_eq!(written, "written\n");
    }
}

#[test]
fn apptainer_mounts_partition_of_a_larger_file() {
    let Some((fixture, program)) =
        ready_for_namespaces("apptainer_mounts_partition_of_a_larger_file")
    else {
        return;
    };
    fixture.directory("mnt", User::Nobody);
    let larger = fixture.path("larger");
    sh(
        "head -c 1048576 /dev/zero > \"$2\"; cat \"$1\" >> \"$2\"; mv \"$2\" \"$1\"; chown 65534 \"$1\"",
        &[&fixture.image(), &larger],
    );
    let offset = format!("OFFSETPRELOAD_OFFSET={OFFSET_BYTES}");
    // apptainer passes no other variables. The test does not have the library of LD_PRELOAD.
    let before = [
        "env",
        "-i",
        "OFFSETPRELOAD_FILE=/proc/self/fd/3",
        &offset,
        program.to_str().unwrap(),
    ];
    for (options, access) in [
        ("allow_other,fakeroot", "rw"),
        ("allow_other,ro,fakeroot", "ro"),
    ] {
        let output = run_engine(&fixture, "--map-current-user", (options, access), &before);
        let stderr = text(&output.stderr);
        assert!(output.status.success(), "{options}: {stderr}");
        assert_eq!(text(&output.stdout), "hello, larder\n", "{options}");
    }
    // The offset is that of another file.
    let other = ["env", "-i", "OFFSETPRELOAD_FILE=/none", &offset, before[4]];
    let output = run_engine(&fixture, "--map-current-user", ("ro", "ro"), &other);
    assert!(!output.status.success());
    sh(
        "tail -c +1048577 \"$1\" > \"$2\"",
        &[&fixture.image(), &larger],
    );
    assert_clean(&larger);
}

/// Mounts as a set-user-id program does, and starts the server without privileges. Returns the server.
fn serve_descriptor(fixture: &Fixture, mountpoint: &Path) -> Server {
    // Without CLOEXEC, so that the server inherits the descriptor.
    let device = rustix::fs::open("/dev/fuse", OFlags::RDWR, Mode::empty()).unwrap();
    let number = device.as_raw_fd();
    let data = format!("fd={number},rootmode=40000,user_id={NOBODY},group_id={NOBODY},allow_other");
    let data = CString::new(data).unwrap();
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("fuse2fs", mountpoint, "fuse", flags, data.as_c_str()).unwrap();
    let child = command("larder", User::Nobody)
        .args(["fuse2fs", "-f", "-o", "allow_other,fakeroot"])
        .arg(fixture.image())
        .arg(format!("/dev/fd/{number}"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(device);
    Server(child)
}

#[test]
fn descriptor_of_a_mount_is_served() {
    let test = "descriptor_of_a_mount_is_served";
    if !can_mount(User::Nobody) || !has_root() || !in_own_namespace(test) {
        return;
    }
    let fixture = Fixture::new();
    fixture.give_image(User::Nobody);
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    // The mount ends when the program that mounted unmounts.
    let mut server = serve_descriptor(&fixture, &mountpoint.0);
    let hello = fs::read_to_string(mountpoint.0.join("hello")).unwrap();
    assert_eq!(hello, "hello, larder\n");
    fs::write(mountpoint.0.join("new"), "by root\n").unwrap();
    unmount(&mountpoint.0, UnmountFlags::empty()).unwrap();
    assert!(server.0.wait().unwrap().success());
    assert_clean(&fixture.image());

    // A signal ends the connection, and written data is on the image.
    sh("mount -t fusectl none /sys/fs/fuse/connections", &[]);
    let mut server = serve_descriptor(&fixture, &mountpoint.0);
    assert_eq!(
        fs::read_to_string(mountpoint.0.join("new")).unwrap(),
        "by root\n"
    );
    fs::write(mountpoint.0.join("second"), "x\n").unwrap();
    signal(&server, Signal::TERM);
    assert!(server.0.wait().unwrap().success());
    assert!(fs::write(mountpoint.0.join("third"), "x\n").is_err());
    assert!(is_mounted(&mountpoint.0));
    assert_clean(&fixture.image());
    let second = larder_ok([
        "cat".as_ref(),
        fixture.image().as_os_str(),
        "/second".as_ref(),
    ]);
    assert_eq!(second, "x\n");
}

#[test]
fn descriptor_that_is_not_of_fuse_is_refused() {
    let Some((fixture, _)) = ready() else {
        return;
    };
    let refused = Command::new(binary())
        .arg0("fuse2fs")
        .args([fixture.image().as_os_str(), "/dev/fd/0".as_ref()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let message = "/dev/fd/0 is not an open /dev/fuse";
    assert_fails(&refused, 32, &[message]);
}

#[test]
fn singularity_shows_one_owner_for_all_files() {
    let Some((fixture, mountpoint)) = ready() else {
        return;
    };
    let at = |name: &str| mountpoint.0.join(name);
    let mount = |options: &str| {
        let output = command("fuse2fs", User::Same)
            .args(["-o", options])
            .args([fixture.image(), mountpoint.0.clone()])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    let owner = |name: &str| {
        let metadata = fs::symlink_metadata(at(name)).unwrap();
        (metadata.uid(), metadata.gid())
    };
    mount("uid=1234,gid=4321,dev,suid,allow_other");
    assert_eq!((owner("hello"), owner("dir")), ((1234, 4321), (1234, 4321)));
    // The listing of a directory passes owners, too.
    let listed: Vec<_> = fs::read_dir(at("dir"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().uid())
        .collect();
    assert!(!listed.is_empty() && listed.iter().all(|uid| *uid == 1234));
    // The owner has the rights of the owner: others cannot enter this directory.
    let entered = |uid: &str| {
        Command::new(tool("setpriv"))
            .args(["--reuid", uid, "--regid", uid, "--clear-groups", "ls"])
            .arg(at("dir/deep"))
            .output()
            .unwrap()
            .status
            .success()
    };
    assert!(entered("1234") && !entered("1235"));
    fs::write(at("new"), "x").unwrap();
    assert_eq!(owner("new"), (1234, 4321));
    umount(User::Same, &mountpoint.0);
    assert_clean(&fixture.image());

    // The image has the true owners.
    mount("gid=4321,ro");
    assert_eq!((owner("hello"), owner("new")), ((0, 4321), (0, 4321)));
    umount(User::Same, &mountpoint.0);
    wait_until("the unmount", || !is_mounted(&mountpoint.0));
}
