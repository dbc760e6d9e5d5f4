//! `larder ls`, `stat`, `cat`, `cp` and `info`, without a mount.

mod support;

use larder_testkit::e2fsprogs::debugfs_write;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use support::{
    Fixture, User, assert_fails, assert_quiet_after_broken_pipe, can_make_images, command, content,
    larder, larder_ok, name_of, new_names, text,
};

#[test]
fn ls_lists_names_in_order_and_hides_dots() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let output = larder(["ls".as_ref(), fixture.image().as_os_str()]);
    assert_eq!(
        output.stdout,
        b"dir\nhello\nlink\nlost+found\nno\xfftext\noutward\nsparse\n",
        "{}",
        text(&output.stderr)
    );
    let all = larder_ok(["ls", "-a", fixture.image().to_str().unwrap()]);
    assert!(all.starts_with(".\n..\ndir\n"), "{all}");
}

#[test]
fn ls_long_shows_type_links_size_and_target() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let output = larder(["ls".as_ref(), "-l".as_ref(), fixture.image().as_os_str()]);
    let listing = text(&output.stdout);
    let line = |name: &str| {
        let line = listing.lines().find(|line| line.contains(name)).unwrap();
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let hello = line(" hello");
    assert_eq!(
        (hello[0].as_str(), hello[1].as_str(), hello[4].as_str()),
        ("-rw-r--r--", "2", "14")
    );
    assert!(line("link ->").ends_with(&["link".into(), "->".into(), "hello".into()]));
    assert!(line(" dir")[0].starts_with("drwx"));
}

#[test]
fn ls_json_has_the_documented_keys() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let json = larder_ok(["ls", "--json", fixture.image().to_str().unwrap(), "/"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["path"], "/");
    let entries = json["entries"].as_array().unwrap();
    let named = |name: &str| entries.iter().find(|entry| entry["name"] == name).unwrap();
    assert_eq!(named("hello")["size_bytes"], 14);
    assert_eq!(named("hello")["type"], "regular");
    assert_eq!(named("link")["target"], "hello");
    assert_eq!(named("no\u{fffd}text")["name_hex"], "6e6fff74657874");
}

#[test]
fn stat_does_not_follow_symbolic_link() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    let shown = larder_ok(["stat".as_ref(), image.as_os_str(), "/link".as_ref()]);
    assert!(shown.contains("/link -> hello"), "{shown}");
    assert!(shown.contains("Type: symlink"), "{shown}");
    let json = larder_ok(["stat", "--json", image.to_str().unwrap(), "/hello"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["links"], 2);
    let source = fs::metadata(fixture.path("tree/hello")).unwrap();
    assert_eq!(json["modified"]["seconds"], source.mtime());
    for key in [
        "path",
        "ino",
        "mode",
        "permissions",
        "uid",
        "gid",
        "blocks_512",
        "accessed",
        "changed",
        "created",
        "flags",
        "generation",
        "project_id",
        "xattrs",
    ] {
        assert!(json.get(key).is_some(), "{key}");
    }
}

#[test]
fn cat_writes_files_in_order() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    let output = larder([
        "cat".as_ref(),
        image.as_os_str(),
        "/link".as_ref(),
        "dir/large".as_ref(),
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut expected = b"hello, larder\n".to_vec();
    expected.extend(content(3 << 20));
    assert!(output.stdout == expected);
}

#[test]
fn cat_continues_after_failure_and_exits_with_one() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    let output = larder([
        "cat".as_ref(),
        image.as_os_str(),
        "/none".as_ref(),
        "/dir".as_ref(),
        "/hello".as_ref(),
    ]);
    assert_fails(
        &output,
        1,
        &[
            "/none: no such file or directory in the image",
            "/dir: is a directory",
        ],
    );
    assert_eq!(output.stdout, b"hello, larder\n");
}

