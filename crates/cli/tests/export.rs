//! `larder export`, whose archives GNU tar lists and extracts.

mod support;

use larder_testkit::e2fsprogs::{debugfs_write, make_image};
use larder_testkit::oracle::{Comparison, DirectorySource, Fields, compare};
use larder_testkit::tree::{Limits, Tree, populate};
use larder_testkit::{Access, LoopMount, Requirement, skip};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use support::{
    Fixture, User, assert_fails, assert_quiet_after_broken_pipe, binary, can_make_images, command,
    has_root, larder, larder_ok, on_terminal, sh, text,
};

/// The size of the images that the kernel mounts.
const IMAGE_SIZE: &str = "64M";

fn has_tar() -> bool {
    can_make_images() && !skip(&[Requirement::Tool("tar")])
}

/// Runs GNU tar on `archive` in the directory `at`.
fn tar(archive: &Path, at: &Path, options: &[&str]) -> Output {
    Command::new("tar")
        .args(options)
        .arg("-f")
        .arg(archive)
        .current_dir(at)
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .output()
        .unwrap()
}

/// Returns what tar prints about an archive, without messages.
#[track_caller]
fn listed(fixture: &Fixture, archive: &[u8], option: &str) -> String {
    let path = fixture.path("listed.tar");
    fs::write(&path, archive).unwrap();
    let options = [option, "--quoting-style=escape", "--numeric-owner"];
    let output = tar(&path, Path::new("/"), &options);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    text(&output.stdout)
}

