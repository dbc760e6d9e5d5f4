//! Disk images of other formats (qcow2, VMDK, seekable zstd), with and without partitions.

mod support;

use larder_testkit::e2fsprogs::{make_image, make_image_of};
use larder_testkit::qemu::convert;
use larder_testkit::sfdisk::write_table;
use larder_testkit::tool::Tool;
use larder_testkit::zstd::seekable;
use larder_testkit::{Requirement, skip};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{
    Fixture, Mountpoint, User, assert_fails, can_mount, command, content, larder, larder_ok, text,
    traced,
};

const MIB: u64 = 1 << 20;
const NEEDED: &[Requirement] = &[
    Requirement::Tool("qemu-img"),
    Requirement::Tool("sfdisk"),
    Requirement::Tool("mke2fs"),
];
const ZSTD: &[Requirement] = &[Requirement::Tool("zstd")];

/// The formats, and further arguments of qemu-img.
const FORMATS: [(&str, &str); 4] = [
    ("qcow2", ""),
    ("qcow2", "-c"),
    ("vmdk", ""),
    ("vmdk", "-o subformat=streamOptimized"),
];

/// Returns a raw disk whose second partition has the file system of `fixture`.
fn raw_disk(fixture: &Fixture) -> PathBuf {
    let path = fixture.path("raw");
    let file = fs::File::create(&path).unwrap();
    file.set_len(50 * MIB).unwrap();
    let script = "label: gpt
start=1MiB, size=7MiB, type=uefi
start=16MiB, size=32MiB, type=linux
";
    write_table(&path, script).unwrap();
    file.write_all_at(&fs::read(fixture.image()).unwrap(), 16 * MIB)
        .unwrap();
    path
}

#[test]
fn files_of_a_disk_image_are_read() {
    if skip(NEEDED) {
        return;
    }
    let fixture = Fixture::new();
    let (disk, image) = (raw_disk(&fixture), fixture.path("disk.x"));
    let image_arg = image.to_str().unwrap();
    for (format, arguments) in FORMATS {
        convert(&disk, &image, format, arguments).unwrap();
        let output = larder(["cat", image_arg, "/dir/large"]);
        assert!(output.stdout == content(3 << 20), "{format} {arguments}");
        assert!(
            text(&output.stderr).contains("using partition 2"),
            "{}",
            text(&output.stderr)
        );
        let args = ["ls", "--partition", "2", image_arg, "/dir"];
        assert_eq!(larder_ok(args), "again\ndeep\nempty\nlarge\n");
        let copy = fixture.path("copy");
        larder_ok([
            "cp".as_ref(),
            "-r".as_ref(),
            image.as_os_str(),
            "/dir".as_ref(),
            copy.as_os_str(),
        ]);
        assert!(fs::read(copy.join("large")).unwrap() == content(3 << 20));
        fs::remove_dir_all(copy).unwrap();
        let info = larder_ok(["info", image_arg]);
        assert!(
            info.contains(&format!("{format} (disk of 50.0 MiB, ")) && info.contains("pantry"),
            "{info}"
        );
        let json = larder_ok(["info", "--json", image_arg]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["label"], "pantry");
        assert_eq!(json["disk"]["format"], format);
        assert_eq!(json["disk"]["size_bytes"], 50 * MIB);
        assert_eq!(json["disk"]["unit_bytes"], 64 << 10);
        // The partition, by its offset in the disk.
        let args = ["stat", "--offset", "16M", image_arg, "/hello"];
        assert!(larder_ok(args).contains("hello"));
    }
    // The file system without partitions.
    convert(&fixture.image(), &image, "qcow2", "").unwrap();
    for partition in [&[][..], &["--partition", "0"]] {
        let args = [&["cat", image_arg, "/hello"], partition].concat();
        assert_eq!(larder_ok(args), "hello, larder\n");
    }
}