#[test]
fn cat_into_a_closed_pipe_is_quiet() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    assert_quiet_after_broken_pipe(&[
        "cat".as_ref(),
        fixture.image().as_os_str(),
        "/dir/large".as_ref(),
    ]);
}

#[test]
fn info_shows_label_and_features() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    fixture.make_image("ext3", "");
    let image = fixture.image();
    let shown = larder_ok(["info".as_ref(), image.as_os_str()]);
    assert!(
        shown.contains("pantry") && shown.contains("ext3"),
        "{shown}"
    );
    let json = larder_ok(["info", "--json", image.to_str().unwrap()]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["kind"], "ext3");
    assert_eq!(json["label"], "pantry");
    assert_eq!(json["journal"]["state"], "clean");
    assert!(
        json["features"]
            .as_array()
            .unwrap()
            .contains(&"has_journal".into())
    );
}

#[test]
fn image_inside_a_larger_file_is_found_by_offset() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let disk = fixture.path("disk");
    let mut bytes = vec![0; 1 << 20];
    bytes.extend(fs::read(fixture.image()).unwrap());
    fs::write(&disk, bytes).unwrap();
    let disk = disk.to_str().unwrap();
    assert_fails(
        &larder(["ls", disk]),
        1,
        &["is not an ext2, ext3 or ext4 image", "--offset"],
    );
    assert!(larder_ok(["cat", "--offset", "1M", disk, "/hello"]).starts_with("hello"));
}

#[test]
fn cp_of_the_whole_image_equals_the_source() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let out = fixture.path("out");
    larder_ok([
        "cp".as_ref(),
        "-r".as_ref(),
        fixture.image().as_os_str(),
        "/".as_ref(),
        out.as_os_str(),
    ]);
    let source = fixture.path("tree");
    let mut paths = BTreeSet::new();
    walk(&source, &source, &mut paths);
    let mut copied = BTreeSet::new();
    walk(&out, &out, &mut copied);
    copied.remove(Path::new("lost+found"));
    assert_eq!(paths, copied);
    for path in &paths {
        let (from, to) = (source.join(path), out.join(path));
        let (expected, found) = (
            from.symlink_metadata().unwrap(),
            to.symlink_metadata().unwrap(),
        );
        assert_eq!(expected.mode(), found.mode(), "{}", path.display());
        assert_eq!(expected.mtime(), found.mtime(), "{}", path.display());
        if expected.is_symlink() {
            assert_eq!(fs::read_link(&from).unwrap(), fs::read_link(&to).unwrap());
        } else if expected.is_file() {
            assert_eq!(expected.nlink(), found.nlink(), "{}", path.display());
            assert!(
                fs::read(&from).unwrap() == fs::read(&to).unwrap(),
                "{}",
                path.display()
            );
        }
    }
    let sparse = fs::metadata(out.join("sparse")).unwrap();
    assert!(
        sparse.blocks() * 512 < 1 << 20,
        "holes were filled: {} blocks",
        sparse.blocks()
    );
    let (hello, again) = (out.join("hello"), out.join("dir/again"));
    assert_eq!(
        fs::metadata(hello).unwrap().ino(),
        fs::metadata(again).unwrap().ino()
    );
}

fn walk(root: &Path, directory: &Path, paths: &mut BTreeSet<std::path::PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        paths.insert(path.strip_prefix(root).unwrap().to_owned());
        if path.symlink_metadata().unwrap().is_dir() {
            walk(root, &path, paths);
        }
    }
}

#[test]
fn cp_copies_into_directory_or_to_new_name() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    let image = image.to_str().unwrap();
    let into = fixture.directory("into", User::Same);
    larder_ok(["cp", image, "/hello", "/link", into.to_str().unwrap()]);
    assert!(into.join("hello").is_file());
    // Without -r, a link named on the command line is followed.
    assert!(into.join("link").symlink_metadata().unwrap().is_file());
    let renamed = fixture.path("renamed");
    larder_ok(["cp", image, "/hello", renamed.to_str().unwrap()]);
    assert_eq!(fs::read(renamed).unwrap(), b"hello, larder\n");
    let output = larder(["cp", image, "/dir", into.to_str().unwrap()]);
    assert_fails(&output, 1, &["/dir is a directory", "give -r"]);
    let output = larder([
        "cp",
        image,
        "/hello",
        "/link",
        fixture.path("absent").to_str().unwrap(),
    ]);
    assert_fails(&output, 1, &["is not a directory", "existing directory"]);
}

