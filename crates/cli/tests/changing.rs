//! `larder cp` into an image, `put`, `mkdir`, `rm` and `mv`, with no mount.

mod support;

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

/// A place in the fixture's image.
fn place(fixture: &Fixture, path: &str) -> String {
    format!("{}:{path}", fixture.image().display())
}

fn cat(fixture: &Fixture, path: &str) -> String {
    larder_ok(["cat".as_ref(), fixture.image().as_os_str(), path.as_ref()])
}

/// Everything that find(1) tells of a tree, but for what a copy cannot keep.
fn told(tree: &Path) -> String {
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
fn tree_copied_in_and_out_again_is_the_same() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let tree = fixture.path("tree");
    sh(
        "mkfifo \"$1/fifo\"; chmod 1777 \"$1/dir\"; touch -d @-5.25 \"$1/hello\"",
        &[&tree],
    );
    // Where attributes can be had.
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
    assert_eq!(told(&tree), told(&out));
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
fn copy_into_an_image_goes_where_cp_would_put_it() {
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
    // The other name of what was replaced stays as it was.
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
    assert_fails(&partly, 1, &["none", "cannot read it"]);
    assert_eq!(cat(&fixture, "/one"), "1");
    assert_fails(&copy(&[one.as_os_str(), two.as_os_str()]), 2, &["cp wants"]);
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
fn put_writes_anew_and_keeps_what_the_file_is() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let file = fixture.path("file");
    fs::write(&file, "new\n").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    larder_ok([
        "put".as_ref(),
        file.as_os_str(),
        place(&fixture, "/hello").as_ref(),
    ]);
    assert_eq!(
        cat(&fixture, "/dir/again"),
        "new\n",
        "the other name has it too"
    );
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
        ("image".to_owned(), 2, "is no place in an image"),
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
        &["no directory"],
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
