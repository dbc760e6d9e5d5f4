//! `larder create` with archives that no program writes, or that are hostile.

mod support;

use larder_testkit::e2fsprogs::debugfs;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use support::create::{assert_nothing_left, can_create, create, created};
use support::{Fixture, assert_fails, larder, larder_ok, text};

const BLOCK_BYTES: usize = 512;

/// Returns a header of ustar. `fields` are the offsets and the bytes of further fields.
fn header(path: &str, kind: u8, size: &str, fields: &[(usize, &[u8])]) -> [u8; BLOCK_BYTES] {
    let mut header = [0; BLOCK_BYTES];
    let mut set = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    set(0, path.as_bytes());
    set(100, b"0000644\x000000000\x000000000\0");
    set(124, size.as_bytes());
    set(136, b"00000000000\0        ");
    set(156, &[kind]);
    set(257, b"ustar\x0000");
    for (at, bytes) in fields {
        set(*at, bytes);
    }
    let sum: u32 = header.iter().copied().map(u32::from).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    header
}

fn link(path: &str, kind: u8, target: &str) -> [u8; BLOCK_BYTES] {
    header(path, kind, "", &[(157, target.as_bytes())])
}

/// Returns a pax header with these records.
fn pax(records: &[(&str, &str)]) -> Vec<u8> {
    pax_of(b'x', records)
}

fn pax_of(kind: u8, records: &[(&str, &str)]) -> Vec<u8> {
    let mut text = String::new();
    for (key, value) in records {
        let rest = format!(" {key}={value}\n");
        let mut len = rest.len() + 1;
        while len.to_string().len() + rest.len() != len {
            len += 1;
        }
        let _ = write!(text, "{len}{rest}");
    }
    let mut bytes = header("pax", kind, &format!("{:011o}", text.len()), &[]).to_vec();
    bytes.extend(text.bytes());
    bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
    bytes
}

/// Returns the archive with these entries.
fn tar(entries: &[&[u8]]) -> Vec<u8> {
    [&entries.concat()[..], &[0; 2 * BLOCK_BYTES]].concat()
}

/// Returns the header of an empty file.
fn file(path: &str) -> [u8; BLOCK_BYTES] {
    header(path, b'0', "", &[])
}

/// Asserts that `larder create` refuses each archive with a message, and leaves no image.
#[track_caller]
fn assert_refused<const N: usize>(fixture: &Fixture, archives: [(Vec<u8>, &str); N]) {
    for (archive, message) in archives {
        fs::write(fixture.path("bad.tar"), archive).unwrap();
        let output = create(fixture, "bad.img", &["--from", "bad.tar", "--size", "16M"]);
        assert_fails(&output, 1, &["error: ", message]);
        assert_nothing_left(fixture, "bad.img");
    }
}

#[test]
fn hostile_path_is_refused_and_reaches_no_file_of_the_host() {
    if !can_create() {
        return;
    }
    let fixture = Fixture::new();
    let secret = fixture.path("secret");
    fs::write(&secret, "unchanged").unwrap();
    let host = fixture.path("host");
    fs::create_dir(&host).unwrap();
    let archives = [
        (tar(&[&file("../secret")]), "contains '..'"),
        (tar(&[&file("a/../../secret")]), "contains '..'"),
        (
            tar(&[&link("d", b'2', "/host"), &file("d/x")]),
            "d is not a directory",
        ),
        (
            tar(&[&link("a", b'2', "b"), &link("b", b'2', "a"), &file("a/x")]),
            "too many",
        ),
        (tar(&[&file("d"), &file("d/x")]), "d is not a directory"),
        (
            tar(&[&link("p", b'1', "/etc/passwd")]),
            "hard link to /etc/passwd, which does not exist",
        ),
        (tar(&[&link("p", b'1', "../secret")]), "contains '..'"),
        (
            tar(&[&file("d/f"), &link("d", b'1', "d/f")]),
            "replaces its own target",
        ),
        (tar(&[&file("lost+found")]), "lost+found"),
    ];
    assert_refused(&fixture, archives);
    assert_eq!(fs::read_to_string(secret).unwrap(), "unchanged");
    assert_eq!(fs::read_dir(host).unwrap().count(), 0);
}

