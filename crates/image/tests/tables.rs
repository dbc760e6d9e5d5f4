//! Partition tables that `sfdisk` writes, and damaged ones.

use larder_block::{BlockDevice, MemoryDevice, Request};
use larder_image::{Contents, Format, Medium, NotSelected, PartitionTable, TableKind, examine};
use larder_instruments::{FaultyDevice, RecordingDevice};
use larder_testkit::mbr::put_entry;
use larder_testkit::sfdisk::write_table;
use larder_testkit::{Requirement, proptest_config, skip};
use proptest::prelude::*;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MIB: u64 = 1 << 20;
const SFDISK: &[Requirement] = &[Requirement::Tool("sfdisk")];

/// Returns the bytes of a disk of `mib` MiB with the partition table that the `script` of `sfdisk` describes.
fn disk(mib: u64, script: &str) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(mib * MIB).unwrap();
    write_table(file.path(), script).unwrap();
    std::fs::read(file.path()).unwrap()
}

/// Writes the magic number of an ext file system that begins at `offset_bytes`.
fn put_ext(disk: &mut [u8], offset_bytes: u64) {
    let at = usize::try_from(offset_bytes).unwrap() + 1024 + 56;
    disk[at..at + 2].copy_from_slice(&[0x53, 0xEF]);
}

fn put(disk: &mut [u8], offset_bytes: u64, bytes: &[u8]) {
    let at = usize::try_from(offset_bytes).unwrap();
    disk[at..at + bytes.len()].copy_from_slice(bytes);
}

fn contents(disk: Vec<u8>) -> Contents {
    examine(&MemoryDevice::new(disk), None).unwrap()
}

#[track_caller]
fn table(disk: Vec<u8>) -> PartitionTable {
    match contents(disk) {
        Contents::Partitions(table) => table,
        other => panic!("{other:?}"),
    }
}

/// Returns the number, the offset and the size in MiB, and the type of each partition.
fn rows(table: &PartitionTable) -> Vec<(u32, u64, u64, &str)> {
    let rows = table.partitions.iter().map(|one| {
        assert_eq!((one.offset_bytes % MIB, one.size_bytes % MIB), (0, 0));
        let (offset, size) = (one.offset_bytes / MIB, one.size_bytes / MIB);
        (one.number, offset, size, one.type_name.as_str())
    });
    rows.collect()
}

const GPT: &str = "label: gpt
start=1MiB, size=1MiB, type=uefi, name=boot
start=2MiB, size=4MiB, type=linux, name=\"root é\"
start=6MiB, size=1MiB, type=swap
";

#[test]
fn partitions_of_gpt_are_found() {
    if skip(SFDISK) {
        return;
    }
    let mut disk = disk(8, GPT);
    put_ext(&mut disk, 2 * MIB);
    put(&mut disk, 6 * MIB + 4086, b"SWAPSPACE2");
    let table = table(disk);
    assert_eq!(table.kind, TableKind::Gpt);
    assert_eq!(
        rows(&table),
        [
            (1, 1, 1, "EFI System"),
            (2, 2, 4, "Linux filesystem"),
            (3, 6, 1, "Linux swap"),
        ]
    );
    let names = table.partitions.iter().map(|one| one.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["boot", "root é", ""]);
    let formats = table.partitions.iter().map(|one| (one.is_ext, one.format));
    assert_eq!(
        formats.collect::<Vec<_>>(),
        [(false, None), (true, None), (false, Some(Format::Swap))]
    );
    assert_eq!(table.select(None).unwrap().number, 2);
    assert_eq!(table.select(Some(3)).unwrap().number, 3);
    assert_eq!(table.select(Some(4)), Err(NotSelected::NoSuchNumber(4)));
}

#[test]
fn backup_replaces_a_damaged_header() {
    if skip(SFDISK) {
        return;
    }
    let whole = disk(8, GPT);
    let mut damaged = whole.clone();
    damaged[512 + 40] ^= 1;
    assert_eq!(table(damaged.clone()), table(whole.clone()));
    // The entries of the first array are damaged, and those of the backup are not.
    let mut damaged_array = whole.clone();
    damaged_array[1024 + 32] ^= 1;
    assert_eq!(table(damaged_array), table(whole));
    // Without both headers, only the protective entry is left.
    let last = damaged.len() - 512;
    damaged[last] ^= 1;
    assert_eq!(contents(damaged), Contents::DamagedGpt);
}