#[test]
fn seekable_zstd_is_read_and_other_zstd_is_refused() {
    if skip(NEEDED) || skip(ZSTD) {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.path("disk.zst");
    let raw = fs::read(fixture.image()).unwrap();
    let bytes = seekable(&raw, 4 << 20, false).unwrap();
    // Without the end of the seek table.
    fs::write(&image, &bytes[..bytes.len() - 1]).unwrap();
    let message = ["compressed with zstd", "zstd -dc"];
    for arguments in [&["ls"][..], &["ls", "--format", "zstd"]] {
        let mut ls = command("larder", User::Same);
        let output = ls.args(arguments).arg(&image).output().unwrap();
        assert_fails(&output, 1, &message);
    }
    fs::write(&image, bytes).unwrap();
    let image = image.to_str().unwrap();
    let output = larder(["cat", image, "/dir/large"]);
    assert!(output.stdout == content(3 << 20));
    let info = larder_ok(["info", image]);
    assert!(info.contains("frames of at most 4.0 MiB"), "{info}");
}

#[test]
fn disk_image_is_only_read() {
    if skip(NEEDED) {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.path("disk.qcow2");
    convert(&fixture.image(), &image, "qcow2", "").unwrap();
    let before = fs::read(&image).unwrap();
    let path = image.to_str().unwrap();
    let message = ["is a qcow2 image, and can only be read", "qemu-img convert"];
    assert_fails(&larder(["mkdir", path, "/new"]), 1, &message);
    if !can_mount(User::Same) {
        return;
    }
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    let mount = |options: &[&str]| {
        let mut mount = command("larder", User::Same);
        mount.arg("mount").args(options).arg(path);
        mount.arg(&mountpoint.0).output().unwrap()
    };
    assert_fails(&mount(&["-o", "rw"]), 1, &message);
    let output = mount(&[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let warning = "is mounted read-only: it is a qcow2 image";
    assert!(
        text(&output.stderr).contains(warning),
        "{}",
        text(&output.stderr)
    );
    let large = fs::read(mountpoint.0.join("dir/large")).unwrap();
    assert!(large == content(3 << 20));
    assert!(fs::write(mountpoint.0.join("new"), "").is_err());
    larder_ok(["umount".as_ref(), mountpoint.0.as_os_str()]);
    assert!(fs::read(&image).unwrap() == before);
}

#[test]
fn raw_image_that_begins_like_a_qcow2_image_is_opened_in_the_given_format() {
    if skip(NEEDED) {
        return;
    }
    let fixture = Fixture::new();
    let (other, image) = (fixture.path("other"), fixture.path("disk.img"));
    make_image(&other, "-q -t ext4 -L other", "8M").unwrap();
    convert(&other, &image, "qcow2", "").unwrap();
    let mut bytes = fs::read(&image).unwrap();
    bytes.resize(32 << 20, 0);
    bytes.extend(fs::read(fixture.image()).unwrap());
    fs::write(&image, bytes).unwrap();
    let path = image.to_str().unwrap();
    // The file system is after the qcow2 image.
    let raw = ["ls", "--format", "raw", "--offset", "32M", path, "/dir"];
    assert_eq!(larder_ok(raw), "again\ndeep\nempty\nlarge\n");
    let guessed = ["ls", "--offset", "32M", path, "/dir"];
    assert_fails(&larder(guessed), 1, &[path]);
    assert_eq!(larder_ok(["ls", path]), "lost+found\n");
    assert_eq!(larder_ok(["ls", "--format", "qcow2", path]), "lost+found\n");
    let not_ext = ["is not an ext2, ext3 or ext4 image"];
    assert_fails(&larder(["ls", "--format", "raw", path]), 1, &not_ext);
    for (format, message) in [
        ("vmdk", "is not a VMDK image"),
        ("zstd", "is not compressed with zstd"),
    ] {
        let output = larder(["info", "--format", format, path]);
        assert_fails(&output, 1, &[message, "omit the format"]);
    }
    assert_fails(
        &larder(["ls", "--format", "vdi", path]),
        2,
        &["--format", "raw, qcow2, vmdk, zstd"],
    );
    if !can_mount(User::Same) {
        return;
    }
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    larder_ok([
        "mount".as_ref(),
        "-o".as_ref(),
        "ro,format=raw,offset=32M".as_ref(),
        image.as_os_str(),
        mountpoint.0.as_os_str(),
    ]);
    assert!(fs::read(mountpoint.0.join("dir/large")).unwrap() == content(3 << 20));
    larder_ok(["umount".as_ref(), mountpoint.0.as_os_str()]);
}

#[test]
fn content_of_a_disk_is_named_with_a_hint_for_its_image() {
    if skip(NEEDED) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (raw, image) = (dir.path().join("raw"), dir.path().join("disk.qcow2"));
    let mut disk = b"XFSB".to_vec();
    disk.resize(1 << 20, 0);
    fs::write(&raw, disk).unwrap();
    convert(&raw, &image, "qcow2", "").unwrap();
    let path = image.to_str().unwrap();
    assert_fails(
        &larder(["ls", path]),
        1,
        &[
            "the disk in",
            "is an XFS file system",
            "qemu-img convert -f qcow2",
        ],
    );
    let info = larder_ok(["info", path]);
    assert!(
        info.contains("qcow2 (disk of 1.0 MiB") && info.contains("an XFS file system"),
        "{info}"
    );
}

#[test]
fn encrypted_qcow2_image_is_named_with_a_command_that_decrypts_it() {
    if skip(NEEDED) {
        return;
    }
    let fixture = Fixture::new();
    let [key, image, plain] = ["key", "disk.qcow2", "plain"].map(|name| fixture.path(name));
    fs::write(&key, "pass").unwrap();
    let secret = format!("secret,id=key,file={}", key.display());
    // qemu-img measures the time of the hash function, and fails where that is less than a tick of the kernel's
    // processor time. SHA-512 has no instructions that make it so fast.
    let options =
        "encrypt.format=luks,encrypt.key-secret=key,encrypt.iter-time=10,encrypt.hash-alg=sha512";
    let convert = Tool::new("qemu-img").args(["convert", "-q", "-f", "raw", "-O", "qcow2"]);
    let convert = convert.args(["--object", &secret, "-o", options]);
    convert.arg(fixture.image()).arg(&image).run().unwrap();
    let path = image.to_str().unwrap();
    let parts = [
        "qcow2 image",
        "encrypted",
        "qemu-img convert --object secret",
    ];
    assert_fails(&larder(["ls", path]), 1, &parts);
    assert_fails(&larder(["ls", "--format", "qcow2", path]), 1, &parts);
    // The command of the hint.
    let options = format!("driver=qcow2,encrypt.key-secret=key,file.filename={path}");
    let decrypt = Tool::new("qemu-img").args(["convert", "--object", &secret, "--image-opts"]);
    let decrypt = decrypt.args([&options, "-O", "raw"]).arg(&plain);
    decrypt.run().unwrap();
    let plain = plain.to_str().unwrap();
    assert_eq!(larder_ok(["cat", plain, "/hello"]), "hello, larder\n");
}

/// Returns the paths and addresses that `larder info` opens or connects to for `image`, and its messages.
fn opened(image: &Path) -> (String, String) {
    let (trace, output) = traced(&["info".as_ref(), image.as_os_str()]);
    assert!(trace.contains(image.to_str().unwrap()), "{trace}");
    (trace, text(&output.stderr))
}

#[test]
fn image_that_names_a_password_file_or_a_url_opens_nothing() {
    if skip(NEEDED) || skip(&[Requirement::Tool("strace")]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("shadow");
    fs::write(&secret, vec![b'x'; 1 << 20]).unwrap();
    let secret = secret.to_str().unwrap();
    let url = "http://127.0.0.1:9/base.img";
    let image = dir.path().join("image");
    let data_file = format!("data_file={secret},data_file_raw=on");
    for (format, arguments, name) in [
        ("qcow2", &["-u", "-b", secret, "-F", "raw"][..], secret),
        ("qcow2", &["-u", "-b", url, "-F", "raw"], url),
        ("qcow2", &["-o", &data_file], secret),
    ] {
        let create = Tool::new("qemu-img").args(["create", "-q", "-f", format]);
        create.args(arguments).arg(&image).arg("1M").run().unwrap();
        let (trace, messages) = opened(&image);
        assert!(
            messages.contains("needs another file") && messages.contains(name),
            "{messages}"
        );
        assert!(
            !trace.contains(name) && !trace.contains("AF_INET"),
            "{trace}"
        );
    }
    // A descriptor, and the same descriptor in a sparse file, name the file or the URL as the content of the disk.
    let sparse = dir.path().join("sparse");
    let create = Tool::new("qemu-img").args(["create", "-q", "-f", "vmdk"]);
    create.arg(&sparse).arg("1M").run().unwrap();
    for name in [secret, url] {
        let descriptor = format!(
            "# Disk DescriptorFile\nversion=1\nCID=12345678\nparentCID=ffffffff\n\
             createType=\"monolithicFlat\"\n\nRW 2048 FLAT \"{name}\" 0\n"
        );
        fs::write(&image, &descriptor).unwrap();
        let mut text = descriptor.into_bytes();
        text.resize(20 * 512, 0);
        let file = fs::File::options().write(true).open(&sparse).unwrap();
        file.write_all_at(&text, 512).unwrap();
        for image in [&image, &sparse] {
            let (trace, messages) = opened(image);
            assert!(
                messages.contains("its extent") && messages.contains(name),
                "{messages}"
            );
            assert!(
                !trace.contains(name) && !trace.contains("AF_INET"),
                "{trace}"
            );
        }
    }
}

#[test]
fn name_of_another_file_cannot_control_the_terminal() {
    if skip(NEEDED) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    let create = Tool::new("qemu-img").args(["create", "-q", "-f", "qcow2", "-u", "-F", "raw"]);
    let create = create.args(["-b", "escape\u{1b}[31m"]).arg(&image);
    create.arg("1M").run().unwrap();
    let output = larder(["ls".as_ref(), image.as_os_str()]);
    assert_fails(&output, 1, &["needs another file", "escape"]);
    assert!(!text(&output.stderr).contains('\u{1b}'));
}

#[test]
fn disk_image_of_a_tree_of_many_files_is_walked() {
    if skip(NEEDED) || skip(ZSTD) || !can_mount(User::Same) {
        return;
    }
    let fixture = Fixture::new();
    let tree = fixture.path("many");
    for number in 0..300 {
        let dir = tree.join(format!("{}", number % 7));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!("{number}")), content(number * 37)).unwrap();
    }
    let [raw, disk, image] = ["raw", "disk", "disk.x"].map(|name| fixture.path(name));
    make_image_of(&tree, &raw, "-q -t ext4", "16M").unwrap();
    // The same file system in the second partition of a disk.
    let file = fs::File::create(&disk).unwrap();
    file.set_len(34 * MIB).unwrap();
    let script =
        "label: gpt\nstart=1MiB, size=7MiB, type=uefi\nstart=16MiB, size=16MiB, type=linux\n";
    write_table(&disk, script).unwrap();
    file.write_all_at(&fs::read(&raw).unwrap(), 16 * MIB)
        .unwrap();
    let formats = FORMATS.into_iter().chain([("raw", ""), ("zstd", "")]);
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    for ((format, arguments), source) in formats.flat_map(|one| [(one, &raw), (one, &disk)]) {
        if format == "zstd" {
            let packed = seekable(&fs::read(source).unwrap(), 1 << 20, false).unwrap();
            fs::write(&image, packed).unwrap();
        } else {
            convert(source, &image, format, arguments).unwrap();
        }
        larder_ok([
            "mount".as_ref(),
            "-o".as_ref(),
            "ro,device_timeout=60".as_ref(),
            image.as_os_str(),
            mountpoint.0.as_os_str(),
        ]);
        let differences = Command::new("diff")
            .args(["-r", "-x", "lost+found"])
            .args([&tree, &mountpoint.0])
            .output()
            .unwrap();
        assert!(
            differences.status.success(),
            "{format} {arguments} of {}: {}",
            source.display(),
            text(&differences.stdout)
        );
        larder_ok(["umount".as_ref(), mountpoint.0.as_os_str()]);
    }
}
