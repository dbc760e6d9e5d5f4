//! The processes and mounts of the machine.

use super::{
    NOBODY, User, can_make_images, has_root, in_own_namespace, is_fuse_open, open_fuse_device, tool,
};
use larder_testkit::requirement::{is_root, report_skipped};
use larder_testkit::{Requirement, skip};
use std::fs;
use std::path::Path;
use std::process::{Child, Command};

/// Returns whether the test named `test` can use `larder run` as all users. If necessary, runs the test in a mount
/// namespace of its own, as [`in_own_namespace`] does. Reports a skipped test.
pub fn can_run(test: &str) -> bool {
    let tools = ["setpriv", "unshare"].map(Requirement::Tool);
    if !can_make_images() || skip(&[Requirement::Fuse]) || skip(&tools) {
        return false;
    }
    if !can_unshare(User::Nobody, &["--user", "--mount"]) {
        report_skipped("no user namespaces");
        return false;
    }
    if is_fuse_open() {
        return true;
    }
    if !has_root() || !in_own_namespace(test) {
        return false;
    }
    open_fuse_device();
    true
}

/// Returns whether `user` can run a program with unshare(1) and `options`.
pub fn can_unshare(user: User, options: &[&str]) -> bool {
    let mut probe = setpriv(user);
    let probed = probe.arg("unshare").args(options).arg("true").output();
    probed.is_ok_and(|output| output.status.success())
}

/// Returns a command that runs its arguments as `user`, as far as this is possible.
fn setpriv(user: User) -> Command {
    let mut command = Command::new(tool("setpriv"));
    if user == User::Nobody && is_root() {
        let id = NOBODY.to_string();
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
    }
    command
}

/// A process that is not part of a job, and is killed when this is dropped.
pub struct Bystander(Child);

impl Bystander {
    pub fn start(user: User) -> Self {
        let mut command = setpriv(user);
        Self(command.args(["sleep", "100000"]).spawn().unwrap())
    }

    #[track_caller]
    pub fn assert_alive(&mut self) {
        assert!(self.0.try_wait().unwrap().is_none());
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the numbers of all processes.
pub fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap();
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// Returns the first child process of the process `pid`.
pub fn child_of(pid: u32) -> Option<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    threads.filter_map(Result::ok).find_map(|thread| {
        let children = fs::read_to_string(thread.path().join("children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    })
}

/// Returns the state of a process, such as `T` if it is stopped.
pub fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Returns the number of processes that have a mount of `image`.
pub fn mounts_of(image: &Path) -> usize {
    let source = format!(" {} ", image.display());
    let has_mount = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/mountinfo"))
            .is_ok_and(|mounts| mounts.contains(&source))
    };
    processes().iter().filter(|pid| has_mount(pid)).count()
}

/// Returns the processes that have `marker` in their environment.
pub fn marked(marker: &str) -> Vec<u32> {
    let is_marked = |pid: &u32| {
        fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
            environment
                .split(|&byte| byte == 0)
                .any(|variable| variable.ends_with(marker.as_bytes()))
        })
    };
    let mut processes = processes();
    processes.retain(is_marked);
    processes
}