#[test]
fn backup_replaces_a_gpt_that_cannot_be_read() {
    if skip(SFDISK) {
        return;
    }
    let whole = disk(8, GPT);
    let expected = Contents::Partitions(table(whole.clone()));
    let end = whole.len() as u64;
    let whole: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(whole));
    let faulty = |ranges: &[Range<u64>]| {
        let device = FaultyDevice::new(Arc::clone(&whole));
        let fail = |device: FaultyDevice, range: &Range<u64>| device.fail_range(range.clone());
        ranges.iter().fold(device, fail)
    };
    // The header, and two sectors of the array: one of the first 8 KiB of the disk, and one of those that follow them.
    for first in [512, 1024, 9 << 10] {
        let bad = first..first + 512;
        let backup = end - 512..end;
        let examined = examine(&faulty(std::slice::from_ref(&bad)), None).unwrap();
        assert_eq!(examined, expected, "{first}");
        // A backup is read only if it is needed.
        let examined = examine(&faulty(std::slice::from_ref(&backup)), None).unwrap();
        assert_eq!(examined, expected);
        // Without both, the error of the device is known.
        let device = Arc::new(faulty(&[bad, backup]));
        let contents = Medium::new(device, None, None).contents;
        let Contents::Unreadable(why) = contents else {
            panic!("{contents:?}");
        };
        assert!(why.contains("Input/output error"), "{why}");
    }
}

#[test]
fn gpt_with_sectors_of_4096_bytes_is_found() {
    const SECTOR: usize = 4096;
    // A header in the second sector, and an array of one entry in the third. `sfdisk` writes these sectors only to devices
    // that have them.
    let mut disk = vec![0; 8 << 20];
    let entry = &mut disk[2 * SECTOR..][..128];
    let linux = "0fc63daf-8483-4772-8e79-3d69d8477de4";
    entry[..16].copy_from_slice(&linux.parse::<uuid::Uuid>().unwrap().to_bytes_le());
    entry[32..40].copy_from_slice(&256_u64.to_le_bytes());
    entry[40..48].copy_from_slice(&767_u64.to_le_bytes());
    let array = crc32fast::hash(entry);
    let header = &mut disk[SECTOR..][..92];
    header[..8].copy_from_slice(b"EFI PART");
    for (at, number) in [(12, 92), (24, 1), (72, 2), (80, 1), (84, 128), (88, array)] {
        header[at..at + 4].copy_from_slice(&u32::to_le_bytes(number));
    }
    let checksum = crc32fast::hash(header);
    header[16..20].copy_from_slice(&checksum.to_le_bytes());
    put_entry(&mut disk, 0, 0xEE, 1, 2047);
    let table = table(disk);
    assert_eq!(table.sector_bytes, 4096);
    assert_eq!(rows(&table), [(1, 1, 2, "Linux filesystem")]);
}

const MBR: &str = "label: dos
start=1MiB, size=1MiB, type=c
start=2MiB, size=1MiB, type=83
start=3MiB, size=5MiB, type=5
start=4MiB, size=1MiB, type=83
start=6MiB, size=2MiB, type=82
";

#[test]
fn primary_and_logical_partitions_of_mbr_are_found() {
    if skip(SFDISK) {
        return;
    }
    let mut disk = disk(8, MBR);
    put_ext(&mut disk, 2 * MIB);
    put_ext(&mut disk, 4 * MIB);
    let table = table(disk);
    assert_eq!(table.kind, TableKind::Mbr);
    assert_eq!(
        rows(&table),
        [
            (1, 1, 1, "FAT"),
            (2, 2, 1, "Linux"),
            (5, 4, 1, "Linux"),
            (6, 6, 2, "Linux swap"),
        ]
    );
    assert_eq!(table.select(None), Err(NotSelected::SeveralExt(vec![2, 5])));
    assert_eq!(
        NotSelected::SeveralExt(vec![2, 5, 6]).to_string(),
        "partitions 2, 5 and 6 have ext file systems"
    );
}

