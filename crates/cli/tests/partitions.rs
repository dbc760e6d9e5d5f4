//! Images with partitions, and images that are something else.

mod support;

use larder_testkit::e2fsprogs::{e2fsck, make_image, new_image};
use larder_testkit::mbr::put_entry;
use larder_testkit::sfdisk::write_table;
use larder_testkit::{Requirement, skip};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use support::{Mountpoint, User, assert_fails, can_mount, command, larder, larder_ok, text};

const MIB: u64 = 1 << 20;
const NEEDED: &[Requirement] = &[Requirement::Tool("sfdisk"), Requirement::Tool("mke2fs")];

/// Creates a disk of 32 MiB in `dir`, with a GPT, and with file systems labelled `p2`, `p3` and so on in the partitions
/// `with_ext`. Partition `n` has 8 MiB at `n` times 8 MiB.
fn disk(dir: &Path, with_ext: &[u64]) -> PathBuf {
    let path = dir.join("disk.img");
    let file = fs::File::create(&path).unwrap();
    file.set_len(33 * MIB).unwrap();
    let script = "label: gpt
start=1MiB, size=7MiB, type=uefi
start=16MiB, size=8MiB, type=linux, name=root
start=24MiB, size=8MiB, type=linux
";
    write_table(&path, script).unwrap();
    for number in with_ext {
        let image = dir.join("image");
        make_image(&image, &format!("-q -t ext4 -L p{number}"), "8M").unwrap();
        file.write_all_at(&fs::read(&image).unwrap(), number * 8 * MIB)
            .unwrap();
    }
    path
}

fn label_of(args: &[&str]) -> String {
    let json: serde_json::Value = serde_json::from_str(&larder_ok(args)).unwrap();
    json["label"].as_str().unwrap().to_owned()
}

#[test]
fn only_partition_with_ext_is_used() {
    if skip(NEEDED) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let disk = disk(dir.path(), &[2]);
    let output = larder(["ls".as_ref(), disk.as_os_str()]);
    assert_eq!(text(&output.stdout), "lost+found\n");
    assert!(
        text(&output.stderr).contains("using partition 2 (ext, 8.0 MiB)"),
        "{}",
        text(&output.stderr)
    );
    let disk = disk.to_str().unwrap();
    assert_eq!(label_of(&["info", "--json", disk]), "p2");
    // A requested partition is not reported.
    let output = larder(["ls", "--partition", "2", disk]);
    assert_eq!(text(&output.stderr), "");
    assert_fails(
        &larder(["ls", "--partition", "1", disk]),
        1,
        &["not an ext2, ext3 or ext4 image"],
    );
    assert_fails(
        &larder(["ls", "--partition", "4", disk]),
        1,
        &["there is no partition 4", "2 (ext, 8.0 MiB)"],
    );
    assert_fails(
        &larder(["ls", "--partition", "2", "--offset", "1M", disk]),
        2,
        &["--partition", "--offset"],
    );
}

