//! `larder cp` into an image, `put`, `mkdir`, `rm` and `mv`, without a mount.

mod support;

use larder_testkit::e2fsprogs::{debugfs_write, make_image_of};
use larder_testkit::{Requirement, skip};
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use support::{
    Fixture, User, assert_clean, assert_fails, can_make_images, command, larder, larder_ok, sh,
    text,
};

/// Returns `IMAGE:PATH` for a path in the fixture's image.
fn place(fixture: &Fixture, path: &str) -> String {
    format!("{}:{path}", fixture.image().display())
}

fn cat(fixture: &Fixture, path: &str) -> String {
    larder_ok(["cat".as_ref(), fixture.image().as_os_str(), path.as_ref()])
}

/// Returns find(1)'s description of a tree, except for what a copy cannot keep.
fn listing(tree: &Path) -> String {
    let listed = Command::new("find")
        .args([
            ".",
            "-mindepth",
            "1",
            "-type",
            "d",
            "-printf",
            "%p %M %U %G %TY-%Tm-%Td %TT\\n",
        ])
        .args([
            "-o",
            "-mindepth",
            "1",
            "-printf",
            "%p %M %n %U %G %s %l %TY-%Tm-%Td %TT\\n",
        ])
        .current_dir(tree)
        .output()
        .unwrap();
    let mut lines: Vec<_> = text(&listed.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    lines.join("\n")
}

#[test]
fn tree_copied_in_and_out_is_unchanged() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let tree = fixture.path("tree");
    sh(
        "mkfifo \"$1/fifo\"; chmod 1777 \"$1/dir\"; touch -d @-5.25 \"$1/hello\"",
        &[&tree],
    );
    // Sets an attribute if the file system supports it.
    let _ = Command::new("setfattr")
        .args(["-n", "user.note", "-v", "kept"])
        .arg(tree.join("hello"))
        .stderr(Stdio::null())
        .status();
    fixture.make_image_of(&fixture.directory("nothing", User::Same));
    larder_ok([
        "cp".as_ref(),
        "-r".as_ref(),
        tree.as_os_str(),
        place(&fixture, "/").as_ref(),
    ]);
    assert_clean(&fixture.image());
    let out = fixture.path("out");
    larder_ok([
        OsStr::new("cp"),
        "-r".as_ref(),
        fixture.image().as_os_str(),
        "/tree".as_ref(),
        out.as_os_str(),
    ]);
    assert_eq!(listing(&tree), listing(&out));
    sh(
        "diff -r --no-dereference -x fifo \"$1\" \"$2\"",
        &[&tree, &out],
    );
    let sparse = fs::metadata(out.join("sparse")).unwrap();
    assert!(sparse.blocks() < 1000, "{}", sparse.blocks());
    assert_eq!(
        fs::metadata(out.join("hello")).unwrap().ino(),
        fs::metadata(out.join("dir/again")).unwrap().ino()
    );
    let of = |path: &Path| {
        let read = Command::new("getfattr")
            .args(["-d", "--absolute-names"])
            .arg(path)
            .output();
        read.map(|output| text(&output.stdout).lines().skip(1).collect::<String>())
    };
    if let (Ok(before), Ok(after)) = (of(&tree.join("hello")), of(&out.join("hello"))) {
        assert_eq!(before, after);
    }
}

#[test]
fn copy_into_image_chooses_destination_as_cp_does() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let source = fixture.directory("source", User::Same);
    fs::write(source.join("one"), "1").unwrap();
    fs::write(source.join("two"), "2").unwrap();
    let copy = |args: &[&OsStr]| {
        let args = [OsStr::new("cp")].into_iter().chain(args.iter().copied());
        larder(args)
    };
    let (one, two) = (source.join("one"), source.join("two"));
    for (from, to, at) in [
        (one.as_os_str(), "/dir", "/dir/one"),
        (one.as_os_str(), "/dir/renamed", "/dir/renamed"),
        (two.as_os_str(), "/hello", "/hello"),
    ] {
        let done = copy(&[from, place(&fixture, to).as_ref()]);
        assert!(done.status.success(), "{}", text(&done.stderr));
        assert_eq!(cat(&fixture, at).into_bytes(), fs::read(from).unwrap());
    }
    // The other name of the replaced file is unchanged.
    assert_eq!(cat(&fixture, "/dir/again"), "hello, larder\n");
    let content = source.join(".");
    let root = place(&fixture, "/dir/deep");
    assert!(
        copy(&["-r".as_ref(), content.as_os_str(), root.as_ref()])
            .status
            .success()
    );
    assert_eq!(cat(&fixture, "/dir/deep/two"), "2");

    let refused = copy(&[source.as_os_str(), place(&fixture, "/").as_ref()]);
    assert_fails(&refused, 1, &["is a directory"]);
    let refused = copy(&[
        one.as_os_str(),
        two.as_os_str(),
        place(&fixture, "/hello").as_ref(),
    ]);
    assert_fails(&refused, 1, &["is not a directory", "hint:"]);
    let missing = source.join("none");
    let partly = copy(&[
        missing.as_os_str(),
        one.as_os_str(),
        place(&fixture, "/").as_ref(),
    ]);
    assert_fails(&partly, 1, &["none", "cannot read the source"]);
    assert_eq!(cat(&fixture, "/one"), "1");
    assert_fails(&copy(&[one.as_os_str(), two.as_os_str()]), 2, &["cp needs"]);
    assert_clean(&fixture.image());
}