#[test]
fn mbr_with_sectors_of_4096_bytes_is_found_by_its_file_systems() {
    // A primary partition, and a logical one in an extended partition that begins at 2 MiB.
    let mut disk = vec![0; 8 << 20];
    put_entry(&mut disk, 0, 0x83, 256, 256);
    put_entry(&mut disk, 1, 0x05, 512, 1024);
    put_entry(&mut disk[2 << 20..], 0, 0x83, 256, 256);
    assert_eq!(table(disk.clone()).sector_bytes, 512);
    put_ext(&mut disk, 3 * MIB);
    for number in [None, Some(1), Some(5)] {
        let examined = examine(&MemoryDevice::new(disk.clone()), number).unwrap();
        let table = examined.table().unwrap();
        assert_eq!(table.sector_bytes, 4096);
        assert_eq!(rows(table), [(1, 1, 1, "Linux"), (5, 3, 1, "Linux")]);
        assert_eq!(table.select(None).unwrap().number, 5);
    }
    // With sectors of 512 bytes, there is a file system, too.
    put_ext(&mut disk, 256 * 512);
    let table = table(disk);
    assert_eq!(table.sector_bytes, 512);
    assert_eq!(table.select(None).unwrap().number, 1);
}

#[test]
fn contents_of_all_partitions_are_known_unless_the_requested_one_has_ext() {
    let mut disk = vec![0; 4 << 20];
    put_entry(&mut disk, 0, 0x83, 2048, 2048);
    put_entry(&mut disk, 1, 0x82, 4096, 2048);
    put_ext(&mut disk, MIB);
    put(&mut disk, 2 * MIB + 4086, b"SWAPSPACE2");
    let device = MemoryDevice::new(disk);
    for (number, swap) in [(1, None), (2, Some(Format::Swap)), (3, Some(Format::Swap))] {
        let examined = examine(&device, Some(number)).unwrap();
        let partitions = &examined.table().unwrap().partitions;
        assert!(partitions[0].is_ext);
        assert_eq!(partitions[1].format, swap, "partition {number}");
    }
}

#[test]
fn chain_of_logical_partitions_that_forms_a_loop_ends() {
    if skip(SFDISK) {
        return;
    }
    let mut disk = disk(8, MBR);
    // The first sector of the extended partition refers to itself.
    let extended = usize::try_from(3 * MIB).unwrap();
    disk[extended + 446 + 16 + 8..][..4].copy_from_slice(&[0; 4]);
    assert_eq!(table(disk.clone()).partitions.len(), 3);
    // The second table refers to itself: its distance from the start of the extended partition is 2 MiB at most.
    let next = disk[extended..]
        .windows(2)
        .skip(512)
        .position(|two| two == [0x55, 0xAA]);
    assert!(next.is_some(), "there is a second table");
    disk[extended + 446 + 16 + 8..][..4].copy_from_slice(&2048_u32.to_le_bytes());
    let second = extended + 2048 * 512;
    let first_sector = disk[extended..extended + 512].to_vec();
    disk[second..second + 512].copy_from_slice(&first_sector);
    assert!(table(disk).partitions.len() <= larder_image::MAX_PARTITIONS);
}

#[test]
fn remainders_of_an_earlier_content_do_not_hide_the_present_one() {
    // A partition table was written to a disk with an ext file system.
    let mut with_mbr = vec![0; 4 << 20];
    put_entry(&mut with_mbr, 0, 0x83, 2048, 2048);
    put_ext(&mut with_mbr, MIB);
    put_ext(&mut with_mbr, 0);
    let examined = contents(with_mbr.clone());
    assert!(matches!(examined, Contents::ExtAndPartitions(_)));
    assert!(examined.table().unwrap().select(Some(1)).unwrap().is_ext);
    // The same, and the boot record is also that of a FAT file system.
    let mut of_fat = with_mbr;
    of_fat[1024 + 56] = 0;
    put(&mut of_fat, 82, b"FAT32   ");
    assert_eq!(table(of_fat.clone()).partitions.len(), 1);
    // A FAT file system. The table in its boot record has no partition with known content.
    of_fat[(1 << 20) + 1024 + 56] = 0;
    assert_eq!(contents(of_fat), Contents::Other(Format::Fat));
    // An ISO 9660 file system that can also be booted from a disk.
    let mut iso = vec![0; 4 << 20];
    put_entry(&mut iso, 0, 0, 0, 8192);
    put_entry(&mut iso, 1, 0xEF, 64, 64);
    put(&mut iso, (32 << 10) + 1, b"CD001");
    assert_eq!(contents(iso.clone()), Contents::Other(Format::Iso9660));
    // A partition for files was added to it. The first entry has a number, too.
    put_entry(&mut iso, 2, 0x83, 4096, 2048);
    put_ext(&mut iso, 4096 * 512);
    assert_eq!(table(iso).select(None).unwrap().number, 3);
    // A GPT without a protective entry is a remainder, too.
    if !skip(SFDISK) {
        let mut unprotected = disk(8, GPT);
        unprotected[446 + 4] = 0x83;
        assert_eq!(table(unprotected).kind, TableKind::Mbr);
    }
}