#[test]
fn cp_does_not_follow_links_in_destination() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let precious = fixture.path("precious");
    fs::write(&precious, "precious").unwrap();
    let outside = fixture.directory("outside", User::Same);
    let out = fixture.directory("out", User::Same);
    symlink(&precious, out.join("hello")).unwrap();
    symlink(&outside, out.join("dir")).unwrap();
    let output = larder([
        "cp",
        "-r",
        fixture.image().to_str().unwrap(),
        "/",
        out.to_str().unwrap(),
    ]);
    assert_fails(
        &output,
        1,
        &["cannot create the directory: a file with this name exists"],
    );
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
    assert_eq!(fs::read(out.join("hello")).unwrap(), b"hello, larder\n");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn cp_onto_link_to_directory_copies_into_it() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    let into = fixture.directory("into", User::Same);
    let link = fixture.path("to-directory");
    symlink(&into, &link).unwrap();
    for name in ["hello", "link", "dir"] {
        larder_ok([
            "cp",
            "-r",
            image.to_str().unwrap(),
            name,
            link.to_str().unwrap(),
        ]);
        assert!(into.join(name).symlink_metadata().is_ok(), "{name}");
    }
    assert!(link.is_symlink());
}

#[test]
fn cp_onto_link_writes_its_target() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    let image = image.to_str().unwrap();
    let (target, link) = (fixture.path("target"), fixture.path("link"));
    symlink("target", &link).unwrap();
    for before in [None, Some("something longer than the copy")] {
        if let Some(before) = before {
            fs::write(&target, before).unwrap();
        }
        larder_ok(["cp", image, "/hello", link.to_str().unwrap()]);
        assert!(link.is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"hello, larder\n");
    }
    larder_ok(["cp", "-r", image, "/link", link.to_str().unwrap()]);
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("hello"));
}

/// The copy has no temporary name, so a process that is killed cannot leave a file with such a
/// name.
#[test]
fn copied_file_has_only_its_final_name() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    let into = fixture.directory("into", User::Same);
    let names = new_names(&into, || {
        larder_ok([
            "cp".as_ref(),
            image.as_os_str(),
            "/dir/large".as_ref(),
            into.as_os_str(),
        ]);
    });
    assert_eq!(names, [c"large".to_owned()]);
}

#[test]
fn cp_onto_a_fifo_or_a_device_writes_into_it() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    let fifo = fixture.path("fifo");
    support::sh("mkfifo \"$1\"", &[&fifo]);
    let reader = {
        let fifo = fifo.clone();
        std::thread::spawn(move || fs::read(fifo).unwrap())
    };
    let (image, to) = (image.to_str().unwrap(), fifo.to_str().unwrap());
    larder_ok(["cp", image, "/dir/large", to]);
    assert!(reader.join().unwrap() == support::content(3 << 20));
    let output = larder(["cp", "-r", image, "/link", to]);
    assert_fails(&output, 1, &["is not a regular file", "remove it first"]);
    let out = fixture.directory("out", User::Same);
    fs::rename(&fifo, out.join("hello")).unwrap();
    let output = larder(["cp", image, "/hello", out.to_str().unwrap()]);
    assert_fails(&output, 1, &["hello in the destination", "as DEST"]);
    assert!(out.join("hello").metadata().unwrap().file_type().is_fifo());
    if !support::has_root() {
        return;
    }
    let (null, full) = (fixture.path("null"), fixture.path("full"));
    support::sh("mknod \"$1\" c 1 3; mknod \"$2\" c 1 7", &[&null, &full]);
    let before = fs::metadata(&null).unwrap();
    larder_ok(["cp", image, "/hello", null.to_str().unwrap()]);
    let after = fs::symlink_metadata(&null).unwrap();
    assert_eq!(
        (after.ino(), after.mode(), after.mtime()),
        (before.ino(), before.mode(), before.mtime())
    );
    let output = larder(["cp", image, "/hello", full.to_str().unwrap()]);
    assert_fails(&output, 1, &["/hello: cannot write the copy"]);
    assert!(full.metadata().unwrap().file_type().is_char_device());
}