#[test]
fn malformed_archive_is_refused() {
    if !can_create() {
        return;
    }
    let sparse = |map: &str, size: &str| {
        let records = [
            ("GNU.sparse.size", size),
            ("GNU.sparse.map", map),
            ("GNU.sparse.name", "s"),
        ];
        let content = [1; BLOCK_BYTES];
        tar(&[
            &pax(&records),
            &header("s", b'0', "00000001000", &[]),
            &content,
        ])
    };
    let negative = header("n", b'0', "\u{7f}", &[(124, &[0xff; 12])]);
    let list = [(
        "SCHILY.acl.access",
        "user::rwx,user:lisa:r--,group::r--,mask::r--,other::r--",
    )];
    let device = header("c", b'3', "", &[(329, b"0010000\x000000001\0")]);
    let long = pax(&[("comment", &"c".repeat(600 << 10))]);
    let ends_early = "ends before its end marker";
    let too_long = header("h", b'0', "77777777777", &[]);
    let too_large = pax(&[("size", "9999999999999999")]);
    let whole = tar(&[&header("f", b'0', "00000001000", &[]), &[1; BLOCK_BYTES]]);
    let archives = [
        (tar(&[&device]), "the number of the device is too large"),
        (tar(&[&long, &long, &file("f")]), "too long"),
        (tar(&[&negative]), "negative size"),
        (tar(&[&too_long, &[1; BLOCK_BYTES]]), ends_early),
        (tar(&[&too_large, &file("h")]), "too large"),
        (sparse("0,256,128,256", "4096"), "overlap"),
        (sparse("4096,512", "4096"), "past its end"),
        (sparse("0,256", "4096"), "do not add up to the stored size"),
        (sparse("18446744073709551615,512", "4096"), "past its end"),
        (sparse("0,512", "99999999999999999"), "too large"),
        (sparse("0,x", "4096"), "GNU.sparse.map is invalid"),
        (tar(&[&pax(&list), &file("l")]), "names a user or group"),
        (tar(&[&header("t", b'?', "", &[])]), "unknown type '?'"),
        (whole[..BLOCK_BYTES + 100].to_vec(), ends_early),
        (whole[..2 * BLOCK_BYTES].to_vec(), ends_early),
        (Vec::new(), ends_early),
        (b"\x1f\x8b\x08rest".to_vec(), "gzip -dc"),
        (vec![7; 4096], "neither a directory nor a tar archive"),
    ];
    assert_refused(&Fixture::new(), archives);
}

/// A block of zeros is the end marker of an archive, and an image of ext4 or ISO 9660 begins with such blocks.
#[test]
fn file_with_data_after_a_first_block_of_zeros_is_not_an_archive() {
    if !can_create() {
        return;
    }
    let fixture = Fixture::new();
    let message = "neither a directory nor a tar archive";
    for size in ["16M", "auto"] {
        let output = create(&fixture, "bad.img", &["--from", "image", "--size", size]);
        assert_fails(&output, 1, &[message, "hint: "]);
        assert_nothing_left(&fixture, "bad.img");
    }
    let iso = [&vec![0; 32 << 10][..], b"\x01CD001"].concat();
    let late = [&tar(&[])[..], &file("f")].concat();
    assert_refused(&fixture, [(iso, message), (late, message)]);
    // tar(1) writes an archive without files as 20 blocks of zeros.
    for blocks in [1, 2, 20, 10_000] {
        fs::write(fixture.path("x.tar"), vec![0; blocks * BLOCK_BYTES]).unwrap();
        let name = format!("{blocks}.img");
        created(&fixture, &name, &["--from", "x.tar", "--size", "16M"]);
    }
}