#[test]
fn member_of_a_raid_is_used_only_on_request() {
    let mut disk = vec![0; 4 << 20];
    put_entry(&mut disk, 0, 0xFD, 2048, 2048);
    put_ext(&mut disk, MIB);
    let table = table(disk);
    assert_eq!(table.select(None), Err(NotSelected::NoExt));
    assert!(table.select(Some(1)).unwrap().is_ext);
}

#[test]
fn partition_that_cannot_be_read_has_the_error() {
    let mut disk = vec![0; 4 << 20];
    put_entry(&mut disk, 0, 0x83, 2048, 2048);
    put_entry(&mut disk, 1, 0x83, 4096, 2048);
    put_ext(&mut disk, MIB);
    put_ext(&mut disk, 2 * MIB);
    let device = Arc::new(MemoryDevice::new(disk));
    let device = FaultyDevice::new(device).fail_range(MIB..MIB + 512);
    let Contents::Partitions(table) = examine(&device, None).unwrap() else {
        panic!("partitions")
    };
    assert_eq!(table.select(None).unwrap().number, 2);
    let errors = table.partitions.iter().map(|one| one.error.as_deref());
    let errors: Vec<&str> = errors.map(Option::unwrap_or_default).collect();
    assert!(errors[0].contains("Input/output error"), "{errors:?}");
    assert_eq!(errors[1], "");
}

#[test]
fn superblock_is_found_although_a_later_sector_cannot_be_read() {
    let mut disk = vec![0; 4 << 20];
    put_entry(&mut disk, 0, 0x83, 2048, 2048);
    put_ext(&mut disk, MIB);
    let device = Arc::new(MemoryDevice::new(disk));
    let bad = MIB + (32 << 10);
    let device = FaultyDevice::new(device).fail_range(bad..bad + 512);
    let examined = examine(&device, None).unwrap();
    let found = examined.table().unwrap().select(None).unwrap();
    assert_eq!(found.error, None);
}

#[test]
fn start_of_each_partition_is_read_once() {
    let mut disk = vec![0; 5 << 20];
    for (number, first) in (0..).zip([2048, 4096, 6144]) {
        put_entry(&mut disk, number, 0x83, first, 2048);
    }
    put_ext(&mut disk, MIB);
    put(&mut disk, 2 * MIB + 4086, b"SWAPSPACE2");
    let device = RecordingDevice::new(Arc::new(MemoryDevice::new(disk)));
    examine(&device, None).unwrap();
    let log = device.take_log();
    let mut offsets: Vec<u64> = log.iter().map(|read| read.offset_bytes).collect();
    offsets.sort_unstable();
    assert_eq!(offsets, [0, MIB, 2 * MIB, 3 * MIB]);
}

/// A device that counts the requests in each call of `perform`.
#[derive(Debug)]
struct Batches {
    inner: MemoryDevice,
    lens: Mutex<Vec<usize>>,
}

impl BlockDevice for Batches {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> larder_block::Result<()> {
        self.inner.read_at(buf, offset_bytes)
    }

    fn perform(
        &self,
        requests: Vec<Request>,
        timeout: Option<Duration>,
    ) -> larder_block::Result<()> {
        self.lens.lock().unwrap().push(requests.len());
        self.inner.perform(requests, timeout)
    }
}