#[test]
fn cp_to_dev_stdout_writes_to_pipe() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    // The test uses a link of its own, so that a failure cannot remove the system's /dev/stdout.
    let stdout = fixture.path("stdout");
    symlink("/proc/self/fd/1", &stdout).unwrap();
    for to in [stdout.as_path(), Path::new("/proc/self/fd/1")] {
        let output = larder([
            "cp".as_ref(),
            fixture.image().as_os_str(),
            "/hello".as_ref(),
            to.as_os_str(),
        ]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(output.stdout, b"hello, larder\n");
    }
    assert!(stdout.is_symlink());
}

#[test]
fn cp_without_space_keeps_existing_files() {
    let name = "cp_without_space_keeps_existing_files";
    if !can_make_images() || !support::has_root() || !support::in_own_namespace(name) {
        return;
    }
    let fixture = Fixture::new();
    let out = fixture.directory("out", User::Same);
    support::sh("mount -t tmpfs -o size=2M none \"$1\"", &[&out]);
    fs::write(out.join("large"), "precious").unwrap();
    let image = fixture.image();
    let copy = |from: &str, to: &Path| {
        larder([
            "cp".as_ref(),
            "-r".as_ref(),
            image.as_os_str(),
            from.as_ref(),
            to.as_os_str(),
        ])
    };
    for to in [out.join("large"), out.join("new")] {
        assert_fails(
            &copy("/dir/large", &to),
            1,
            &["/dir/large", "No space left"],
        );
    }
    let names = |path: &Path| {
        let entries = fs::read_dir(path).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect::<BTreeSet<_>>()
    };
    assert_eq!(names(&out), BTreeSet::from(["large".to_owned()]));
    assert_eq!(fs::read(out.join("large")).unwrap(), b"precious");
    // The files of the tree that fit are present and complete.
    assert_fails(&copy("/dir", &out), 1, &["/dir/large", "No space left"]);
    let rest = ["again", "deep", "empty"].map(str::to_owned);
    assert_eq!(names(&out.join("dir")), BTreeSet::from(rest));
    assert_eq!(fs::read(out.join("dir/again")).unwrap(), b"hello, larder\n");
}

#[test]
fn cp_reports_attribute_that_does_not_fit_and_continues() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let value = fixture.path("value");
    fs::write(&value, vec![b'x'; 20_000]).unwrap();
    let probe = rustix::fs::setxattr(
        &value,
        "user.large",
        &fs::read(&value).unwrap(),
        rustix::fs::XattrFlags::empty(),
    );
    if probe.is_ok() || probe == Err(rustix::io::Errno::NOTSUP) {
        larder_testkit::report_skipped("attributes of any size fit here, or none");
        return;
    }
    fs::set_permissions(
        fixture.path("tree/hello"),
        fs::Permissions::from_mode(0o640),
    )
    .unwrap();
    fixture.make_image("ext4", "-O ea_inode");
    // debugfs accepts at most 1024 bytes of a value.
    fs::write(&value, [b'x'; 1024]).unwrap();
    for number in 0..8 {
        let request = format!("ea_set -f {} /hello user.large{number}", value.display());
        debugfs_write(&fixture.image(), &[request]).unwrap();
    }
    let out = fixture.path("out");
    let output = larder([
        "cp".as_ref(),
        fixture.image().as_os_str(),
        "/hello".as_ref(),
        out.as_os_str(),
    ]);
    assert_fails(&output, 1, &["/hello: cannot set attribute user.large"]);
    let source = fs::metadata(fixture.path("tree/hello")).unwrap();
    let copied = fs::metadata(&out).unwrap();
    assert_eq!(
        (copied.mode(), copied.mtime(), copied.len()),
        (source.mode(), source.mtime(), source.len())
    );
}

