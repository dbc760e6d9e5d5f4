//! Runs the console blocks of the guide and of the READMEs.
//!
//! The output is not compared. The commands of a page run in one directory, in order; each must succeed.

mod support;

use larder_testkit::console::sessions;
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

/// The tests that run the commands of pages, which name the pages.
const SOURCES: [&str; 5] = [
    include_str!("guide.rs"),
    include_str!("../../remote-cli/tests/servers/guide.rs"),
    // `make package-test` runs these.
    include_str!("../../../packaging/test-install"),
    include_str!("../../../packaging/test-packages"),
    include_str!("../../../packaging/test-static"),
];

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
    let sessions = sessions(&read(path));
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

/// Returns the READMEs and all pages in `docs`, relative to the repository.
fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned()];
    for entry in fs::read_dir(Path::new(REPOSITORY).join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let page = format!("crates/{name}/README.md");
        if Path::new(REPOSITORY).join(&page).exists() {
            pages.push(page);
        }
    }
    let mut folders = vec!["docs".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(Path::new(REPOSITORY).join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{folder}/{}", entry.file_name().into_string().unwrap());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if Path::new(&path).extension().is_some_and(|end| end == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

fn read(page: &str) -> String {
    fs::read_to_string(Path::new(REPOSITORY).join(page)).unwrap()
}

#[test]
fn every_page_with_commands_has_a_test() {
    let pages = pages();
    assert!(pages.len() > 30);
    for page in pages {
        let named = [
            format!("\"{page}\","),
            format!("\"{page}\"]"),
            format!("packaging/console-blocks {page} "),
        ];
        let is_run = SOURCES
            .iter()
            .any(|source| named.iter().any(|name| source.contains(name)));
        assert!(is_run || sessions(&read(&page)).is_empty(), "{page}");
    }
}

/// Blocks of other languages show commands that need another machine, a server or hours. Their arguments are valid.
#[test]
fn commands_in_other_blocks_have_valid_arguments() {
    let mut checked = 0;
    for page in pages() {
        let page_text = read(&page);
        let blocks = page_text.split("\n```").skip(1).step_by(2);
        for block in blocks.filter(|block| block.starts_with("sh\n") || block.starts_with("text\n"))
        {
            for line in block.lines().filter(|line| line.contains("larder ")) {
                let line = line.strip_prefix("sudo ").unwrap_or(line);
                if !line.starts_with("larder ") || line.starts_with("larder profile 1") {
                    continue;
                }
                let end = [" #", " |", " >"]
                    .iter()
                    .filter_map(|end| line.find(end))
                    .min();
                let words = line[..end.unwrap_or(line.len())].split_whitespace();
                let parsed = larder_cli::command().try_get_matches_from(words);
                assert!(parsed.is_ok(), "{page}: {line}: {}", parsed.unwrap_err());
                checked += 1;
            }
        }
    }
    assert!(checked > 10, "{checked}");
}

#[test]
fn readme_commands_succeed() {
    run_page("README.md", "readme_commands_succeed");
}

#[test]
fn package_readme_commands_succeed() {
    run_page("crates/cli/README.md", "package_readme_commands_succeed");
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