#[test]
fn image_is_not_copied_into_itself() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    let output = larder([
        "cp".as_ref(),
        image.as_os_str(),
        place(&fixture, "/copy").as_ref(),
    ]);
    assert_fails(&output, 1, &["is the image itself"]);
}

#[test]
fn put_replaces_content_of_one_name() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let file = fixture.path("file");
    fs::write(&file, "new\n").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    let output = larder([
        "put".as_ref(),
        file.as_os_str(),
        place(&fixture, "/hello").as_ref(),
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(cat(&fixture, "/hello"), "new\n");
    let note = "note: /hello has the new content; 1 other hard link keeps the old content";
    assert!(text(&output.stderr).contains(note), "{output:?}");
    assert_eq!(cat(&fixture, "/dir/again"), "hello, larder\n");
    larder_ok([
        "put".as_ref(),
        file.as_os_str(),
        place(&fixture, "/dir/").as_ref(),
    ]);
    assert_eq!(cat(&fixture, "/dir/file"), "new\n");
    let stat = larder_ok([
        "stat".as_ref(),
        fixture.image().as_os_str(),
        "/dir/file".as_ref(),
    ]);
    assert!(stat.contains("0640"), "{stat}");

    let mut child = command("larder", User::Same)
        .args(["put", "-", &place(&fixture, "/piped")])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"from a pipe")
        .unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(cat(&fixture, "/piped"), "from a pipe");
    for (destination, code, part) in [
        (place(&fixture, "/none/file"), 1, "no such file"),
        ("image".to_owned(), 2, "is not a path in an image"),
    ] {
        let output = larder(["put".as_ref(), file.as_os_str(), destination.as_ref()]);
        assert_fails(&output, code, &[part]);
    }
    assert_clean(&fixture.image());
}

#[test]
fn directories_are_made_moved_and_removed() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let on_image = |command: &[&str], paths: &[&str]| {
        let args = command.iter().map(OsStr::new);
        let image = fixture.image();
        let args: Vec<_> = args
            .map(OsStr::to_owned)
            .chain([image.into_os_string()])
            .chain(paths.iter().map(Into::into))
            .collect();
        larder(args)
    };
    let ok = |command: &[&str], paths: &[&str]| {
        let output = on_image(command, paths);
        assert!(
            output.status.success(),
            "{command:?}: {}",
            text(&output.stderr)
        );
    };
    ok(&["mkdir", "-p"], &["/a/b/c", "/dir/"]);
    ok(&["mkdir", "--mode", "1700"], &["/a/own"]);
    assert_fails(&on_image(&["mkdir"], &["/a"]), 1, &["/a"]);
    assert_fails(&on_image(&["mkdir"], &["/none/x"]), 1, &["no such file"]);
    assert_fails(
        &on_image(&["mkdir", "-p"], &["/hello/x"]),
        1,
        &["exists and is not a directory"],
    );
    ok(&["mv"], &["/a/b/c", "/a/moved"]);
    ok(&["mv"], &["/hello", "/link", "/a"]);
    assert_eq!(cat(&fixture, "/a/hello"), "hello, larder\n");
    assert_fails(
        &on_image(&["mv", "-n"], &["/dir/again", "/a/hello"]),
        1,
        &["again"],
    );
    assert_fails(&on_image(&["mv"], &["/none", "/x"]), 1, &["no such file"]);

    assert_fails(&on_image(&["rm"], &["/dir"]), 1, &["is a directory", "-r"]);
    assert_fails(&on_image(&["rm"], &["/none", "/dir/empty"]), 1, &["/none"]);
    assert_fails(&on_image(&["rm", "-r"], &["/"]), 1, &["refusing"]);
    ok(&["rm", "-rf"], &["/dir", "/none", "/a/own"]);
    let listed = larder_ok(["ls".as_ref(), fixture.image().as_os_str(), "/a".as_ref()]);
    assert_eq!(listed, "b\nhello\nlink\nmoved\n");
    assert_clean(&fixture.image());
}

