//! Functions that the tests of `larder` share.

#![allow(dead_code, reason = "each test file uses a part")]

pub mod create;
pub mod processes;
mod shared;
pub mod terminal;

use rustix::fs::inotify;
pub use shared::*;
use std::ffi::{CString, OsStr};
use std::fs;
use std::io::Read;
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Returns the path of the binary.
pub fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_larder"))
}

/// Returns a command that calls the binary as `program`: `larder` or `mount.larder`.
pub fn command(program: &str, user: User) -> Command {
    command_of(binary(), program, user)
}

/// Runs `larder`.
pub fn larder<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    command("larder", User::Same).args(args).output().unwrap()
}

/// Runs `larder`, which must succeed, and returns its standard output.
pub fn larder_ok<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> String {
    let output = larder(args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Returns the names that files in `directory` get during `action`.
pub fn new_names(directory: &Path, action: impl FnOnce()) -> Vec<CString> {
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    let flags = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
    inotify::add_watch(&watch, directory, flags).unwrap();
    action();
    let mut memory = [MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(&watch, &mut memory);
    let mut names = Vec::new();
    while let Ok(event) = events.next() {
        names.push(event.file_name().unwrap().to_owned());
    }
    names
}

/// Runs a command of the shell on a terminal. Returns its output, in which the standard output and errors are together.
pub fn on_terminal(line: &str) -> Output {
    Command::new("script")
        .args(["-qec", line, "/dev/null"])
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Runs `larder`, closes its standard output after ten bytes, and asserts that it then ends without an error.
#[track_caller]
pub fn assert_quiet_after_broken_pipe(args: &[&OsStr]) {
    let mut child = command("larder", User::Same)
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), text(&output.stderr)),
        (Some(0), String::new())
    );
}

/// Runs `larder` by strace. Returns the calls that open a path or connect to an address, and the output.
pub fn traced(args: &[&OsStr]) -> (String, Output) {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    let output = Command::new(tool("strace"))
        .args(["-f", "-e", "trace=open,openat,openat2,connect,socket", "-o"])
        .arg(&trace)
        .arg(binary())
        .args(args)
        .output()
        .unwrap();
    (fs::read_to_string(trace).unwrap(), output)
}

/// Runs `larder` as `user`.
pub fn run(user: User, args: &[&OsStr]) -> Output {
    command("larder", user).args(args).output().unwrap()
}

/// Mounts the image in the background.
#[track_caller]
pub fn mount(user: User, fixture: &Fixture, mountpoint: &Path, options: &str) {
    let output = run(
        user,
        &[
            "mount".as_ref(),
            "-o".as_ref(),
            options.as_ref(),
            fixture.image().as_ref(),
            mountpoint.as_ref(),
        ],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(is_mounted(mountpoint));
}

/// Unmounts with `larder umount`.
#[track_caller]
pub fn umount(user: User, mountpoint: &Path) {
    let output = run(user, &["umount".as_ref(), mountpoint.as_ref()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!is_mounted(mountpoint));
}

/// Starts a foreground server, and waits until it has mounted.
pub fn serve(fixture: &Fixture, mountpoint: &Path, options: &str) -> Server {
    let child = command("larder", User::Same)
        .args([
            "mount".as_ref(),
            "-f".as_ref(),
            "-o".as_ref(),
            options.as_ref(),
            fixture.image().as_os_str(),
            mountpoint.as_os_str(),
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the mount", || is_mounted(mountpoint));
    Server(child)
}

/// Returns a fixture and a mount point; `None` if root cannot mount here.
pub fn ready() -> Option<(Fixture, Mountpoint)> {
    if !can_mount(User::Same) || !has_root() {
        return None;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    Some((fixture, mountpoint))
}

/// Installs the binary as `/sbin/mount.larder` in this mount namespace. Makes `directory`, which contains a copy of
/// `/sbin`.
pub fn install_mount_helper(directory: &Path) {
    sh(
        "mkdir \"$1\"; cp -a /sbin/. \"$1\"; cp \"$2\" \"$1/mount.larder\"; mount --bind \"$1\" \"$(readlink -f /sbin)\"",
        &[directory, binary()],
    );
}

/// Copies programs, and the libraries that they need, to `tree`.
pub fn copy_programs(tree: &Path) {
    let script = "for program in sh cat ls id head readlink; do
            path=$(command -v $program)
            for file in $path $(ldd $path | grep -o '/[^ ]*'); do
                mkdir -p \"$1$(dirname $file)\"
                cp \"$file\" \"$1$file\"
            done
        done
        test -e \"$1/bin\" || ln -s usr/bin \"$1/bin\"
        mkdir -p \"$1/proc\" \"$1/sys\" \"$1/dev\" \"$1/tmp\"";
    sh(script, &[tree]);
}
