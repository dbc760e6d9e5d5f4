//! `larder diff`, compared with diff(1) on mounts of the kernel.

mod support;

use larder_testkit::e2fsprogs::{debugfs, debugfs_write};
use larder_testkit::mount::{Access, LoopMount};
use larder_testkit::tool::Tool;
use larder_testkit::{Requirement, skip};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{Fixture, assert_fails, block_bytes, can_make_images, larder, text};

/// An image, and a copy of it.
struct Pair {
    fixture: Fixture,
    new: PathBuf,
}

impl Pair {
    fn new() -> Self {
        let fixture = Fixture::new();
        let new = fixture.path("new");
        fs::copy(fixture.image(), &new).unwrap();
        Self { fixture, new }
    }

    fn old(&self) -> PathBuf {
        self.fixture.image()
    }

    /// Changes the copy with debugfs.
    #[track_caller]
    fn change(&self, requests: &[&str]) {
        debugfs_write(&self.new, requests).unwrap();
    }

    fn diff(&self, options: &[&str]) -> Output {
        self.diff_paths(options, "/", "/")
    }

    fn diff_paths(&self, options: &[&str], old: &str, new: &str) -> Output {
        let operands = [(self.old(), old), (self.new.clone(), new)]
            .map(|(image, path)| format!("{}:{path}", image.display()));
        larder(
            ["diff"]
                .iter()
                .chain(options)
                .copied()
                .chain(operands.iter().map(String::as_str)),
        )
    }

    /// Asserts that these are the differences.
    #[track_caller]
    fn assert_differ(&self, options: &[&str], expected: &str) {
        assert_different(&self.diff(options), expected);
    }
}

#[track_caller]
fn assert_different(output: &Output, expected: &str) {
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
    let code = i32::from(!expected.is_empty());
    assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn equal_images_have_no_differences() {
    if !can_make_images() {
        return;
    }
    let pair = Pair::new();
    pair.assert_differ(&[], "");
    pair.assert_differ(&["--times"], "");
    // The same files in another file system, with different blocks, inodes and times.
    pair.fixture.make_image("ext2", "-b 4096 -I 128");
    pair.assert_differ(&[], "");
}

/// Returns the paths in the output of `diff -rq`, with the letter A, D, M or T.
fn paths_of_diff(old: &Path, new: &Path) -> BTreeSet<String> {
    let output = Command::new("diff")
        .args(["-rq", "--no-dereference"])
        .args([old, new])
        .env("LC_ALL", "C.UTF-8")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let [old, new] = [old, new].map(|path| path.to_str().unwrap().trim_end_matches('/').to_owned());
    let below = |path: &str, root: &str| {
        let path = path.strip_prefix(root).unwrap();
        format!("/{}", path.trim_start_matches('/'))
    };
    let line = |line: &str| {
        if let Some(only) = line.strip_prefix("Only in ") {
            let (directory, name) = only.split_once(": ").unwrap();
            let is_new = format!("{directory}/").starts_with(&format!("{new}/"));
            let (letter, root) = if is_new { ('A', &new) } else { ('D', &old) };
            let directory = below(directory, root);
            return format!("{letter} {}/{name}", directory.trim_end_matches('/'));
        }
        let letter = if line.ends_with(" differ") { 'M' } else { 'T' };
        let start = line.find(&old).unwrap();
        let path = line[start..].split(' ').next().unwrap();
        format!("{letter} {}", below(path, &old))
    };
    text(&output.stdout).lines().map(line).collect()
}

/// Returns the paths in the output of `larder diff`, in the same form. Omits changes of attributes, and the files below
/// a directory that was added or removed.
fn paths_of_larder(output: &str) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    let mut alone = String::new();
    for line in output.lines() {
        let (changes, path) = line.split_once(' ').unwrap();
        let letter = match changes.split(',').next().unwrap() {
            "added" => 'A',
            "removed" => 'D',
            "type" => 'T',
            "size" | "content" | "target" => 'M',
            _ => continue,
        };
        let is_below = !alone.is_empty() && path.starts_with(&alone);
        if path.ends_with('/') && "AD".contains(letter) && !is_below {
            path.clone_into(&mut alone);
        }
        if !is_below {
            paths.insert(format!("{letter} {}", path.trim_end_matches('/')));
        }
    }
    paths
}