#[test]
fn starts_of_partitions_are_requested_together() {
    // Three primary partitions, and an extended one with 33 logical partitions of a sector.
    let mut disk = vec![0; 1 << 20];
    put_ext(&mut disk, 100 * 512);
    for (number, first) in (0..).zip([100, 200, 300]) {
        put_entry(&mut disk, number, 0x83, first, 100);
    }
    put_entry(&mut disk, 3, 0x05, 400, 1000);
    for number in 0..33 {
        let table = &mut disk[(400 + 2 * number) * 512..][..512];
        put_entry(table, 0, 0x83, 1, 1);
        let next = u32::try_from(2 * (number + 1)).unwrap();
        put_entry(table, 1, 0x05, next, u32::from(number < 32));
    }
    let device = Batches {
        inner: MemoryDevice::new(disk),
        lens: Mutex::default(),
    };
    let examined = examine(&device, None).unwrap();
    assert_eq!(examined.table().unwrap().partitions.len(), 36);
    assert_eq!(*device.lens.lock().unwrap(), [16, 16, 4]);
}

#[test]
fn truncated_disk_keeps_the_partitions_that_begin_inside() {
    if skip(SFDISK) {
        return;
    }
    let mut disk = disk(8, GPT);
    disk.truncate(usize::try_from(3 * MIB).unwrap());
    assert_eq!(
        rows(&table(disk)),
        [(1, 1, 1, "EFI System"), (2, 2, 1, "Linux filesystem")]
    );
}

#[test]
fn formats_are_recognized_by_their_first_bytes() {
    for (offset, bytes, format) in [
        (0, &b"\x1f\x8b\x08\0"[..], Format::Gzip),
        (0, b"\xfd7zXZ\0", Format::Xz),
        (0, b"\x28\xb5\x2f\xfd", Format::Zstd),
        (0, b"QFI\xfb\0\0\0\x01", Format::Qcow),
        (0, b"QFI\xfb\0\0\0\x03", Format::Qcow2),
        (0, b"LUKS\xba\xbe", Format::Luks),
        (512, b"LABELONE", Format::Lvm),
        (0, b"XFSB", Format::Xfs),
        ((64 << 10) + 64, b"_BHRfS_M", Format::Btrfs),
        (0, b"hsqs", Format::Squashfs),
        ((32 << 10) + 1, b"CD001", Format::Iso9660),
        ((64 << 10) - 10, b"SWAPSPACE2", Format::Swap),
    ] {
        let mut bytes_of_disk = vec![0; 1 << 20];
        put(&mut bytes_of_disk, offset, bytes);
        assert_eq!(contents(bytes_of_disk), Contents::Other(format));
        let hint = format.hint("disk.img");
        assert!(
            hint.contains("disk.img") || format == Format::Swap,
            "{hint}"
        );
    }
    let mut encrypted = vec![0; 1 << 20];
    put(&mut encrypted, 0, b"QFI\xfb\0\0\0\x03");
    encrypted[35] = 1;
    assert_eq!(contents(encrypted), Contents::Other(Format::EncryptedQcow2));
}

#[test]
fn short_empty_and_unknown_files_are_distinguished() {
    assert_eq!(contents(Vec::new()), Contents::Empty);
    assert_eq!(contents(vec![0; 10]), Contents::Empty);
    assert_eq!(contents(vec![7; 10]), Contents::Unknown);
    assert_eq!(contents(vec![7; 1 << 20]), Contents::Unknown);
    let mut ext = vec![0; 4096];
    put_ext(&mut ext, 0);
    assert_eq!(contents(ext), Contents::Ext);
}

/// A disk with a GPT, and one with an MBR.
static DISKS: std::sync::OnceLock<[Vec<u8>; 2]> = std::sync::OnceLock::new();

proptest! {
    #![proptest_config(proptest_config!(22, cases: 256))]

    /// No byte of a table leads to a panic, or to a partition outside the device.
    #[test]
    fn damaged_tables_are_read_without_panic(
        changes in prop::collection::vec((0_usize..40_000, any::<u8>()), 1..20),
        is_gpt: bool,
        len in 0_usize..4 << 20,
    ) {
        if skip(SFDISK) {
            return Ok(());
        }
        let disks = DISKS.get_or_init(|| [disk(8, GPT), disk(8, MBR)]);
        let mut bytes = disks[usize::from(!is_gpt)].clone();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        bytes.truncate(bytes.len() - len);
        let device = MemoryDevice::new(bytes);
        if let Contents::Partitions(table) = examine(&device, None).unwrap() {
            for one in &table.partitions {
                prop_assert!(one.offset_bytes + one.size_bytes <= device.size_bytes());
            }
        }
    }
}
