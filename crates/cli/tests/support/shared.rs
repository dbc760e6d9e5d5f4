//! Functions that the tests of the commands share: an image, a user, and mounts that are always
//! unmounted.

use larder_testkit::e2fsprogs::{check, make_image_of, superblock};
use larder_testkit::requirement::is_root;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// The user and group of commands that run without root.
pub const NOBODY: u32 = 65534;

/// A directory that all users can access, with a tree and an image of it.
pub struct Fixture {
    dir: TempDir,
}

impl Fixture {
    /// Creates the directory, and the image with mke2fs.
    pub fn new() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("larder-test-")
            .permissions(Permissions::from_mode(0o755))
            .tempdir_in("/tmp")
            .unwrap();
        let fixture = Self { dir };
        fixture.make_tree();
        fixture.make_image("ext4", "");
        fixture
    }

    fn make_tree(&self) {
        let tree = self.path("tree");
        fs::create_dir_all(tree.join("dir/deep/deeper")).unwrap();
        fs::write(tree.join("hello"), "hello, larder\n").unwrap();
        fs::hard_link(tree.join("hello"), tree.join("dir/again")).unwrap();
        symlink("hello", tree.join("link")).unwrap();
        symlink("/etc/passwd", tree.join("outward")).unwrap();
        fs::write(tree.join("dir/empty"), "").unwrap();
        fs::write(tree.join("dir/large"), content(3 << 20)).unwrap();
        fs::write(tree.join(name_of(b"no\xfftext")), "bytes\n").unwrap();
        let sparse = fs::File::create(tree.join("sparse")).unwrap();
        sparse.set_len(64 << 20).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&sparse, b"middle", 32 << 20).unwrap();
        fs::set_permissions(tree.join("dir/deep"), Permissions::from_mode(0o750)).unwrap();
    }

    /// Creates `image` again, with a type that mke2fs knows.
    pub fn make_image(&self, fs_type: &str, options: &str) {
        self.make_image_with(fs_type, options, &self.path("tree"));
    }

    /// Creates `image` again, from another tree.
    pub fn make_image_of(&self, tree: &Path) {
        self.make_image_with("ext4", "", tree);
    }

    fn make_image_with(&self, fs_type: &str, options: &str, tree: &Path) {
        let image = self.path("image");
        fs::File::create(&image).unwrap();
        let arguments = format!("-t {fs_type} -L pantry {options}");
        make_image_of(tree, &image, &arguments, "32M").unwrap();
        fs::set_permissions(&image, Permissions::from_mode(0o644)).unwrap();
    }

    /// Makes the user that runs commands the owner of the image.
    pub fn give_image(&self, user: User) {
        if user == User::Nobody && is_root() {
            std::os::unix::fs::chown(self.image(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }

    /// Returns a path in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Creates a subdirectory that belongs to the user that runs commands.
    pub fn directory(&self, name: &str, user: User) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).unwrap();
        if user == User::Nobody && is_root() {
            std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        path
    }

    /// Returns the path of the image.
    pub fn image(&self) -> PathBuf {
        self.path("image")
    }
}

/// Returns the path of a tool. Administrators' tools are not in every user's PATH.
pub fn tool(name: &str) -> PathBuf {
    larder_testkit::tool::find(name).unwrap_or_else(|| PathBuf::from(name))
}

/// Returns bytes that differ from page to page.
pub fn content(len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| u8::try_from((at ^ (at >> 12)) & 0xff).unwrap())
        .collect()
}

/// Returns a name of arbitrary bytes.
pub fn name_of(bytes: &[u8]) -> OsString {
    std::os::unix::ffi::OsStringExt::from_vec(bytes.to_vec())
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The user that runs a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// The user that runs the tests.
    Same,
    /// A user without privileges, if root runs the tests.
    Nobody,
}

/// Returns a command that calls `binary` as `program`.
pub fn command_of(binary: &Path, program: &str, user: User) -> Command {
    let mut command = if user == User::Nobody && is_root() {
        let id = NOBODY.to_string();
        let mut command = Command::new(tool("setpriv"));
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
        // The user may have no access to the directory of the binary, but can use an open file.
        command.arg("/proc/self/fd/0");
        command.stdin(fs::File::open(binary).unwrap());
        command
    } else {
        let mut command = Command::new(binary);
        command.arg0(program).stdin(Stdio::null());
        command
    };
    command
        .env_remove("LARDER_LOG")
        .env_remove("XDG_RUNTIME_DIR")
        .env("TZ", "UTC");
    command
}

/// Runs a program on a path as a user without privileges.
pub fn as_nobody(program: &str, path: &Path) -> Output {
    let mut command = if is_root() {
        let id = NOBODY.to_string();
        let mut command = Command::new(tool("setpriv"));
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups", program]);
        command
    } else {
        Command::new(program)
    };
    command.arg(path).env("LC_ALL", "C").output().unwrap()
}