#[test]
fn differences_are_those_that_diff_finds_on_kernel_mounts() {
    if !can_make_images() || skip(&[Requirement::LoopMount, Requirement::Tool("diff")]) {
        return;
    }
    let pair = Pair::new();
    let mount = LoopMount::new(&pair.new, Access::ReadWrite, &[]).unwrap();
    let root = mount.path();
    // The size and the time of modification stay.
    let file = File::options()
        .write(true)
        .open(root.join("dir/large"))
        .unwrap();
    let time = file.metadata().unwrap().modified().unwrap();
    file.write_all_at(b"!", 2_000_000).unwrap();
    file.set_modified(time).unwrap();
    drop(file);
    fs::write(root.join("dir/empty"), "no longer").unwrap();
    let sparse = File::options()
        .write(true)
        .open(root.join("sparse"))
        .unwrap();
    sparse.write_all_at(b"more", 50 << 20).unwrap();
    drop(sparse);
    fs::create_dir_all(root.join("dir.new/below")).unwrap();
    fs::write(root.join("dir.new/below/file"), "x").unwrap();
    fs::write(root.join("dir/a"), "x").unwrap();
    fs::remove_dir_all(root.join("dir/deep")).unwrap();
    fs::write(root.join("dir/deep"), "a file").unwrap();
    fs::remove_file(root.join("link")).unwrap();
    symlink("dir", root.join("link")).unwrap();
    fs::remove_file(root.join("outward")).unwrap();
    fs::create_dir(root.join("outward")).unwrap();
    fs::write(root.join("outward/x"), "x").unwrap();
    fs::remove_file(root.join("hello")).unwrap();
    drop(mount);
    let old = LoopMount::new(&pair.old(), Access::ReadOnly, &[]).unwrap();
    let new = LoopMount::new(&pair.new, Access::ReadOnly, &[]).unwrap();
    let expected = paths_of_diff(&old.path(), &new.path());
    let output = pair.diff(&[]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let mut found = paths_of_larder(&text(&output.stdout));
    // diff(1) does not list the files of a directory whose type has changed.
    assert!(found.remove("D /dir/deep/deeper"), "{found:?}");
    assert!(found.remove("A /outward/x"), "{found:?}");
    assert_eq!(found, expected);
    assert!(found.contains("M /dir/large"), "{found:?}");
}

#[test]
fn each_change_of_attributes_has_its_word() {
    if !can_make_images() {
        return;
    }
    let pair = Pair::new();
    pair.change(&[
        // The file has two names.
        "set_inode_field /hello mode 0100600",
        "set_inode_field /dir/deep uid 7",
        "set_inode_field /dir/deep/deeper gid 8",
        "set_inode_field /dir/empty flags 0x80010",
        "ea_set /sparse user.tag value",
        "set_inode_field /dir/large mtime 20200101",
        "set_inode_field /dir/large atime 20200101",
        "set_inode_field /dir mtime 20200101",
    ]);
    let expected = "\
permissions /dir/again
owner /dir/deep/
owner /dir/deep/deeper/
flags /dir/empty
permissions /hello
xattrs /sparse
";
    pair.assert_differ(&[], expected);
    let with_times = "times /dir/\n".to_owned()
        + &expected.replace("permissions /hello", "times /dir/large\npermissions /hello");
    pair.assert_differ(&["--times"], &with_times);
    // The value differs, not the name.
    debugfs_write(&pair.old(), &["ea_set /sparse user.tag other"]).unwrap();
    pair.assert_differ(&[], expected);
}

#[test]
fn device_numbers_and_targets_are_compared() {
    if !can_make_images() {
        return;
    }
    let pair = Pair::new();
    debugfs_write(
        &pair.old(),
        &["mknod node b 8 1", "mknod same c 1 3", "symlink to there"],
    )
    .unwrap();
    pair.change(&["mknod node b 8 2", "mknod same c 1 3", "symlink to where"]);
    pair.assert_differ(&[], "device /node\ntarget /to\n");
}

/// Equal sizes and times do not prove that files are equal.
#[test]
fn content_that_was_changed_without_a_change_of_metadata_is_found() {
    if !can_make_images() {
        return;
    }
    let pair = Pair::new();
    let block: u64 = debugfs(&pair.new, "bmap /dir/large 2500")
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let file = File::options().write(true).open(&pair.new).unwrap();
    let at = (block + 1) * block_bytes(&pair.new) - 1;
    file.write_all_at(b"!", at).unwrap();
    pair.assert_differ(&["--times"], "content /dir/large\n");
}

#[test]
fn paths_in_images_are_compared() {
    if !can_make_images() {
        return;
    }
    let pair = Pair::new();
    pair.change(&["rm /dir/large"]);
    let old = |path: &str| format!("{}:{path}", pair.old().display());
    let same = |first: &str, second: &str| larder(["diff".to_owned(), old(first), old(second)]);
    assert_different(&same("/dir", "/dir/"), "");
    assert_different(&same("/hello", "/dir/again"), "");
    // A link at the end of a path is followed.
    assert_different(&same("/hello", "/link"), "");
    assert_different(&same("/hello", "/dir/empty"), "size,content /dir/empty\n");
    let expected = "permissions /dir/deep/deeper/\nremoved /dir/deep/deeper/\n";
    assert_different(&same("/dir/deep", "/dir/deep/deeper"), expected);
    let output = pair.diff_paths(&[], "/dir", "/dir");
    assert_different(&output, "removed /dir/large\n");
    let output = pair.diff_paths(&[], "/hello", "/dir");
    assert_different(
        &output,
        "type /dir/\nadded /dir/again\nadded /dir/deep/\nadded /dir/deep/deeper/\nadded /dir/empty\n",
    );
}

#[test]
fn json_has_the_attributes_before_and_after() {
    if !can_make_images() {
        return;
    }
    let pair = Pair::new();
    pair.change(&[
        "set_inode_field /dir/large uid 7",
        "rm /link",
        "symlink new\u{fffd} there",
    ]);
    let output = pair.diff(&["--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let differences = json["differences"].as_array().unwrap();
    assert_eq!(differences.len(), 3, "{json:#}");
    let [large, link, new] = &differences[..] else {
        panic!("{json:#}");
    };
    assert_eq!(large["path"], "/dir/large");
    assert_eq!(large["changes"], serde_json::json!(["owner"]));
    assert_eq!(large["new"]["uid"], 7);
    assert_ne!(large["old"]["uid"], 7);
    assert_eq!(link["changes"], serde_json::json!(["removed"]));
    assert_eq!(link["old"]["target"], "hello");
    assert!(link["new"].is_null());
    assert_eq!(new["new"]["target"], "there");
    pair.fixture.make_image("ext4", "");
    fs::copy(pair.old(), &pair.new).unwrap();
    let equal = pair.diff(&["--json"]);
    assert_eq!(equal.status.code(), Some(0));
    let json: serde_json::Value = serde_json::from_slice(&equal.stdout).unwrap();
    assert_eq!(json, serde_json::json!({"differences": []}));
}

#[test]
fn names_are_escaped_so_that_each_line_has_one_path() {
    if !can_make_images() {
        return;
    }
    let pair = Pair::new();
    let output = larder([
        "mkdir".as_ref(),
        pair.new.as_os_str(),
        "/a\n\u{1b}[31m".as_ref(),
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    pair.assert_differ(&[], "added /a\\n\\033[31m/\n");
}

#[test]
fn failures_have_the_code_two() {
    if !can_make_images() {
        return;
    }
    let pair = Pair::new();
    pair.change(&["rm /sparse"]);
    let missing = pair.fixture.path("missing");
    let output = larder(["diff".as_ref(), missing.as_os_str(), pair.new.as_os_str()]);
    assert_fails(&output, 2, &["missing", "does not exist"]);
    assert_fails(
        &pair.diff_paths(&[], "/", "/none"),
        2,
        &["new: /none: no such file"],
    );
    assert_fails(
        &larder(["diff".as_ref(), pair.new.as_os_str()]),
        2,
        &["NEW"],
    );
    let overlay = pair.diff(&["--overlay", "changes.qcow2"]);
    assert_fails(&overlay, 2, &["larder overlay diff"]);
    // A file that cannot be compared does not end the comparison.
    pair.change(&["set_inode_field /dir/large block[0] 0"]);
    let output = pair.diff(&[]);
    assert_fails(&output, 2, &["new: /dir/large: "]);
    assert_eq!(text(&output.stdout), "removed /sparse\n");
}

#[test]
fn unreadable_directory_reports_no_entries_as_added_or_removed() {
    if !can_make_images() {
        return;
    }
    for request in [
        "set_inode_field /dir block[0] 0",
        "set_inode_field /dir mode 0100755",
    ] {
        let pair = Pair::new();
        pair.change(&[request]);
        let output = pair.diff(&[]);
        assert_fails(&output, 2, &["new: /dir: "]);
        assert_eq!(text(&output.stdout), "", "{request}");
        // The old tree is the damaged one.
        let [old, new] = [pair.old(), pair.new.clone()];
        let output = larder(["diff".as_ref(), new.as_os_str(), old.as_os_str()]);
        assert_fails(&output, 2, &["new: /dir: "]);
        assert_eq!(text(&output.stdout), "", "{request}");
    }
}

#[test]
fn loops_of_directories_end() {
    if !can_make_images() {
        return;
    }
    let pair = Pair::new();
    debugfs_write(&pair.old(), &["link dir dir/deep/loop"]).unwrap();
    pair.change(&["link dir dir/deep/loop", "rm /sparse"]);
    let output = pair.diff(&[]);
    assert_fails(&output, 2, &["new: /dir/deep/loop: ", "directory loop"]);
    assert_eq!(text(&output.stderr).lines().count(), 2);
    assert_eq!(text(&output.stdout), "removed /sparse\n");
}

/// A read of these holes would take hours.
#[test]
fn holes_in_both_files_are_not_read() {
    if !can_make_images() {
        return;
    }
    let pair = Pair::new();
    let size = "set_inode_field /sparse size 0x8000000000";
    debugfs_write(&pair.old(), &[size]).unwrap();
    pair.change(&[size]);
    pair.assert_differ(&[], "");
}

/// The number of bytes of the file at `path` that are in the page cache.
fn cached_bytes(path: &Path) -> u64 {
    let fincore = Tool::new("fincore").args(["--bytes", "--noheadings", "--output", "RES"]);
    let printed = fincore.arg(path).run().unwrap();
    printed.trim().parse().unwrap()
}

/// Writes the file at `path` to the disk, and evicts it from the page cache.
fn evict(path: &Path) {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

/// Content that the host stores once, as after `cp --reflink`, is equal without a read.
#[test]
fn content_that_images_share_on_the_host_is_not_read() {
    let needed = [
        Requirement::XfsMount,
        Requirement::Tool("mkfs.xfs"),
        Requirement::Tool("fincore"),
    ];
    if !can_make_images() || skip(&needed) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let host = folder.path().join("host");
    File::create(&host).unwrap().set_len(512 << 20).unwrap();
    Tool::new("mkfs.xfs").arg("-q").arg(&host).run().unwrap();
    let mount = LoopMount::of_type("xfs", &host, Access::ReadWrite, &[]).unwrap();
    let [old, new] = ["old", "new"].map(|name| mount.path().join(name));

    let tree = folder.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let large = support::content(32 << 20);
    let large_bytes = large.len() as u64;
    fs::write(tree.join("large"), large).unwrap();
    fs::write(tree.join("small"), "one").unwrap();
    File::create(&old)
        .unwrap()
        .set_len(2 * large_bytes)
        .unwrap();
    let mke2fs = Tool::new("mke2fs").args(["-q", "-t", "ext4", "-b", "4096", "-d"]);
    mke2fs.arg(&tree).arg(&old).run().unwrap();
    let clone = || {
        let source = File::open(&old).unwrap();
        rustix::fs::ioctl_ficlone(File::create(&new).unwrap(), source).unwrap();
    };
    let diff = || larder([Path::new("diff"), &old, &new]);

    clone();
    evict(&old);
    evict(&new);
    assert!(cached_bytes(&old) + cached_bytes(&new) < large_bytes / 8);
    assert_different(&diff(), "");
    assert!(cached_bytes(&old) + cached_bytes(&new) < large_bytes / 8);

    // The changed block has a place of its own, whether it is on the disk or still in memory.
    let at_bytes = large_bytes / 2;
    let blocks = debugfs(&new, &format!("bmap /large {}", at_bytes / 4096)).unwrap();
    let place_bytes = blocks.trim().parse::<u64>().unwrap() * 4096;
    File::options()
        .write(true)
        .open(&new)
        .unwrap()
        .write_all_at(b"changed", place_bytes)
        .unwrap();
    assert_different(&diff(), "content /large\n");
    evict(&new);
    assert_different(&diff(), "content /large\n");

    // Without shared extents, the content is read.
    fs::copy(&old, folder.path().join("copy")).unwrap();
    let copy = folder.path().join("copy");
    assert_different(&larder([Path::new("diff"), &old, &copy]), "");
    assert!(cached_bytes(&old) >= large_bytes);
}
