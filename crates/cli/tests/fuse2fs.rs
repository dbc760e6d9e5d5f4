//! The command lines by which apptainer and singularity run fuse2fs, option for option.

mod support;

use larder_testkit::e2fsprogs::make_image_of;
use larder_testkit::report_skipped;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags, unmount};
use rustix::process::Signal;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
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

/// The directory of the FUSE control file system.
const CONNECTIONS: &str = "/sys/fs/fuse/connections";

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

/// Makes the image whose files belong to `owner`, as `apptainer overlay create` does. With `--fakeroot`, the owner is
/// root.
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
    // In the namespace, the user has the same ID or, with --fakeroot, that of root. In each of these two cases, the
    // first two calls have the options of versions 1.1 and 1.2.
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
        assert_eq!(content(&fixture, &path), "written\n");
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

/// Mounts with the options `kernel`, as a set-user-id program does, and starts the server with the options `larder`, usually
/// without privileges. Returns the server.
fn serve_descriptor(
    fixture: &Fixture,
    mountpoint: &Path,
    (kernel, larder): (&str, &str),
    before: impl FnOnce(Command) -> Command,
) -> Server {
    // Without CLOEXEC, so that the server inherits the descriptor.
    let device = rustix::fs::open("/dev/fuse", OFlags::RDWR, Mode::empty()).unwrap();
    let number = device.as_raw_fd();
    let data = format!("fd={number},rootmode=40000,user_id={NOBODY},group_id={NOBODY},{kernel}");
    let data = CString::new(data).unwrap();
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("fuse2fs", mountpoint, "fuse", flags, data.as_c_str()).unwrap();
    let child = before(command("larder", User::Nobody))
        .args(["fuse2fs", "-f", "-o", larder])
        .arg(fixture.image())
        .arg(format!("/dev/fd/{number}"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(device);
    Server(child)
}

/// Returns the fixture and a mount point, if this is the process of the test in its own mount namespace. There, the FUSE
/// control file system is not mounted.
fn ready_for_descriptors(test: &str) -> Option<(Fixture, Mountpoint)> {
    if !can_mount(User::Nobody) || !has_root() || !in_own_namespace(test) {
        return None;
    }
    while is_mounted(Path::new(CONNECTIONS)) {
        unmount(CONNECTIONS, UnmountFlags::DETACH).unwrap();
    }
    let fixture = Fixture::new();
    fixture.give_image(User::Nobody);
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    Some((fixture, mountpoint))
}

/// Returns the content of a file in the image.
fn content(fixture: &Fixture, path: &str) -> String {
    larder_ok(["cat".as_ref(), fixture.image().as_os_str(), path.as_ref()])
}

/// Returns whether `uid` can read a file that every user may read, and one that only the owner may reach.
fn access_of(uid: u32, mountpoint: &Path) -> [bool; 2] {
    let uid = uid.to_string();
    ["hello", "dir/deep"].map(|name| {
        Command::new(tool("setpriv"))
            .args(["--reuid", &uid, "--regid", &uid, "--clear-groups"])
            .args(["ls", "-L"])
            .arg(mountpoint.join(name))
            .status()
            .unwrap()
            .success()
    })
}

#[test]
fn descriptor_of_a_mount_is_served() {
    let Some((fixture, mountpoint)) = ready_for_descriptors("descriptor_of_a_mount_is_served")
    else {
        return;
    };
    let options = ("allow_other", "allow_other,fakeroot");
    // The mount ends when the program that mounted unmounts.
    let mut server = serve_descriptor(&fixture, &mountpoint.0, options, |server| server);
    let hello = fs::read_to_string(mountpoint.0.join("hello")).unwrap();
    assert_eq!(hello, "hello, larder\n");
    fs::write(mountpoint.0.join("new"), "by root\n").unwrap();
    assert_eq!(access_of(1234, &mountpoint.0), [true, true]);
    // A signal cannot end the connection without the FUSE control file system.
    signal(&server, Signal::TERM);
    let mut stderr = BufReader::new(server.0.stderr.take().unwrap()).lines();
    let failure = stderr.find(|line| line.as_ref().unwrap().contains("FUSE session"));
    assert!(failure.unwrap().unwrap().contains(CONNECTIONS));
    fs::write(mountpoint.0.join("new"), "by root\n").unwrap();
    unmount(&mountpoint.0, UnmountFlags::empty()).unwrap();
    assert!(server.0.wait().unwrap().success());
    assert_clean(&fixture.image());
    assert_eq!(content(&fixture, "/new"), "by root\n");
}

#[test]
fn signal_keeps_the_written_data_of_a_descriptor() {
    let test = "signal_keeps_the_written_data_of_a_descriptor";
    let Some((fixture, mountpoint)) = ready_for_descriptors(test) else {
        return;
    };
    sh("mount -t fusectl none \"$1\"", &[Path::new(CONNECTIONS)]);
    // In such an image, space could be set aside for writes that the kernel collects, and root can set their limit.
    make_image_of(&fixture.path("tree"), &fixture.image(), "-t ext4", "512M").unwrap();
    let options = ("allow_other,default_permissions", "allow_other");
    let as_root = |_| command("larder", User::Same);
    let mut server = serve_descriptor(&fixture, &mountpoint.0, options, as_root);
    // The file is open until the server has ended, so that the kernel does not send the data at its close.
    let mut file = File::create(mountpoint.0.join("second")).unwrap();
    file.write_all(b"x\n").unwrap();
    signal(&server, Signal::TERM);
    assert!(server.0.wait().unwrap().success());
    drop(file);
    assert!(fs::write(mountpoint.0.join("third"), "x\n").is_err());
    assert!(is_mounted(&mountpoint.0));
    assert_clean(&fixture.image());
    assert_eq!(content(&fixture, "/second"), "x\n");
}

#[test]
fn kernel_checks_permissions_of_a_descriptor_unless_fakeroot_is_given() {
    let test = "kernel_checks_permissions_of_a_descriptor_unless_fakeroot_is_given";
    let Some((fixture, mountpoint)) = ready_for_descriptors(test) else {
        return;
    };
    // In the second case, the mount is not in the list of mounts of the server. The option -c prevents a request to the
    // mount, which is not served yet.
    let script = "umount -c -l \"$1\"; shift; exec \"$@\"";
    let in_namespace = |server: Command| {
        let mut unshared = Command::new(tool("unshare"));
        unshared
            .args(["--mount", "sh", "-ec", script, "sh"])
            .arg(&mountpoint.0)
            .arg(server.get_program())
            .args(server.get_args())
            .env_remove("LARDER_LOG")
            .env_remove("XDG_RUNTIME_DIR")
            .stdin(File::open(binary()).unwrap());
        unshared
    };
    let befores: [&dyn Fn(Command) -> Command; 2] = [&|server| server, &in_namespace];
    for before in befores {
        for (kernel, larder, expected) in [
            ("allow_other", "allow_other", [true, false]),
            (
                "allow_other,default_permissions",
                "allow_other",
                [true, false],
            ),
            ("allow_other", "allow_other,fakeroot", [true, true]),
        ] {
            let options = (kernel, larder);
            let mut server = serve_descriptor(&fixture, &mountpoint.0, options, before);
            assert_eq!(access_of(0, &mountpoint.0), [true, true], "{options:?}");
            assert_eq!(access_of(1234, &mountpoint.0), expected, "{options:?}");
            unmount(&mountpoint.0, UnmountFlags::empty()).unwrap();
            assert!(server.0.wait().unwrap().success());
        }
    }
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
    // The shown owner has the rights of an owner: others cannot enter this directory.
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