#[test]
fn cp_does_not_overwrite_the_image() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let before = fs::read(fixture.image()).unwrap();
    let link = fixture.path("link");
    symlink("image", &link).unwrap();
    for to in [fixture.image(), link] {
        let output = larder([
            "cp".as_ref(),
            fixture.image().as_os_str(),
            "/hello".as_ref(),
            to.as_os_str(),
        ]);
        assert_fails(&output, 1, &["is the image itself"]);
    }
    assert!(fs::read(fixture.image()).unwrap() == before);
}

#[test]
fn cp_of_image_with_duplicate_name_stays_in_destination() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let outside = fixture.directory("outside", User::Same);
    fs::remove_dir_all(fixture.path("tree")).unwrap();
    fs::create_dir_all(fixture.path("tree/real")).unwrap();
    fs::write(fixture.path("tree/real/file"), "content").unwrap();
    symlink(&outside, fixture.path("tree/evil")).unwrap();
    fixture.make_image("ext2", "-O ^dir_index");
    // The directory gets a second name, `evik`. The test then changes this name to `evil`, the name
    // of the link.
    debugfs_write(&fixture.image(), &["link real evik"]).unwrap();
    let mut image = fs::read(fixture.image()).unwrap();
    let at = image.windows(4).position(|bytes| bytes == b"evik").unwrap();
    image[at..at + 4].copy_from_slice(b"evil");
    fs::write(fixture.image(), image).unwrap();
    let out = fixture.path("out");
    let output = larder([
        "cp",
        "-r",
        fixture.image().to_str().unwrap(),
        "/",
        out.to_str().unwrap(),
    ]);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert_fails(
        &output,
        1,
        &["/evil: cannot create the directory: a file with this name exists"],
    );
}

#[test]
fn cp_of_a_directory_loop_ends() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    debugfs_write(&fixture.image(), &["link dir dir/deep/loop"]).unwrap();
    let out = fixture.path("out");
    let output = larder([
        "cp",
        "-r",
        fixture.image().to_str().unwrap(),
        "/",
        out.to_str().unwrap(),
    ]);
    assert_fails(&output, 1, &["/dir/deep/loop", "has two names"]);
    assert!(out.join("hello").is_file());
}

#[test]
fn cp_as_another_user_drops_set_id_bits_of_foreign_owners() {
    if !can_make_images() || !support::has_root() {
        return;
    }
    let fixture = Fixture::new();
    let tree = fixture.path("tree");
    fs::set_permissions(tree.join("hello"), fs::Permissions::from_mode(0o4755)).unwrap();
    fixture.make_image("ext4", "");
    let out = fixture.directory("out", User::Nobody);
    let output = command("larder", User::Nobody)
        .args([
            "cp".as_ref(),
            fixture.image().as_os_str(),
            "/hello".as_ref(),
            out.as_os_str(),
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let copied = fs::metadata(out.join("hello")).unwrap();
    assert_eq!(
        (copied.mode() & 0o7777, copied.uid()),
        (0o755, support::NOBODY)
    );
}

#[test]
fn non_utf8_names_are_accepted() {
    if !can_make_images() {
        return;
    }
    let fixture = Fixture::new();
    let name = name_of(b"/no\xfftext");
    let output = larder([
        "cat".as_ref(),
        fixture.image().as_os_str(),
        name.as_os_str(),
    ]);
    assert_eq!(output.stdout, b"bytes\n", "{}", text(&output.stderr));
    assert_eq!(name.as_bytes()[3], 0xff);
}