/// Each `/` in a path stands for a directory, and the archive does not have to store it.
#[test]
fn path_longer_than_linux_permits_is_refused() {
    if !can_create() {
        return;
    }
    let fixture = Fixture::new();
    let path = |len: usize| "a/".repeat(len / 2) + &"b"[..len % 2];
    let long = path(4096);
    let gnu = |kind: u8, text: &str| {
        let mut bytes = header("long", kind, &format!("{:011o}", text.len() + 1), &[]).to_vec();
        bytes.extend(text.bytes());
        bytes.resize((bytes.len() + 1).next_multiple_of(BLOCK_BYTES), 0);
        bytes
    };
    let name = [("GNU.sparse.name", long.as_str())];
    let message = "longer than 4095 bytes";
    let archives = [
        (tar(&[&pax(&[("path", &long)]), &file("f")]), message),
        (tar(&[&pax(&name), &file("f")]), message),
        (tar(&[&gnu(b'L', &long), &file("f")]), message),
        (
            tar(&[&pax(&[("linkpath", &long)]), &link("l", b'2', "")]),
            message,
        ),
        (tar(&[&gnu(b'K', &long), &link("l", b'2', "")]), message),
        (tar(&[&gnu(b'K', &long), &link("l", b'1', "")]), message),
        (tar(&[&gnu(b'L', &path(1 << 19)), &file("f")]), message),
    ];
    assert_refused(&fixture, archives);
    let target = path(4095);
    let longest = tar(&[
        &gnu(b'L', &path(4095)),
        &file("f"),
        &pax(&[("linkpath", &target)]),
        &link("l", b'2', ""),
    ]);
    fs::write(fixture.path("x.tar"), longest).unwrap();
    let image = created(&fixture, "x.img", &["--from", "x.tar"]);
    let found = larder_ok([Path::new("find"), &image, Path::new("/a")]);
    assert_eq!(found.lines().count(), 2048);
    let stat = larder_ok([Path::new("stat"), &image, Path::new("/l")]);
    assert!(stat.contains(&target), "{stat}");
}

#[test]
fn paths_that_seem_to_leave_the_archive_are_inside_the_image() {
    if !can_create() {
        return;
    }
    let fixture = Fixture::new();
    let device = [(329, &b"0000001\x000000003\0"[..])];
    let archive = tar(&[
        &header("/etc/passwd", b'0', "00000001000", &[]),
        &[b'x'; BLOCK_BYTES],
        &link("again", b'1', "/etc/passwd"),
        &link("outward", b'2', "/etc"),
        &header("outward/hosts", b'0', "", &[]),
        &link("etc/upward", b'2', "../../../.."),
        &header("etc/upward/etc/upward/secret", b'0', "", &[]),
        // Devices have no content, in spite of the size.
        &header("null", b'3', "00000001000", &device),
        // Global headers are ignored.
        &pax_of(b'g', &[("path", "global"), ("size", "7")]),
        // A later entry replaces an earlier one.
        &link("null2", b'2', "/dev/null"),
        &header("null2", b'0', "", &[]),
        &header("etc", b'5', "", &[(100, b"0000700\0")]),
        &pax(&[("GNU.sparse.size", "1099511627776"), ("GNU.sparse.map", "")]),
        &header("huge", b'0', "", &[]),
    ]);
    fs::write(fixture.path("x.tar"), archive).unwrap();
    let image = created(&fixture, "x.img", &["--from", "x.tar"]);
    assert!(fs::metadata(&image).unwrap().len() < 16 << 20);
    let cat = |path: &str| larder_ok([Path::new("cat"), &image, Path::new(path)]);
    assert_eq!(cat("/etc/passwd"), "x".repeat(BLOCK_BYTES));
    assert_eq!(cat("/again"), "x".repeat(BLOCK_BYTES));
    let list = debugfs(&image, "ls -l /").unwrap();
    for part in ["20644", "40700", "100644", "1099511627776", "secret"] {
        assert!(list.contains(part), "{part}: {list}");
    }
    assert!(!list.contains("global"), "{list}");
    assert_eq!(cat("/etc/hosts"), "");
    let host = fs::read_dir(fixture.path("")).unwrap();
    let mut host = host.map(|entry| entry.unwrap().file_name());
    assert!(!host.any(|name| name == "secret"));
}

#[test]
fn attribute_that_ext4_does_not_support_is_skipped_with_one_warning() {
    if !can_create() {
        return;
    }
    let fixture = Fixture::new();
    let records = pax(&[
        ("SCHILY.xattr.unknown.x", "v"),
        ("SCHILY.xattr.user.x", "v"),
    ]);
    let archive = tar(&[&records, &file("one"), &records, &file("two")]);
    fs::write(fixture.path("x.tar"), archive).unwrap();
    let output = create(&fixture, "x.img", &["--from", "x.tar"]);
    assert!(output.status.success());
    let messages = text(&output.stderr);
    assert!(messages.contains("one: attribute unknown.x"), "{messages}");
    assert!(!messages.contains("two"), "{messages}");
    for path in ["/one", "/two"] {
        let list = debugfs(&fixture.path("x.img"), &format!("ea_list {path}")).unwrap();
        assert!(
            list.contains("user.x") && !list.contains("unknown"),
            "{list}"
        );
    }
}