/// Creates the fixture's image again: 8 MiB with `/conf`, which has attributes of its own.
fn make_small_image(fixture: &Fixture) {
    let tree = fixture.directory("small", User::Same);
    fs::write(tree.join("conf"), "precious\n").unwrap();
    fs::set_permissions(tree.join("conf"), Permissions::from_mode(0o4750)).unwrap();
    fs::remove_file(fixture.image()).unwrap();
    make_image_of(&tree, &fixture.image(), "-t ext4", "8M").unwrap();
    let changes = [
        "sif /conf uid 7",
        "sif /conf gid 8",
        "ea_set /conf user.note kept",
    ];
    debugfs_write(&fixture.image(), &changes).unwrap();
}

/// Returns the output of `larder stat`, `info` and `cat` for `/conf` and the free space.
fn all_about_conf(fixture: &Fixture) -> String {
    let image = fixture.image();
    let stat = larder_ok(["stat".as_ref(), image.as_os_str(), "/conf".as_ref()]);
    let info = larder_ok(["info".as_ref(), "--json".as_ref(), image.as_os_str()]);
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    let listed = larder_ok([
        "ls".as_ref(),
        "-a".as_ref(),
        image.as_os_str(),
        "/".as_ref(),
    ]);
    let (blocks, inodes) = (&info["blocks_free"], &info["inodes_free"]);
    let content = cat(fixture, "/conf");
    format!("{stat}{content}{listed}{blocks} blocks and {inodes} inodes are free")
}

#[test]
fn copy_that_fails_changes_nothing() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    make_small_image(&fixture);
    let large = fixture.path("large");
    fs::write(&large, support::content(16 << 20)).unwrap();
    let before = all_about_conf(&fixture);
    let (large, conf) = (large.as_os_str(), place(&fixture, "/conf"));
    let new = place(&fixture, "/new");
    for (command, source, to, part) in [
        ("cp", large, &conf, "no space left"),
        ("cp", large, &new, "no space left"),
        ("put", large, &conf, "no space left"),
        ("put", large, &new, "no space left"),
        // Reading this file fails.
        ("put", "/proc/self/mem".as_ref(), &conf, "cannot read"),
        ("put", "/proc/self/mem".as_ref(), &new, "cannot read"),
    ] {
        let output = larder([command.as_ref(), source, to.as_ref()]);
        assert_fails(&output, 1, &[part]);
        assert_eq!(
            all_about_conf(&fixture),
            before,
            "{command} {source:?} {to}"
        );
        assert_clean(&fixture.image());
    }
    let output = larder(["put".as_ref(), large, conf.as_ref()]);
    assert_fails(&output, 1, &["error: /conf: ", "hint:", "larder rm"]);
}

#[test]
fn copy_with_too_large_attribute_changes_nothing() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    make_small_image(&fixture);
    // On tmpfs, attributes may be larger than on many file systems of disks.
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let source = memory.path().join("source");
    fs::write(&source, "new\n").unwrap();
    let set = (0..8).try_for_each(|number| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(&source, format!("user.large{number}"), &[b'x'; 3000], flags)
    });
    if set.is_err() {
        larder_testkit::report_skipped("files in /dev/shm have no large attributes");
        return;
    }
    let before = all_about_conf(&fixture);
    for to in ["/conf", "/new"] {
        let output = larder([
            "cp".as_ref(),
            source.as_os_str(),
            place(&fixture, to).as_ref(),
        ]);
        assert_fails(&output, 1, &["cannot set attribute user.large"]);
        assert_eq!(all_about_conf(&fixture), before);
    }
    assert_clean(&fixture.image());
}

