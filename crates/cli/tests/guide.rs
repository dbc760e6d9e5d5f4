//! Runs the console blocks of the guide, of other pages and of the READMEs.
//!
//! The output is not compared. The commands of a page run in one directory, in order; each must succeed. [`NOT_RUN`]
//! lists the blocks of commands that are not run.

mod support;

use larder_lab::sdm;
use larder_lab::trace::kernel::{Error, KernelConfig, KernelRecorder, Processes};
use larder_testkit::console::sessions;
use larder_testkit::e2fsprogs::make_image_of;
use larder_testkit::page::blocks;
use larder_testkit::requirement::{is_root, report_skipped};
use larder_testkit::{Requirement, skip};
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{
    Mountpoint, NOBODY, User, can_mount, copy_programs, has_root, in_own_namespace,
    install_mount_helper, is_fuse_open, open_fuse_device, text, tool,
};

/// The root of the repository.
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The tests that run the commands of pages, which name the pages.
const SOURCES: [&str; 7] = [
    include_str!("guide.rs"),
    include_str!("../../remote-cli/tests/servers/guide.rs"),
    // `make package-test` runs these.
    include_str!("../../../packaging/test-install"),
    include_str!("../../../packaging/test-packages"),
    include_str!("../../../packaging/test-static"),
    include_str!("../../../packaging/test-wheel"),
    // `make real-use` runs this.
    include_str!("../../../scripts/real-use.d/guide"),
];

/// The tests that run the Python and SQL blocks of pages, which name the pages.
const PROGRAM_SOURCES: [&str; 3] = [
    include_str!("../../lab/tests/trace/page.rs"),
    include_str!("../../lab-cli/tests/hash.rs"),
    include_str!("../../python/tests/test_package.py"),
];