#[test]
fn one_of_several_partitions_must_be_chosen() {
    if skip(NEEDED) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let disk = disk(dir.path(), &[2, 3]);
    let disk = disk.to_str().unwrap();
    assert_fails(
        &larder(["ls", disk]),
        1,
        &["partitions 2 and 3 have ext file systems", "--partition N"],
    );
    for number in ["2", "3"] {
        let label = label_of(&["info", "--json", "--partition", number, disk]);
        assert_eq!(label, format!("p{number}"));
    }
    let shown = larder_ok(["info", disk]);
    assert!(
        shown.contains("partitions (GPT)") && shown.contains("EFI System"),
        "{shown}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&larder_ok(["info", "--json", disk])).unwrap();
    assert_eq!(json["table"], "GPT");
    assert_eq!(json["sector_bytes"], 512);
    assert_eq!(json["partitions"][1]["offset_bytes"], 16 * MIB);
    assert_eq!(json["partitions"][1]["content"], "ext");
    assert_eq!(json["partitions"][1]["name"], "root");
}

/// Creates a disk of 10 MiB in `dir`, with an MBR that counts sectors of `sector_bytes`. Its only partition, at 1 MiB, has
/// a file system with the label `p1`.
fn mbr_disk(dir: &Path, sector_bytes: u32) -> PathBuf {
    let mut disk = vec![0; 10 << 20];
    put_entry(
        &mut disk,
        0,
        0x83,
        (1 << 20) / sector_bytes,
        (8 << 20) / sector_bytes,
    );
    let image = new_image("-q -t ext4 -L p1", "8M").unwrap();
    disk[1 << 20..9 << 20].copy_from_slice(&image);
    let path = dir.join("mbr.img");
    fs::write(&path, disk).unwrap();
    path
}

#[test]
fn partition_of_a_disk_with_sectors_of_4096_bytes_is_used() {
    if skip(&[Requirement::Tool("mke2fs")]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let disk = mbr_disk(dir.path(), 4096);
    let disk = disk.to_str().unwrap();
    assert_eq!(label_of(&["info", "--json", disk]), "p1");
    assert_eq!(
        label_of(&["info", "--json", "--partition", "1", disk]),
        "p1"
    );
}

#[test]
fn info_lists_the_partitions_and_describes_the_only_one_with_ext() {
    if skip(&[Requirement::Tool("mke2fs")]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let disk = mbr_disk(dir.path(), 512);
    let disk = disk.to_str().unwrap();
    let shown = larder_ok(["info", disk]);
    let (table, described) = shown.split_once("\n\nPartition      1\n").unwrap();
    assert!(
        table.starts_with("Type           partitions (MBR)\n") && table.contains(" ext "),
        "{shown}"
    );
    assert!(
        described.starts_with("Type           ext4\nLabel          p1\n"),
        "{shown}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&larder_ok(["info", "--json", disk])).unwrap();
    assert_eq!(json["kind"], "ext4");
    assert_eq!(json["table"], "MBR");
    assert_eq!(json["partition"], 1);
    assert_eq!(json["partitions"][0]["offset_bytes"], MIB);
    // A requested partition is described as an image without partitions.
    assert_eq!(larder_ok(["info", "--partition", "1", disk]), described);
}

#[test]
fn hint_for_a_damaged_partition_names_its_offset() {
    if skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let disk = mbr_disk(dir.path(), 512);
    let name = format!("{}?offset={MIB}", disk.display());
    // e2fsck finds the file system by this name.
    e2fsck("-fn").arg(&name).run().unwrap();
    // This value of s_log_block_size is far too large. With one group, there is no backup superblock.
    let file = fs::File::options().write(true).open(&disk).unwrap();
    file.write_all_at(&[0xff; 4], MIB + 1024 + 24).unwrap();
    let disk = disk.to_str().unwrap();
    let hint = format!("hint: check the file system with e2fsck -n '{name}'");
    assert_fails(
        &larder(["ls", "--partition", "1", disk]),
        1,
        &["superblock", &hint],
    );
    assert_fails(
        &larder(["ls", "--offset", "1M", disk]),
        1,
        &["superblock", &hint],
    );
}

#[test]
fn change_of_a_partition_leaves_the_others_as_they_were() {
    if skip(NEEDED) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let disk = disk(dir.path(), &[2, 3]);
    let before = fs::read(&disk).unwrap();
    larder_ok(["mkdir", "--partition", "2", disk.to_str().unwrap(), "/new"]);
    let after = fs::read(&disk).unwrap();
    let (start, end) = (16 << 20, 24 << 20);
    assert_eq!(before[..start], after[..start]);
    assert_eq!(before[end..], after[end..]);
    assert_ne!(before[start..end], after[start..end]);
    let path = dir.path().join("partition");
    fs::write(&path, &after[start..end]).unwrap();
    e2fsck("-fn").arg(&path).run().unwrap();
}

#[test]
fn remainder_of_an_earlier_file_system_is_not_used() {
    if skip(NEEDED) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    // The backups of this file system's superblock remain, and so does an ext magic number in front of an MBR.
    make_image(&path, "-q -t ext4 -b 1024 -L old", "33M").unwrap();
    for (label, old_is_whole) in [("gpt", false), ("dos", true)] {
        let script = format!("label: {label}\nstart=1MiB, size=8MiB, type=linux\n");
        write_table(&path, &script).unwrap();
        let image = dir.path().join("image");
        make_image(&image, "-q -t ext4 -L new", "8M").unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.write_all_at(&fs::read(&image).unwrap(), MIB).unwrap();
        let disk = path.to_str().unwrap();
        assert_eq!(
            label_of(&["info", "--json", "--partition", "1", disk]),
            "new"
        );
        if old_is_whole {
            assert_fails(&larder(["ls", disk]), 1, &["remainder", "--partition 0"]);
            assert_eq!(
                label_of(&["info", "--json", "--partition", "0", disk]),
                "old"
            );
        } else {
            assert_eq!(label_of(&["info", "--json", disk]), "new");
        }
        // The next table is written in front of the old file system again.
        make_image(&path, "-q -t ext4 -b 1024 -L old", "33M").unwrap();
    }
}

#[test]
fn partition_is_mounted() {
    if skip(NEEDED) || !can_mount(User::Same) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let disk = disk(dir.path(), &[2, 3]);
    let mountpoint = dir.path().join("mnt");
    fs::create_dir(&mountpoint).unwrap();
    let mountpoint = Mountpoint(mountpoint);
    for (options, number) in [(["-o", "partition=3"], 3), (["--partition", "2"], 2)] {
        let output = command("larder", User::Same)
            .arg("mount")
            .args(options)
            .arg(&disk)
            .arg(&mountpoint.0)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        fs::write(mountpoint.0.join(format!("in {number}")), "").unwrap();
        larder_ok(["umount".as_ref(), mountpoint.0.as_os_str()]);
        let names = larder_ok([
            "ls",
            "--partition",
            &number.to_string(),
            disk.to_str().unwrap(),
        ]);
        assert!(names.contains(&format!("in {number}")), "{names}");
    }
}

#[test]
fn other_formats_are_named_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    for (offset, bytes, name, hint) in [
        (
            0,
            &b"\x1f\x8b\x08\0"[..],
            "compressed with gzip",
            "gzip -dc",
        ),
        (0, b"\xfd7zXZ\0", "compressed with xz", "xz -dc <"),
        (0, b"conectix", "a VHD image", "qemu-img convert"),
        (0, b"LUKS\xba\xbe", "a LUKS container", "cryptsetup open"),
        (512, b"LABELONE", "a physical volume of LVM", "vgchange -ay"),
        (0, b"XFSB", "an XFS file system", "mount -o loop"),
        (65_600, b"_BHRfS_M", "a Btrfs file system", "guestmount -a"),
        (32_769, b"CD001", "an ISO 9660 file system", "fuseiso"),
        (0, b"hsqs", "a squashfs file system", "squashfuse"),
    ] {
        let mut content = vec![0; 1 << 20];
        content[offset..offset + bytes.len()].copy_from_slice(bytes);
        fs::write(&path, content).unwrap();
        let path = path.to_str().unwrap();
        assert_fails(&larder(["ls", path]), 1, &[name, "hint:", hint]);
        assert!(larder_ok(["info", path]).contains(name));
    }
    fs::write(&path, vec![0; 1 << 20]).unwrap();
    assert_fails(
        &larder(["ls".as_ref(), path.as_os_str()]),
        1,
        &["begins with zeros", "--offset"],
    );
}

#[test]
fn other_formats_in_partitions_are_named_with_a_command() {
    if skip(NEEDED) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let disk = disk(dir.path(), &[]);
    let file = fs::File::options().write(true).open(&disk).unwrap();
    let path = disk.to_str().unwrap();
    let place = format!("-o 16777216 --sizelimit 8388608 {path}");
    let mounted = format!("mount -o loop,offset=16777216,sizelimit=8388608 {path}");
    // The first partition has a FAT file system, and is smaller.
    file.write_all_at(b"FAT16   ", MIB + 54).unwrap();
    for (offset, bytes, name, hint) in [
        (
            512,
            &b"LABELONE"[..],
            "a physical volume of LVM",
            format!("losetup -f {place}; vgchange -ay"),
        ),
        (
            0,
            b"LUKS\xba\xbe",
            "a LUKS container",
            format!("cryptsetup open $(losetup -f --show {place}) NAME"),
        ),
        (0, b"XFSB", "an XFS file system", mounted.clone()),
        (65_600, b"_BHRfS_M", "a Btrfs file system", mounted),
    ] {
        file.write_all_at(&vec![0; 128 << 10], 16 * MIB).unwrap();
        file.write_all_at(bytes, 16 * MIB + offset).unwrap();
        let parts = ["no partition has an ext2", name, "for partition 2, ", &hint];
        assert_fails(&larder(["ls", path]), 1, &parts);
        let message = format!("partition 2 of {path} is {name}");
        let chosen = larder(["ls", "--partition", "2", path]);
        assert_fails(&chosen, 1, &[&message, &hint]);
        assert!(larder_ok(["info", path]).contains(&hint));
    }
}