#[test]
fn directory_is_not_copied_if_its_attributes_do_not_fit() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    make_small_image(&fixture);
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let tree = memory.path().join("tree");
    fs::create_dir_all(tree.join("large")).unwrap();
    for name in ["large/below", "beside"] {
        fs::write(tree.join(name), "content\n").unwrap();
    }
    let set = (0..8).try_for_each(|number| {
        let name = format!("user.large{number}");
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(tree.join("large"), name, &[b'x'; 3000], flags)
    });
    if set.is_err() {
        larder_testkit::report_skipped("files in /dev/shm have no large attributes");
        return;
    }
    let output = larder([
        "cp".as_ref(),
        "-r".as_ref(),
        tree.as_os_str(),
        place(&fixture, "/").as_ref(),
    ]);
    assert_fails(
        &output,
        1,
        &["cannot set attribute user.large", "were not copied"],
    );
    assert_clean(&fixture.image());
    let listed = larder_ok([OsStr::new("ls"), fixture.image().as_ref(), "/tree".as_ref()]);
    assert_eq!(listed.trim(), "beside");
}

/// The bar is drawn after the first part of the content.
#[test]
fn progress_of_long_copies_has_a_rate_and_the_time_left() {
    if !can_make_images() || skip(&[Requirement::Tool("script"), Requirement::Tool("stty")]) {
        return;
    }
    let fixture = Fixture::new();
    let source = fixture.path("source");
    fs::write(&source, support::content(3 << 20)).unwrap();
    let tree = fixture.path("source-tree");
    fs::create_dir(&tree).unwrap();
    fs::copy(&source, tree.join("file")).unwrap();
    let larder = format!("'{}'", support::binary().display());
    let [source, tree] = [source, tree].map(|path| format!("'{}'", path.display()));
    let [copy, archive, made] =
        ["copy", "archive", "made"].map(|name| format!("'{}'", fixture.path(name).display()));
    let inside = |path| format!("'{}'", place(&fixture, path));
    let bar: &[&str] = &[" MiB of 3.00 MiB, ", "/s, ", " left"];
    let spinner: &[&str] = &[" MiB, ", "/s"];
    for (line, parts) in [
        (format!("{larder} put {source} {}", inside("/new")), bar),
        (
            format!("cat {source} | {larder} put - {}", inside("/new")),
            spinner,
        ),
        (format!("{larder} cp {source} {}", inside("/in")), bar),
        (format!("{larder} cp -r {tree} {}", inside("/tree-in")), bar),
        (format!("{larder} cp {} {copy}", inside("/dir/large")), bar),
        (
            format!("{larder} export -o {archive} {}", inside("/dir/large")),
            bar,
        ),
        (
            format!("{larder} create --size 16M --from {tree} {made}"),
            bar,
        ),
        (
            format!("tar -c -C {tree} . | {larder} create --size 16M --from - {made}.piped"),
            spinner,
        ),
    ] {
        let output = support::on_terminal(&format!("stty rows 40 cols 120; {line}"));
        let shown = text(&output.stdout);
        assert!(output.status.success(), "{line}: {shown:?}");
        for part in parts {
            assert!(shown.contains(part), "{line}: {part:?} is not in {shown:?}");
        }
    }
}

#[test]
fn killed_put_changes_nothing() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    make_small_image(&fixture);
    let before = all_about_conf(&fixture);
    let stored = || fs::metadata(fixture.image()).unwrap().blocks() * 512;
    let before_bytes = stored();
    let mut child = command("larder", User::Same)
        .args(["put", "-", &place(&fixture, "/conf")])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&support::content(4 << 20)).unwrap();
    // When the content is old enough, the content and its metadata are written to the image.
    support::wait_until("content on the image", || {
        stored() > before_bytes + (2 << 20)
    });
    child.kill().unwrap();
    child.wait().unwrap();
    drop(stdin);
    assert_eq!(cat(&fixture, "/conf"), "precious\n");
    // The next command that writes repairs the image.
    larder_ok([
        "mkdir".as_ref(),
        "-p".as_ref(),
        fixture.image().as_os_str(),
        "/lost+found".as_ref(),
    ]);
    assert_eq!(all_about_conf(&fixture), before);
    assert_clean(&fixture.image());
}

