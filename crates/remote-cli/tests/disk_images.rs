//! Disk images of other formats at URLs.

#[allow(dead_code, reason = "each test uses a part of it")]
mod fixture;
#[allow(dead_code, reason = "each test uses a part of it")]
mod larder;

use fixture::{Fixture, larder_fails, larder_ok, large};
use larder::{Mounted, command};
use larder_testkit::http::{HttpServer, Link, Object};
use larder_testkit::mbr::put_entry;
use larder_testkit::qemu::convert;
use larder_testkit::sfdisk::write_table;
use larder_testkit::tool::Tool;
use larder_testkit::zstd::seekable;
use larder_testkit::{Requirement, skip};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MIB: u64 = 1 << 20;
const NEEDED: &[Requirement] = &[Requirement::Tool("qemu-img"), Requirement::Tool("sfdisk")];

/// Returns a server with the image at `path`.
fn server_of(path: &Path) -> HttpServer {
    let object = Object::new(fs::read(path).unwrap(), "one");
    HttpServer::of_object(object, Link::default())
}

/// Writes the image of `fixture` to the first partition of a disk, and the disk to the file `disk` in `format`.
fn make_disk(fixture: &Fixture, format: &str, arguments: &str) {
    let raw = fixture.path("raw");
    let file = fs::File::create(&raw).unwrap();
    file.set_len(80 * MIB).unwrap();
    write_table(&raw, "label: gpt\nstart=1MiB, size=64MiB, type=linux\n").unwrap();
    let image = fs::read(fixture.path("image")).unwrap();
    file.write_all_at(&image, MIB).unwrap();
    convert(&raw, &fixture.path("disk"), format, arguments).unwrap();
}

#[test]
fn files_of_a_disk_image_at_a_url_are_read() {
    if skip(NEEDED) {
        return;
    }
    let Some(fixture) = Fixture::new() else {
        return;
    };
    for (format, arguments) in [
        ("qcow2", ""),
        ("qcow2", "-c"),
        ("qcow2", "-o cluster_size=4k"),
        ("vmdk", ""),
        ("vmdk", "-o subformat=streamOptimized"),
    ] {
        make_disk(&fixture, format, arguments);
        let server = server_of(&fixture.path("disk"));
        let url = server.url("disk");
        for partition in ["1", "0"] {
            let args = ["cat", "--partition", partition, &url, "/directory/large"];
            if partition == "1" {
                assert!(larder_ok(args) == large(), "{format} {arguments}");
            } else {
                // There is no file system in front of the partition.
                larder_fails(args);
            }
        }
        assert_eq!(
            larder_ok(["cat", "--offset", "1M", &url, "/hello"]),
            b"hello\n"
        );
        let info = String::from_utf8(larder_ok(["info", &url])).unwrap();
        assert!(
            info.contains(&format!("{format} (disk of 80.0 MiB")),
            "{info}"
        );
    }
}

#[test]
fn mount_of_a_disk_image_at_a_url_reads_it() {
    if skip(NEEDED) {
        return;
    }
    let Some(fixture) = Fixture::to_mount() else {
        return;
    };
    for (format, arguments) in [("qcow2", ""), ("qcow2", "-c"), ("vmdk", "")] {
        make_disk(&fixture, format, arguments);
        let server = server_of(&fixture.path("disk"));
        let mountpoint = fixture.path("mnt");
        let mut mount = command();
        mount.args(["mount", &server.url("disk"), "--cache-disk-size", "0"]);
        let output = mount.arg(&mountpoint).output().unwrap();
        let messages = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{messages}");
        let _mounted = Mounted(&mountpoint);
        let read = fs::read(mountpoint.join("directory/large")).unwrap();
        assert!(read == large(), "{format} {arguments}");
    }
}

#[test]
fn seekable_zstd_at_a_url_is_read_and_mounted() {
    if skip(NEEDED) || skip(&[Requirement::Tool("zstd")]) {
        return;
    }
    let Some(fixture) = Fixture::to_mount() else {
        return;
    };
    make_disk(&fixture, "raw", "");
    let packed = seekable(&fs::read(fixture.path("disk")).unwrap(), 2 << 20, false).unwrap();
    let server = HttpServer::of_object(Object::new(packed, "one"), Link::default());
    let url = server.url("disk.zst");
    assert!(larder_ok(["cat", &url, "/directory/large"]) == large());
    let info = String::from_utf8(larder_ok(["info", &url])).unwrap();
    assert!(info.contains("zstd (disk of 80.0 MiB, frames of"), "{info}");
    let mountpoint = fixture.path("mnt");
    let mut mount = command();
    mount.args(["mount", &url, "--cache-disk-size", "0"]);
    let output = mount.arg(&mountpoint).output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{messages}");
    let _mounted = Mounted(&mountpoint);
    assert_eq!(fs::read(mountpoint.join("hello")).unwrap(), b"hello\n");
    assert!(fs::read(mountpoint.join("directory/large")).unwrap() == large());
}

#[test]
fn other_formats_at_a_url_are_named_with_a_command() {
    let mut xz = b"\xfd7zXZ\0".to_vec();
    xz.resize(1 << 20, 0);
    // The only partition has a physical volume of LVM.
    let mut disk = vec![0; 4 << 20];
    put_entry(&mut disk, 0, 0x8e, 2048, 4096);
    disk[(1 << 20) + 512..][..8].copy_from_slice(b"LABELONE");
    for (bytes, name, hint) in [
        (xz, "compressed with xz", "xz -dc < FILE > FILE.raw"),
        (
            disk,
            "a physical volume of LVM",
            "losetup -f -o 1048576 --sizelimit 2097152 FILE; vgchange -ay",
        ),
    ] {
        let server = HttpServer::of_object(Object::new(bytes, "one"), Link::default());
        let url = server.url("disk");
        let message = larder_fails(["ls", &url]);
        for part in [name, "copy the image to a local FILE", hint] {
            assert!(message.contains(part), "{message}");
        }
        let info = String::from_utf8(larder_ok(["info", &url])).unwrap();
        assert!(info.contains(hint), "{info}");
    }
}

#[test]
fn image_at_a_url_requests_no_other_url() {
    if skip(NEEDED) {
        return;
    }
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let image = fixture.path("hostile");
    let backing = fixture.server.url("base.img");
    let create = Tool::new("qemu-img").args(["create", "-q", "-f", "qcow2", "-u", "-F", "raw"]);
    let create = create.args(["-b", &backing]).arg(&image);
    create.arg("1M").run().unwrap();
    let server = server_of(&image);
    let message = larder_fails(["ls", &server.url("disk")]);
    assert!(
        message.contains("needs another file") && message.contains("base.img"),
        "{message}"
    );
    assert!(!server.take_requests().is_empty());
    assert!(fixture.server.take_requests().is_empty());
}