#[test]
fn fitting_image_has_space_for_what_the_estimate_leaves_out() {
    if !can_create() {
        return;
    }
    let fixture = Fixture::new();
    let mut attributes = Vec::new();
    for file in 0..5_000 {
        let path = format!("directory/{file}");
        attributes.extend(pax(&[("SCHILY.xattr.user.unique", &path.repeat(15))]));
        attributes.extend(header(&path, b'0', "", &[]));
    }
    let runs: Vec<String> = (0..6).map(|run| format!("{},512", run * 65_536)).collect();
    let map = runs.join(",");
    let mut fragments = Vec::new();
    for file in 0..1_000 {
        let path = format!("directory/{file}");
        let records = [
            ("GNU.sparse.size", "524288"),
            ("GNU.sparse.map", map.as_str()),
        ];
        fragments.extend(pax(&records));
        fragments.extend(header(&path, b'0', "00000006000", &[]));
        fragments.extend([1; 6 * BLOCK_BYTES]);
    }
    for (entries, files) in [(attributes, 5_001), (fragments, 1_001)] {
        fs::write(fixture.path("x.tar"), tar(&[&entries])).unwrap();
        for fs_type in ["ext2", "ext4"] {
            let image = created(&fixture, fs_type, &["--from", "x.tar", "--type", fs_type]);
            let bytes = fs::metadata(&image).unwrap().len();
            assert!(bytes < 80 << 20, "{files}, {fs_type}: {bytes}");
            let found = larder_ok([Path::new("find"), &image, Path::new("/directory")]);
            assert_eq!(found.lines().count(), files, "{fs_type}");
            fs::remove_file(image).unwrap();
        }
    }
}

#[test]
fn whiteouts_of_a_layer_remove_only_files_of_earlier_layers() {
    if !can_create() {
        return;
    }
    let fixture = Fixture::new();
    let base = tar(&[
        &file("a/one"),
        &file("a/two"),
        &file("b/one"),
        &file("c"),
        &file("d/e/f"),
        &file("real/one"),
        &link("linked", b'2', "real"),
    ]);
    let layer = tar(&[
        &file("b/new"),
        &file("b/.wh..wh..opq"),
        &file("a/one"),
        &file("a/.wh.one"),
        &file("a/.wh.two"),
        &file(".wh.d"),
        &file(".wh.missing"),
        &file(".wh..wh.plnk"),
        &file("linked/.wh.one"),
        &file("linked/two"),
    ]);
    fs::write(fixture.path("base.tar"), &base).unwrap();
    fs::write(fixture.path("layer.tar"), &layer).unwrap();
    let top = fixture.path("top");
    fs::create_dir_all(top.join("c")).unwrap();
    fs::write(top.join("c/.wh..wh..opq"), "").unwrap();
    fs::write(top.join("b"), "now a file").unwrap();
    let found = |name: &str, layers: &[&str]| -> String {
        let args: Vec<&str> = layers.iter().flat_map(|&layer| ["--from", layer]).collect();
        let image = created(&fixture, name, &args);
        let output = larder_ok([Path::new("find"), &image, Path::new("/")]);
        let mut paths: Vec<&str> = output.lines().collect();
        paths.retain(|path| !matches!(*path, "/" | "/lost+found"));
        paths.sort_unstable();
        paths.join(" ")
    };
    let two = found("two.img", &["base.tar", "layer.tar"]);
    assert_eq!(two, "/a /a/one /b /b/new /c /linked /real /real/two");
    // A directory that replaces a link: its whiteouts do not apply to the target of the link.
    let replacing = tar(&[
        &header("linked/", b'5', "", &[]),
        &file("linked/.wh..wh..opq"),
        &file("linked/new"),
    ]);
    let replacing_later = tar(&[
        &file("linked/.wh.one"),
        &file("linked/.wh..wh..opq"),
        &header("linked/", b'5', "", &[]),
        &file("linked/new"),
    ]);
    for archive in [replacing, replacing_later] {
        fs::write(fixture.path("replacing.tar"), &archive).unwrap();
        let replaced = found("replaced.img", &["base.tar", "replacing.tar"]);
        assert!(
            replaced.ends_with("/linked /linked/new /real /real/one"),
            "{replaced}"
        );
        fs::remove_file(fixture.path("replaced.img")).unwrap();
    }
    let three = found("three.img", &["base.tar", "layer.tar", "top"]);
    assert_eq!(three, "/a /a/one /b /c /linked /real /real/two");
    // In a single archive, these are ordinary names.
    let one = found("one.img", &["layer.tar"]);
    assert!(one.contains("/b/.wh..wh..opq"), "{one}");
    for (path, message) in [
        ("a/.wh...", "a/.wh...: the name of the whiteout is invalid"),
        (".wh.lost+found", "e2fsck needs the directory lost+found"),
    ] {
        fs::write(fixture.path("bad.tar"), tar(&[&file(path)])).unwrap();
        let layers = ["--from", "base.tar", "--from", "bad.tar"];
        let output = create(&fixture, "bad.img", &layers);
        assert_fails(&output, 1, &[message]);
    }
}

