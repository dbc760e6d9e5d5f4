//! Runs the console blocks of the README and the guide.
//!
//! A line that starts with `$ ` is a command of an ordinary user, one that starts with `# ` is a
//! command of root, and `> ` continues the previous command. All other lines are output, which is not
//! compared. The commands of a page run in one directory, in order; each must succeed.

mod support;

use larder_testkit::requirement::is_root;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{
    Mountpoint, NOBODY, User, can_mount, has_root, in_own_namespace, is_fuse_open,
    open_fuse_device, text, tool,
};

/// The root of the repository.
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Consecutive commands of one user.
struct Session {
    is_root: bool,
    script: String,
}

/// Returns the commands of all console blocks in `page`.
fn sessions(page: &str) -> Vec<Session> {
    let mut sessions: Vec<Session> = Vec::new();
    let mut in_block = false;
    for line in page.lines() {
        if line.starts_with("```") {
            in_block = line == "```console";
            continue;
        }
        if !in_block {
            continue;
        }
        let (is_root, command) = match (line.strip_prefix("$ "), line.strip_prefix("# ")) {
            (Some(command), _) => (false, command),
            (_, Some(command)) => (true, command),
            _ => {
                if let (Some(rest), Some(last)) = (line.strip_prefix("> "), sessions.last_mut()) {
                    last.script.push_str(rest);
                    last.script.push('\n');
                }
                continue;
            }
        };
        match sessions.last_mut() {
            Some(last) if last.is_root == is_root => {
                last.script.push_str(command);
                last.script.push('\n');
            }
            _ => sessions.push(Session {
                is_root,
                script: format!("{command}\n"),
            }),
        }
    }
    sessions
}

/// Copies the programs to a directory that every user can access.
fn install_programs(directory: &Path) {
    fs::create_dir(directory).unwrap();
    let lab = support::binary().with_file_name("larder-lab");
    assert!(
        lab.exists(),
        "{}: build larder-lab-cli first",
        lab.display()
    );
    for program in [support::binary(), &lab] {
        fs::copy(program, directory.join(program.file_name().unwrap())).unwrap();
    }
}

/// Runs the commands of the page at `path`, which is relative to the repository. `test` is the name of
/// the calling test.
#[track_caller]
fn run_page(path: &str, test: &str) {
    if !can_mount(User::Nobody) {
        return;
    }
    if !is_fuse_open() {
        if !has_root() || !in_own_namespace(test) {
            return;
        }
        open_fuse_device();
    }
    let page = fs::read_to_string(Path::new(REPOSITORY).join(path)).unwrap();
    let sessions = sessions(&page);
    assert!(!sessions.is_empty(), "{path} has no console block");
    let scratch = tempfile::Builder::new()
        .prefix("larder-guide-")
        .permissions(Permissions::from_mode(0o755))
        .tempdir_in("/tmp")
        .unwrap();
    let programs = scratch.path().join("bin");
    install_programs(&programs);
    let directory = scratch.path().join("work");
    fs::create_dir(&directory).unwrap();
    if is_root() {
        std::os::unix::fs::chown(&directory, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let guard = MountsBelow(directory.clone());
    let search = format!(
        "{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        programs.display()
    );
    for session in sessions {
        if session.is_root && !has_root() {
            return;
        }
        let mut command = if is_root() && !session.is_root {
            let id = NOBODY.to_string();
            let mut command = Command::new(tool("setpriv"));
            command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "bash"]);
            command
        } else {
            Command::new("bash")
        };
        let output = command
            .args(["-euo", "pipefail", "-c", &session.script])
            .current_dir(&directory)
            .env("PATH", &search)
            .env("HOME", &directory)
            .env_remove("LARDER_LOG")
            .env_remove("XDG_RUNTIME_DIR")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{path}: {}\n{}\n{}",
            session.script,
            text(&output.stdout),
            text(&output.stderr)
        );
    }
    assert!(guard.mounts().is_empty(), "{path} leaves a mount");
}

/// A directory. When it is dropped, everything mounted below it is unmounted.
struct MountsBelow(PathBuf);

impl MountsBelow {
    fn mounts(&self) -> Vec<PathBuf> {
        let list = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let points = list.lines().filter_map(|line| line.split(' ').nth(4));
        let points = points.map(PathBuf::from);
        points.filter(|point| point.starts_with(&self.0)).collect()
    }
}

impl Drop for MountsBelow {
    fn drop(&mut self) {
        for mountpoint in self.mounts() {
            drop(Mountpoint(mountpoint));
        }
    }
}

#[test]
fn readme_commands_succeed() {
    run_page("README.md", "readme_commands_succeed");
}

#[test]
fn mounting_guide_commands_succeed() {
    run_page("docs/guide/mounting.md", "mounting_guide_commands_succeed");
}

#[test]
fn writing_guide_commands_succeed() {
    run_page("docs/guide/writing.md", "writing_guide_commands_succeed");
}

#[test]
fn tuning_guide_commands_succeed() {
    run_page("docs/guide/tuning.md", "tuning_guide_commands_succeed");
}

#[test]
fn troubleshooting_guide_commands_succeed() {
    run_page(
        "docs/guide/troubleshooting.md",
        "troubleshooting_guide_commands_succeed",
    );
}

#[test]
fn library_guide_commands_succeed() {
    run_page("docs/guide/library.md", "library_guide_commands_succeed");
}

#[test]
fn lab_guide_commands_succeed() {
    run_page("docs/guide/lab.md", "lab_guide_commands_succeed");
}