/// The blocks of commands and programs that no test runs: page and block.
const NOT_RUN: [(&str, &str); 17] = [
    // Needs the program of a release. The test of the script runs it on one machine with the same options.
    (
        "docs/cluster.md",
        "make python-tools                          # Dask and pyarrow, into target/tools/python\n\
         target/tools/python/bin/python scripts/sweep-cluster --larder target/release/larder \\\n    \
         --functions published,today --bits auto,14 --work /tmp/parts --output sweep.csv mount.parquet",
    ),
    // Needs several machines.
    (
        "docs/cluster.md",
        "dask scheduler &                           # on one machine; prints its address\n\
         dask worker tcp://HEAD:8786 --nworkers 16 --nthreads 1    # on each of the others\n\
         scripts/sweep-cluster --scheduler tcp://HEAD:8786 --work /shared/parts --output sweep.csv /shared/*.parquet",
    ),
    // Needs a Debian mirror. scripts/real-use.d/debian runs the same commands, and the system in the image.
    (
        "docs/guide/containers.md",
        "mmdebstrap --mode=unshare --variant=essential bookworm root.tar\n\
         larder create debian.img --size 1G --from root.tar",
    ),
    // Needs docker and an image of a container. crates/cli/tests/create.rs reads archives from standard input.
    (
        "docs/guide/create.md",
        "docker export $(docker create debian:12) | larder create debian.img --size 2G --from -",
    ),
    // Needs two builds of larder.
    (
        "docs/design/statistics.md",
        "nice -n -20 taskset -c 1 scripts/compare-requests WITH WITHOUT\n\
         nice -n -20 taskset -c 1 scripts/with-fuse-transport uring scripts/compare-requests WITH WITHOUT",
    ),
    // Needs a block device. crates/lab-cli/tests/advise.rs measures a file.
    (
        "docs/guide/lab.md",
        "larder lab device /dev/sdb --output sdb.json\n\
         larder lab advise disk.parquet --device sdb.json",
    ),
    // Needs Spark, which needs Java. The page has the versions with which it was run.
    (
        "docs/traces.md",
        "from pyspark.sql import SparkSession\n\
         spark = SparkSession.builder.getOrCreate()\n\
         spark.read.parquet(\"trace.parquet\").createOrReplaceTempView(\"trace\")\n\
         spark.sql(\"\"\"SELECT cache, count(*) AS lookups, avg(CAST(hit AS INT)) AS hits\n             \
         FROM trace WHERE operation = 'lookup' GROUP BY cache ORDER BY cache\"\"\").show()",
    ),
    // Is a part of the Cargo.toml of a program. crates/volume/tests/guide compiles the programs on this page.
    (
        "docs/guide/library.md",
        "[dependencies]\nlarder = { path = \"larder/crates/volume\" }",
    ),
    // Needs a recording in progress. crates/lab/tests/trace/live.rs copies the trace of one.
    (
        "docs/traces.md",
        "larder lab trace salvage live.parquet so-far.parquet\n\
         duckdb -c \"SELECT cache, operation, count(*) FROM 'so-far.parquet' GROUP BY ALL\"",
    ),
    // Compiles the programs of a release. crates/instruments/tests/simulated.rs runs the example itself.
    (
        "docs/design/devices.md",
        "cargo run --release -p larder-instruments --example device_figures",
    ),
    // Compiles for minutes. The tests of the page have the programs in PATH.
    (
        "README.md",
        "make build && export PATH=$PWD/target/release:$PATH",
    ),
    // Compiles, and installs into /usr/local. packaging/test-install runs `make install` with another directory.
    ("docs/guide/install.md", "make build\nsudo make install"),
    // Compiles. `make package-test` runs this, and tests the packages.
    ("docs/guide/install.md", "make deb"),
    // Needs podman, which needs a network. packaging/test-image makes the same image with buildah.
    (
        "docs/guide/install.md",
        "make static\n\
         podman build -t larder -f packaging/Containerfile target/static\n\
         podman run --rm -v $PWD:/images larder ls -l /images/disk.img",
    ),
    // Needs docker. packaging/test-image mounts in a container of the same image, with buildah.
    (
        "docs/guide/mounting.md",
        "mkdir mnt\n\
         docker run --rm --device /dev/fuse --cap-add SYS_ADMIN -v $PWD:/images:rshared \
         larder mount --foreground /images/disk.img /images/mnt",
    ),
    // Compiles. `make package-test` runs this, and the commands that install the wheel.
    ("docs/guide/python.md", "make python"),
    // Compiles in another profile, and measures with a million files.
    (
        "docs/performance.md",
        "LARDER_INODES=1000000 cargo test --release -p larder --test memory_writing -- --nocapture",
    ),
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

/// Returns whether the kernel can be recorded here, and reports skipped commands if not.
fn can_record_kernel() -> bool {
    let probe = KernelRecorder::start(&KernelConfig {
        mount: None,
        processes: Processes::Spawned,
        buffer_bytes: 4 << 20,
        with_paths: false,
    });
    if let Err(error @ (Error::NoTracefs(_) | Error::NoTracepoint(_) | Error::NotRoot)) = probe {
        report_skipped(error);
        return false;
    }
    true
}

/// Runs the commands of the page at `path`, which is relative to the repository. `test` is the name of
/// the calling test.
#[track_caller]
fn run_page(path: &str, test: &str) {
    run_prepared_page(path, test, |_| ());
}

/// Runs the commands of a page as [`run_page`] does. First, `prepare` is called with their directory. If the user is
/// root, all of this is in a mount namespace of its own.
#[track_caller]
fn run_prepared_page(path: &str, test: &str, prepare: impl FnOnce(&Path)) {
    if !can_mount(User::Nobody) {
        return;
    }
    if (is_root() || !is_fuse_open()) && (!has_root() || !in_own_namespace(test)) {
        return;
    }
    open_fuse_device();
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
        chown(&directory, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    prepare(&directory);
    let guard = MountsBelow(directory.clone());
    let search = format!(
        "{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        programs.display()
    );
    for session in sessions {
        if session.is_root && !has_root() {
            return;
        }
        if session.script.contains("record --kernel") && !can_record_kernel() {
            continue;
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
    let sources = SOURCES.map(|source| source.split_whitespace().collect::<String>());
    for page in pages {
        let named = [
            format!("_page(\"{page}\","),
            format!("[\"{page}\","),
            format!(",\"{page}\"]"),
            format!("packaging/console-blocks{page}packaging/"),
            format!("packaging/console-blocks{page}scripts/"),
        ];
        let is_run = sources
            .iter()
            .any(|source| named.iter().any(|name| source.contains(name)));
        assert!(is_run || sessions(&read(&page)).is_empty(), "{page}");
    }
}

#[test]
fn every_block_of_commands_or_programs_is_run_or_listed() {
    let listed = NOT_RUN.map(|(page, block)| (page.to_owned(), block.to_owned()));
    let listed = BTreeSet::from(listed);
    let mut not_run = BTreeSet::new();
    for page in pages() {
        let page_text = read(&page);
        let name = format!("\"{page}\"");
        let has_test = PROGRAM_SOURCES.iter().any(|source| source.contains(&name));
        for (language, block) in blocks(&page_text) {
            let entry = (page.clone(), block.to_owned());
            match language {
                "console" => {}
                "python" | "sql" if has_test && !listed.contains(&entry) => {}
                "sh" | "python" | "sql" | "toml" => {
                    assert!(not_run.insert(entry), "{page}: {block}");
                }
                "" | "text" => {
                    let starts = ["$ ", "# ", "cargo ", "larder ", "make ", "sudo "];
                    let is_command = |line: &str| {
                        starts.iter().any(|start| line.starts_with(start))
                            && line != "larder profile 1"
                    };
                    assert!(!block.lines().any(is_command), "{page}: {block}");
                }
                _ => assert!(language.starts_with("rust"), "{page}: {language}"),
            }
        }
    }
    assert_eq!(not_run, listed);
}

/// The scripts of `make package-test` run only the blocks with their mark.
#[test]
fn every_console_block_of_a_page_with_marks_has_a_mark() {
    let mut checked = 0;
    for page in pages() {
        let page_text = read(&page);
        let marks: Vec<_> = page_text
            .lines()
            .filter_map(|line| line.strip_prefix("<!-- run by ")?.strip_suffix(" -->"))
            .collect();
        let blocks = blocks(&page_text).filter(|(language, _)| *language == "console");
        assert!(marks.is_empty() || marks.len() == blocks.count(), "{page}");
        for script in marks {
            let run = format!("packaging/console-blocks {page} {script} ");
            assert!(SOURCES.iter().any(|source| source.contains(&run)), "{run}");
            checked += 1;
        }
    }
    assert!(checked >= 4, "{checked}");
}

#[test]
fn commands_of_containers_and_services_have_valid_arguments() {
    let starts = ["docker run ", "podman run ", "ExecStart="];
    let mut checked = 0;
    for page in pages() {
        for line in read(&page).lines() {
            if !starts.iter().any(|start| line.starts_with(start)) {
                continue;
            }
            let (_, arguments) = line.split_once("larder ").unwrap();
            let words = std::iter::once("larder").chain(arguments.split_whitespace());
            let parsed = larder_cli::command().try_get_matches_from(words);
            assert!(parsed.is_ok(), "{page}: {line}: {}", parsed.unwrap_err());
            checked += 1;
        }
    }
    assert_eq!(checked, 3);
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
    if skip(&[Requirement::Tool("qemu-img")]) {
        return;
    }
    run_prepared_page(
        "docs/guide/mounting.md",
        "mounting_guide_commands_succeed",
        |directory| {
            // The image for `larder run --chroot`.
            let tree = directory.with_file_name("tree");
            fs::create_dir(&tree).unwrap();
            copy_programs(&tree);
            let image = directory.join("root.img");
            make_image_of(&tree, &image, "-t ext4", "64M").unwrap();
            if is_root() {
                chown(&image, Some(NOBODY), Some(NOBODY)).unwrap();
                install_mount_helper(&directory.with_file_name("sbin"));
            }
        },
    );
}

#[test]
fn monitoring_guide_commands_succeed() {
    if skip(&[Requirement::Tool("curl")]) {
        return;
    }
    run_page(
        "docs/guide/monitoring.md",
        "monitoring_guide_commands_succeed",
    );
}

#[test]
fn reading_guide_commands_succeed() {
    run_page("docs/guide/reading.md", "reading_guide_commands_succeed");
}

#[test]
fn writing_guide_commands_succeed() {
    run_page("docs/guide/writing.md", "writing_guide_commands_succeed");
}

#[test]
fn create_guide_commands_succeed() {
    if skip(&["mke2fs", "tune2fs", "e2fsck", "resize2fs", "tar", "gzip"].map(Requirement::Tool)) {
        return;
    }
    run_page("docs/guide/create.md", "create_guide_commands_succeed");
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
    if let Err(error) = sdm::check_commands() {
        report_skipped(error);
        return;
    }
    run_page("docs/guide/lab.md", "lab_guide_commands_succeed");
}

#[test]
fn traces_page_commands_succeed() {
    // The page imports the keys of sockets, so a socket must exist.
    let _socket = TcpListener::bind("127.0.0.1:0").unwrap();
    run_page("docs/traces.md", "traces_page_commands_succeed");
}