#[test]
fn owners_are_mapped() {
    if !can_create() {
        return;
    }
    let fixture = Fixture::new();
    let owner =
        |uid: &[u8], gid: &[u8], path: &str| header(path, b'0', "", &[(108, uid), (116, gid)]);
    let list = "user::rw-,user:1000:r--,group::r--,group:1001:r--,mask::r--,other::---";
    let archive = tar(&[
        &pax(&[("SCHILY.acl.access", list)]),
        &owner(b"0001750\0", b"0001751\0", "mapped"),
        &owner(b"0000005\0", b"0000006\0", "other"),
    ]);
    fs::write(fixture.path("x.tar"), archive).unwrap();
    let owners = |name: &str, source: &str, args: &[&str], path: &str| {
        let args = [&["--from", source][..], args].concat();
        let image = created(&fixture, name, &args);
        let stat = debugfs(&image, &format!("stat {path}")).unwrap();
        let line = stat.lines().find(|line| line.starts_with("User:")).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        (words[1].to_owned(), words[3].to_owned())
    };
    let pair = |uid: &str, gid: &str| (uid.to_owned(), gid.to_owned());
    let maps = ["--uid-map", "1000:0:10", "--gid-map", "1001:50"];
    assert_eq!(owners("1.img", "x.tar", &maps, "/mapped"), pair("0", "50"));
    assert_eq!(owners("2.img", "x.tar", &maps, "/other"), pair("5", "6"));
    let exported = larder([
        "export".as_ref(),
        fixture.path("1.img").as_os_str(),
        "/mapped".as_ref(),
    ]);
    let exported = text(&exported.stdout);
    assert!(
        exported.contains("user:0:r--") && exported.contains("group:50:r--"),
        "{exported}"
    );
    let all = ["--owner", "7:8"];
    for (name, source, path) in [
        ("3.img", "x.tar", "/mapped"),
        ("4.img", "x.tar", "/"),
        ("5.img", "tree", "/dir/large"),
        ("6.img", "tree", "/dir"),
    ] {
        assert_eq!(owners(name, source, &all, path), pair("7", "8"), "{path}");
    }
    let both = ["--size", "8M", "--owner", "0:0", "--uid-map", "1:2"];
    assert_fails(
        &create(&fixture, "x.img", &both),
        2,
        &["cannot be used with"],
    );
}

/// The programs of e2fsprogs treat a question mark in a path as the beginning of options.
#[test]
fn image_below_a_directory_with_a_question_mark_is_created() {
    if !can_create() {
        return;
    }
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("a?b")).unwrap();
    fs::write(fixture.path("f.tar"), tar(&[&file("f")])).unwrap();
    let output = create(&fixture, "a?b/disk.img", &["--from", "f.tar"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    larder_ok([
        Path::new("cat"),
        &fixture.path("a?b/disk.img"),
        Path::new("/f"),
    ]);
    assert!(!fixture.path("a").exists());
}
