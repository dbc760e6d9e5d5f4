//! Images at URLs that have partitions.

#[allow(dead_code, reason = "each test uses a part of it")]
mod fixture;
mod larder;

use fixture::{Fixture, larder, larder_fails, larder_ok, large};
use larder::Mounted;
use larder_testkit::http::{Object, Request};
use larder_testkit::mbr::put_entry;
use std::fs;

const MIB: usize = 1 << 20;
/// The offset of the second partition, which has the file system, in MiB.
const EXT_MIB: usize = 2;

/// Replaces the image of `fixture` by a disk with an MBR. The image is in the second of three partitions, between swap
/// space and zeros.
fn partition(fixture: &Fixture) {
    let image = fs::read(fixture.path("image")).unwrap();
    let image_mib = image.len() / MIB;
    let mut disk = vec![0; (EXT_MIB + image_mib + 1) * MIB];
    let sectors = |mib: usize| u32::try_from(mib * MIB / 512).unwrap();
    put_entry(&mut disk, 0, 0x82, sectors(1), sectors(1));
    put_entry(&mut disk, 1, 0x83, sectors(EXT_MIB), sectors(image_mib));
    put_entry(&mut disk, 2, 0x83, sectors(EXT_MIB + image_mib), sectors(1));
    disk[MIB + 4086..][..10].copy_from_slice(b"SWAPSPACE2");
    disk[EXT_MIB * MIB..][..image.len()].copy_from_slice(&image);
    fixture.server.replace(Object::new(disk, "disk"));
}

#[test]
fn only_partition_with_ext_is_read() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    partition(&fixture);
    let url = fixture.url();
    let output = larder(["cat", &url, "/hello"]);
    let messages = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.stdout, b"hello\n", "{messages}");
    assert!(
        messages.contains("using partition 2 (ext, 64.0 MiB)"),
        "{messages}"
    );
    let output = larder(["cat", "--partition", "2", &url, "/directory/large"]);
    assert!(output.stdout == large());
    assert!(output.stderr.is_empty());
    let json = larder_ok(["info", "--json", &url]);
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(
        (&json["kind"], &json["partition"]),
        (&"ext4".into(), &2.into())
    );
    let contents = json["partitions"].as_array().unwrap().iter();
    let contents: Vec<_> = contents.map(|one| one["content"].as_str()).collect();
    assert_eq!(contents, [Some("swap"), Some("ext"), None]);
    let message = larder_fails(["ls", "--partition", "1", &url]);
    assert!(
        message.contains("partition 1 of") && message.contains("swap space"),
        "{message}"
    );
    let message = larder_fails(["ls", "--partition", "4", &url]);
    assert!(message.contains("there is no partition 4"), "{message}");
}

#[test]
fn no_part_of_a_partitioned_disk_is_fetched_twice() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    partition(&fixture);
    let url = fixture.url();
    for args in [&[][..], &["--partition", "2"]] {
        drop(fixture.server.take_requests());
        let mut all = vec!["cat", "--cache-disk-size", "0", &url, "/hello"];
        all.extend(args);
        assert_eq!(larder_ok(all), b"hello\n");
        let requests = fixture.server.take_requests();
        let mut ranges: Vec<_> = requests.iter().filter_map(Request::range).collect();
        ranges.sort_unstable();
        assert!(!ranges.is_empty());
        let is_apart = |pair: &[(usize, usize)]| pair[0].1 < pair[1].0;
        assert!(ranges.windows(2).all(is_apart), "{ranges:?}");
    }
}

#[test]
fn partition_is_mounted() {
    let Some(fixture) = Fixture::to_mount() else {
        return;
    };
    partition(&fixture);
    let mountpoint = fixture.path("mnt");
    let url = fixture.url();
    for args in [&[][..], &["-o", "partition=2"]] {
        let mut all = vec!["mount", &url, mountpoint.to_str().unwrap()];
        all.extend(args);
        larder_ok(all);
        let mounted = Mounted(&mountpoint);
        assert_eq!(fs::read(mountpoint.join("hello")).unwrap(), b"hello\n");
        let read = fs::read(mountpoint.join("directory/large")).unwrap();
        assert!(read == large());
        drop(mounted);
    }
}