/// Asserts that a command failed with this code, and that standard error contains all of `parts`.
#[track_caller]
pub fn assert_fails(output: &Output, code: i32, parts: &[&str]) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    for part in parts {
        assert!(stderr.contains(part), "{part:?} is not in {stderr:?}");
    }
}

/// Sends a signal to a server.
pub fn signal(server: &Server, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(server.0.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Asserts that e2fsck finds no error in an image.
#[track_caller]
pub fn assert_clean(image: &Path) {
    check(image).unwrap_or_else(|error| panic!("{error}"));
}

/// Returns the size of a block of the file system in `image`, as dumpe2fs prints it.
pub fn block_bytes(image: &Path) -> u64 {
    field(image, "Block size:")
}

/// Returns a number in the superblock of `image`, as dumpe2fs prints it.
pub fn field(image: &Path, name: &str) -> u64 {
    let text = superblock(image).unwrap();
    let number = text.lines().find_map(|line| line.strip_prefix(name));
    number.unwrap().trim().parse().unwrap()
}

/// A mount point. When it is dropped, everything mounted there is unmounted.
pub struct Mountpoint(pub PathBuf);

impl Drop for Mountpoint {
    fn drop(&mut self) {
        while is_mounted(&self.0) {
            let detached = Command::new(tool("fusermount3"))
                .args(["-u", "-z", "--"])
                .arg(&self.0)
                .stderr(Stdio::null())
                .status();
            let unmounted = detached.is_ok_and(|status| status.success());
            let flags = rustix::mount::UnmountFlags::DETACH;
            if !unmounted && rustix::mount::unmount(&self.0, flags).is_err() {
                eprintln!("{} stays mounted", self.0.display());
                return;
            }
        }
    }
}

/// A server process, which is killed when this is dropped.
pub struct Server(pub Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the line of the topmost mount at `path`, in the format of mountinfo(5).
pub fn mount_line(path: &Path) -> Option<String> {
    let list = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let wanted = format!(" {} ", path.display());
    list.lines()
        .rfind(|line| line.contains(&wanted))
        .map(str::to_owned)
}

pub fn is_mounted(path: &Path) -> bool {
    mount_line(path).is_some()
}

/// Waits until a condition holds. The limit ends a test that would hang; no test depends on the time that this
/// takes.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..24_000 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("{what}: not within two minutes");
}

/// Returns whether images can be created here, and reports a skipped test if not.
pub fn can_make_images() -> bool {
    !larder_testkit::skip(&[larder_testkit::Requirement::Tool("mke2fs")])
}

/// Returns whether `user` can mount here, and reports a skipped test if not.
pub fn can_mount(user: User) -> bool {
    if !can_make_images() || larder_testkit::skip(&[larder_testkit::Requirement::Fuse]) {
        return false;
    }
    if user == User::Same && is_root() {
        return true;
    }
    let needed = [
        larder_testkit::Requirement::Tool("fusermount3"),
        larder_testkit::Requirement::Tool("setpriv"),
    ];
    !larder_testkit::skip(&needed)
}

/// Returns whether the test runs as root, and reports a skipped test if not.
pub fn has_root() -> bool {
    !larder_testkit::skip(&[larder_testkit::Requirement::Root])
}

/// The environment variable of a process that runs one test in its own mount namespace.
const IN_NAMESPACE: &str = "LARDER_TEST_IN_NAMESPACE";

/// Returns whether the test named `test` runs in its own mount namespace. If not, runs it there, in a
/// new process, and asserts that it passes.
pub fn in_own_namespace(test: &str) -> bool {
    if std::env::var_os(IN_NAMESPACE).is_some() {
        return true;
    }
    let output = Command::new(tool("unshare"))
        .args(["--mount", "--propagation", "private"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(IN_NAMESPACE, "1")
        .output()
        .unwrap();
    eprint!("{}", text(&output.stderr));
    assert!(output.status.success(), "{}", text(&output.stdout));
    false
}

/// Runs a shell script for set-up, which must succeed.
#[track_caller]
pub fn sh(script: &str, args: &[&Path]) {
    let output = Command::new("sh")
        .args(["-e", "-c", script, "sh"])
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// Returns whether all users may open `/dev/fuse`, as udev sets it.
pub fn is_fuse_open() -> bool {
    let mode = fs::metadata("/dev/fuse").map(|metadata| metadata.permissions().mode());
    mode.is_ok_and(|mode| mode & 0o006 == 0o006)
}

/// Lets all users open `/dev/fuse` in this mount namespace, if they cannot already.
pub fn open_fuse_device() {
    if !is_fuse_open() {
        // The mode that udev sets.
        let device = Fixture::new();
        let node = device.path("fuse");
        sh(
            "mknod \"$1\" c 10 229; chmod 666 \"$1\"; mount --bind \"$1\" /dev/fuse",
            &[&node],
        );
    }
}