#[test]
fn tree_that_does_not_fit_leaves_only_complete_files() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    make_small_image(&fixture);
    let tree = fixture.directory("source", User::Same);
    fs::create_dir(tree.join("dir")).unwrap();
    for number in 0..4 {
        fs::write(
            tree.join(format!("dir/small-{number}")),
            support::content(9000),
        )
        .unwrap();
        fs::write(
            tree.join(format!("dir/large-{number}")),
            support::content(3 << 20),
        )
        .unwrap();
    }
    sh(
        "touch -d @-5.25 \"$1/dir/small-0\"; chmod 2751 \"$1/dir\"; touch -d @77 \"$1/dir\"",
        &[&tree],
    );
    let output = larder([
        "cp".as_ref(),
        "-r".as_ref(),
        tree.as_os_str(),
        place(&fixture, "/").as_ref(),
    ]);
    assert_fails(&output, 1, &["no space left", "hint:"]);
    assert_clean(&fixture.image());
    let out = fixture.path("out");
    larder_ok([
        OsStr::new("cp"),
        "-r".as_ref(),
        fixture.image().as_os_str(),
        "/source".as_ref(),
        out.as_os_str(),
    ]);
    let listing_of =
        |tree: &Path| -> Vec<String> { listing(tree).lines().map(str::to_owned).collect() };
    let (source, copied) = (listing_of(&tree), listing_of(&out));
    assert!(copied.len() < source.len());
    for number in 0..4 {
        assert!(out.join(format!("dir/small-{number}")).exists());
    }
    for line in &source {
        let path = line.split(' ').next().unwrap().trim_start_matches("./");
        if copied.contains(line) {
            if tree.join(path).is_file() {
                let (from, to) = (tree.join(path), out.join(path));
                assert!(fs::read(from).unwrap() == fs::read(to).unwrap(), "{path}");
            }
        } else {
            assert!(!out.join(path).exists(), "{line}\n{copied:#?}");
            assert_fails(&output, 1, &[path]);
        }
    }
}

#[test]
fn put_keeps_owner_permissions_and_attributes() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    make_small_image(&fixture);
    // New files inherit the flag `noatime` from the directory. `/conf` does not have this flag.
    let changes = [
        "sif / flags 0x80080",
        "mkdir /etc",
        "symlink /etc/pointer ../conf",
    ];
    debugfs_write(&fixture.image(), &changes).unwrap();
    let stat =
        |path: &str| larder_ok(["stat".as_ref(), fixture.image().as_os_str(), path.as_ref()]);
    let lines = |stat: &str| -> Vec<String> {
        let kept = |line: &&str| {
            ["Type", "Links", "Mode", "Owner", "Flags", "Attributes"]
                .iter()
                .any(|field| line.trim_start().starts_with(field))
        };
        stat.lines().filter(kept).map(str::to_owned).collect()
    };
    let before = stat("/conf");
    let file = fixture.path("file");
    fs::write(&file, "new\n").unwrap();
    for to in ["/conf", "/etc/pointer"] {
        larder_ok([
            "put".as_ref(),
            file.as_os_str(),
            place(&fixture, to).as_ref(),
        ]);
        assert_eq!(cat(&fixture, "/conf"), "new\n");
        assert_eq!(lines(&stat("/conf")), lines(&before), "{before}");
        assert!(stat("/etc/pointer").contains("/etc/pointer -> ../conf"));
    }
    assert!(
        before.contains("4750") && before.contains("user.note"),
        "{before}"
    );
    assert_clean(&fixture.image());
}

#[test]
fn file_of_unknown_size_is_copied() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    larder_ok(["cp", "/proc/version", &place(&fixture, "/version")]);
    assert_eq!(
        cat(&fixture, "/version"),
        fs::read_to_string("/proc/version").unwrap()
    );
}

#[test]
fn hard_links_are_kept_if_the_first_copy_is_replaced() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let (one, two) = (
        fixture.directory("one", User::Same),
        fixture.directory("two", User::Same),
    );
    fs::write(one.join("name"), "linked\n").unwrap();
    fs::hard_link(one.join("name"), two.join("other")).unwrap();
    fs::write(two.join("name"), "replaces\n").unwrap();
    larder_ok([
        "cp".as_ref(),
        one.join("name").as_os_str(),
        two.join("name").as_os_str(),
        two.join("other").as_os_str(),
        place(&fixture, "/dir/deep").as_ref(),
    ]);
    assert_eq!(cat(&fixture, "/dir/deep/name"), "replaces\n");
    assert_eq!(cat(&fixture, "/dir/deep/other"), "linked\n");
    assert_clean(&fixture.image());
}