/// Returns the archive of paths in the image, without messages.
#[track_caller]
fn exported(fixture: &Fixture, paths: &[&str]) -> Vec<u8> {
    let output = export(fixture, paths);
    assert_eq!(text(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
    output.stdout
}

fn export(fixture: &Fixture, paths: &[&str]) -> Output {
    let image = fixture.image();
    let paths = paths.iter().map(OsStr::new);
    larder(
        [OsStr::new("export"), image.as_os_str()]
            .into_iter()
            .chain(paths),
    )
}

/// Returns the time of modification in nanoseconds, the type and the path of each file in `root`.
fn times(root: &Path) -> BTreeSet<Vec<u8>> {
    let output = Command::new("find")
        .args([".", "-printf", "%T@ %y %P\\0"])
        .current_dir(root)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines = output.stdout.split(|&byte| byte == 0);
    lines.map(<[u8]>::to_vec).collect()
}

/// Returns an image with a tree that contains everything that is difficult to store.
fn image_of_everything(fixture: &Fixture) -> PathBuf {
    let image = fixture.path("everything");
    make_image(&image, "-t ext4 -b 4096", IMAGE_SIZE).unwrap();
    let mount = LoopMount::new(&image, Access::ReadWrite, &[]).unwrap();
    populate(&mount.path(), &Tree::SMALL, Limits::NONE).unwrap();
    // An archive cannot contain a socket.
    fs::remove_file(mount.path().join("nodes/socket")).unwrap();
    image
}

#[test]
fn tree_that_tar_extracts_equals_the_image() {
    if !has_tar() || !has_root() || skip(&[Requirement::LoopMount, Requirement::Tool("find")]) {
        return;
    }
    let fixture = Fixture::new();
    let image = image_of_everything(&fixture);
    let archive = fixture.path("everything.tar");
    let output = larder([
        "export".as_ref(),
        image.as_os_str(),
        "--output".as_ref(),
        archive.as_os_str(),
    ]);
    assert_eq!(text(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
    let copy = fixture.path("copy");
    make_image(&copy, "-t ext4 -b 4096", IMAGE_SIZE).unwrap();
    let extracted = LoopMount::new(&copy, Access::ReadWrite, &[]).unwrap();
    let folder = fixture.directory("extracted", User::Same);
    let attached = extracted.attach(&folder).unwrap();
    let options = [
        "-x",
        "-p",
        "--numeric-owner",
        "--acls",
        "--xattrs",
        "--xattrs-include=*",
    ];
    let output = tar(&archive, &folder, &options);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let original = LoopMount::new(&image, Access::ReadOnly, &[]).unwrap();
    let comparison = Comparison {
        fields: Fields::COPIED.union(Fields::HOLES),
        closed: &[],
    };
    let report = compare(
        &DirectorySource::new("image", &original.path()),
        &DirectorySource::new("tar", &folder),
        &comparison,
    );
    report.assert_same("the extracted archive");
    assert!(report.entries > 500 && report.attributes > 50, "{report}");
    let (expected, found) = (times(&original.path()), times(&folder));
    let different: Vec<String> = expected
        .symmetric_difference(&found)
        .map(|line| text(line))
        .collect();
    assert_eq!(different, [""; 0]);
    drop(attached);
    let output = tar(&archive, Path::new("/"), &["-tv"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn archive_of_the_root_has_sorted_relative_names() {
    if !has_tar() {
        return;
    }
    let fixture = Fixture::new();
    let archive = exported(&fixture, &[]);
    let names = "./
dir/
dir/again
dir/deep/
dir/deep/deeper/
dir/empty
dir/large
hello
link
lost+found/
no\\377text
outward
sparse
";
    assert_eq!(listed(&fixture, &archive, "-t"), names);
    let lines = listed(&fixture, &archive, "-tv");
    for line in ["hello link to dir/again", "link -> hello"] {
        assert!(lines.contains(line), "{line:?} is not in {lines}");
    }
    // The holes are not stored.
    assert!(archive.len() < 4 << 20, "{}", archive.len());
    assert!(exported(&fixture, &["/"]) == archive);
    let alias = larder(["tar".as_ref(), fixture.image().as_os_str()]);
    assert!(alias.stdout == archive);
}

#[test]
fn trees_and_files_have_their_names_in_the_image() {
    if !has_tar() {
        return;
    }
    let fixture = Fixture::new();
    for (paths, names) in [
        (&["/dir/deep"] as &[&str], "dir/deep/\ndir/deep/deeper/\n"),
        (&["dir//deep/./"], "dir/deep/\ndir/deep/deeper/\n"),
        (&["/hello"], "hello\n"),
        (&["/link"], "link\n"),
        (&["/dir/e*", "/hello"], "dir/empty\nhello\n"),
        // The second root contains the first.
        (
            &["/dir/deep", "/dir"],
            "dir/deep/\ndir/deep/deeper/\ndir/\ndir/again\ndir/deep/\ndir/deep/deeper/\n\
             dir/empty\ndir/large\n",
        ),
        // The second member is not a hard link to itself: extracting such a link would remove the file.
        (&["/hello", "/hello"], "hello\nhello\n"),
    ] {
        let archive = exported(&fixture, paths);
        assert_eq!(listed(&fixture, &archive, "-t"), names, "{paths:?}");
    }
    let twice = exported(&fixture, &["/hello", "/hello"]);
    assert!(!listed(&fixture, &twice, "-tv").contains("link to"));
    let place = format!("{}:/dir/empty", fixture.image().display());
    let archive = larder(["export", &place]).stdout;
    assert_eq!(listed(&fixture, &archive, "-t"), "dir/empty\n");
    assert_fails(&export(&fixture, &["/dir/../hello"]), 1, &["without .."]);
    assert_fails(&export(&fixture, &["/none"]), 1, &["/none: no such file"]);
}

/// If an archive contained a link of the image, and then a directory with the same name, a program that extracts the
/// archive could write files outside of its directory.
#[test]
fn files_with_the_same_name_are_reported_and_left_out() {
    if !has_tar() {
        return;
    }
    let fixture = Fixture::new();
    fs::remove_dir_all(fixture.path("tree")).unwrap();
    fs::create_dir_all(fixture.path("tree/real")).unwrap();
    fs::write(fixture.path("tree/real/file"), "content").unwrap();
    symlink("/nowhere", fixture.path("tree/evil")).unwrap();
    fs::create_dir(fixture.path("tree/evik")).unwrap();
    fs::write(fixture.path("tree/evik/file"), "content").unwrap();
    fixture.make_image("ext2", "-O ^dir_index");
    // The directory gets the name of the link.
    let mut image = fs::read(fixture.image()).unwrap();
    let at = image.windows(4).position(|bytes| bytes == b"evik").unwrap();
    image[at..at + 4].copy_from_slice(b"evil");
    fs::write(fixture.image(), image).unwrap();
    let output = export(&fixture, &["/"]);
    assert_fails(
        &output,
        1,
        &["error: /evil: the directory contains this name several times"],
    );
    assert_eq!(text(&output.stderr).matches("error: ").count(), 1);
    assert_eq!(
        listed(&fixture, &output.stdout, "-t"),
        "./\nlost+found/\nreal/\nreal/file\n"
    );
}

/// Writing the zeros of this hole would take hours and a large disk.
#[test]
fn huge_hole_is_not_stored() {
    if !has_tar() {
        return;
    }
    let fixture = Fixture::new();
    debugfs_write(
        &fixture.image(),
        &["set_inode_field /sparse size 0x10000000000"],
    )
    .unwrap();
    let archive = exported(&fixture, &["/sparse"]);
    assert!(archive.len() < 64 << 10, "{}", archive.len());
    let line = listed(&fixture, &archive, "-tv");
    assert!(line.contains(" 1099511627776 "), "{line}");
}

#[test]
fn damaged_file_is_reported_and_the_others_are_archived() {
    if !has_tar() {
        return;
    }
    let fixture = Fixture::new();
    debugfs_write(
        &fixture.image(),
        &[
            "set_inode_field /dir/large block[0] 0",
            "set_inode_field /dir/deep block[0] 0",
        ],
    )
    .unwrap();
    let output = export(&fixture, &["/dir", "/hello"]);
    assert_fails(&output, 1, &["error: /dir/large: ", "error: /dir/deep: "]);
    assert_eq!(text(&output.stderr).matches("error: ").count(), 2);
    assert_eq!(
        listed(&fixture, &output.stdout, "-t"),
        "dir/\ndir/again\ndir/deep/\ndir/empty\nhello\n"
    );
}

#[test]
fn socket_is_left_out_with_a_warning() {
    if !has_tar() {
        return;
    }
    let fixture = Fixture::new();
    debugfs_write(
        &fixture.image(),
        &["set_inode_field /dir/empty mode 0140644"],
    )
    .unwrap();
    let output = export(&fixture, &["/dir/e*", "/hello"]);
    assert_fails(&output, 0, &["warning: /dir/empty: ", "socket"]);
    assert_eq!(listed(&fixture, &output.stdout, "-t"), "hello\n");
}

#[test]
fn export_into_a_closed_pipe_is_quiet() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    assert_quiet_after_broken_pipe(&["export".as_ref(), fixture.image().as_os_str()]);
}

#[test]
fn file_of_output_is_complete_or_unchanged() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let folder = fixture.directory("out", User::Same);
    let file = folder.join("out.tar");
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" export \"$1\" -o \"$2\"";
    let limited = || {
        Command::new("bash")
            .args(["-c", script])
            .arg(binary())
            .args([&fixture.image(), &file])
            .output()
            .unwrap()
    };
    let files = || fs::read_dir(&folder).unwrap().count();
    assert_fails(&limited(), 1, &["error: cannot write the archive: "]);
    assert_eq!(files(), 0);
    let image = fixture.image();
    let output = larder([
        "export".as_ref(),
        image.as_os_str(),
        "-o".as_ref(),
        file.as_os_str(),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty());
    let archive = exported(&fixture, &[]);
    assert!(fs::read(&file).unwrap() == archive);
    assert_fails(&limited(), 1, &["error: cannot write the archive: "]);
    assert_eq!(files(), 1);
    assert!(fs::read(&file).unwrap() == archive);
    let output = larder([
        "export".as_ref(),
        image.as_os_str(),
        "-o".as_ref(),
        image.as_os_str(),
    ]);
    assert_fails(&output, 2, &["is the image itself"]);
    let output = larder([
        "export".as_ref(),
        "--overlay".as_ref(),
        file.as_os_str(),
        image.as_os_str(),
        "-o".as_ref(),
        file.as_os_str(),
    ]);
    assert_fails(&output, 2, &["is the overlay of the image"]);
    assert!(fs::read(&file).unwrap() == archive);
    let link = folder.join("link");
    symlink("none", &link).unwrap();
    let output = larder([
        "export".as_ref(),
        image.as_os_str(),
        "-o".as_ref(),
        link.as_os_str(),
    ]);
    assert_fails(&output, 1, &["cannot follow the symbolic link "]);
    assert!(link.is_symlink());
}

#[test]
fn file_that_output_replaces_keeps_its_owner_and_permissions() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let [private, new, plain] = ["private.tar", "new.tar", "plain"].map(|name| fixture.path(name));
    fs::write(&private, "").unwrap();
    fs::write(&plain, "").unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o600)).unwrap();
    if !skip(&[Requirement::Root]) {
        chown(&private, Some(7), Some(8)).unwrap();
    }
    let attributes = |path: &Path| {
        let metadata = fs::metadata(path).unwrap();
        (metadata.mode(), metadata.uid(), metadata.gid())
    };
    let before = attributes(&private);
    for file in [&private, &new] {
        larder_ok([Path::new("export"), &fixture.image(), Path::new("-o"), file]);
        assert!(fs::metadata(file).unwrap().len() > 0);
    }
    assert_eq!(attributes(&private), before);
    assert_eq!(attributes(&new), attributes(&plain));
}

/// A FIFO that `--output` names is treated like a regular file: an incomplete archive is an error.
#[test]
fn closed_fifo_of_output_is_an_error() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let fifo = fixture.path("fifo");
    sh("mkfifo \"$1\"", &[&fifo]);
    let child = command("larder", User::Same)
        .args([
            "export".as_ref(),
            fixture.image().as_os_str(),
            "-o".as_ref(),
            fifo.as_os_str(),
        ])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    let mut reader = fs::File::open(&fifo).unwrap();
    reader.read_exact(&mut first).unwrap();
    drop(reader);
    let output = child.wait_with_output().unwrap();
    assert_fails(&output, 1, &["cannot write the archive: "]);
}

#[test]
fn export_into_a_closed_pipe_keeps_the_exit_code_of_failures() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    debugfs_write(&fixture.image(), &["set_inode_field /dir/deep block[0] 0"]).unwrap();
    // The archive of the large file does not fit in the pipe.
    let script = "\"$0\" export \"$1\" /dir/deep /dir/large /dir/large | head -c 600 > /dev/null; \
                  exit \"${PIPESTATUS[0]}\"";
    let output = Command::new("bash")
        .args(["-c", script])
        .arg(binary())
        .arg(fixture.image())
        .output()
        .unwrap();
    assert_fails(&output, 1, &["error: /dir/deep: "]);
    assert_eq!(text(&output.stderr).matches("error: ").count(), 1);
}

#[test]
fn archive_is_not_written_to_a_terminal() {
    if !can_make_images() || skip(&[Requirement::Tool("script")]) {
        return;
    }
    let fixture = Fixture::new();
    for (options, message) in [
        ("", "standard output is a terminal"),
        ("-o /dev/stdout", "/dev/stdout is a terminal"),
        ("-o /dev/tty", "/dev/tty is a terminal"),
    ] {
        let line = format!(
            "{} export {} {options}",
            binary().display(),
            fixture.image().display()
        );
        let output = on_terminal(&line);
        let printed = text(&output.stdout);
        assert!(printed.contains(message), "{printed}");
        assert!(printed.contains("hint: "), "{printed}");
        assert_eq!(output.status.code(), Some(2), "{printed}");
    }
}
