//! Comparison of superblocks, group descriptors and statfs with dumpe2fs and the kernel.

mod image;

use image::Image;
use larder_block::{BlockDevice, MemoryDevice};
use larder_ext4::ondisk::superblock::Superblock;
use larder_ext4::{Error, GroupNo, Ino};
use std::collections::HashMap;
use std::sync::Arc;

/// The mke2fs arguments and the size of each layout.
const LAYOUTS: &[(&str, &str)] = &[
    ("-t ext2 -r 0 -b 1024 -O none", "40M"),
    ("-t ext2 -b 4096", "300M"),
    ("-t ext2 -b 1024 -O ^sparse_super,^resize_inode", "40M"),
    ("-t ext3 -b 2048", "100M"),
    ("-t ext4", "64M"),
    ("-t ext4 -b 4096", "300M"),
    ("-t ext4 -b 65536", "100M"),
    ("-t ext4 -b 4096 -O ^64bit", "300M"),
    ("-t ext4 -b 1024 -O ^flex_bg", "64M"),
    ("-t ext4 -b 1024 -O meta_bg,^resize_inode", "300M"),
    (
        "-t ext4 -b 1024 -O meta_bg,^resize_inode,^flex_bg,^64bit",
        "400M",
    ),
    ("-t ext4 -b 4096 -O bigalloc -C 16384", "900M"),
    ("-t ext4 -b 1024 -O bigalloc -C 16384", "300M"),
    ("-t ext4 -b 1024 -O sparse_super2,^resize_inode", "100M"),
    ("-t ext4 -b 1024 -O uninit_bg,^metadata_csum", "100M"),
    ("-t ext4 -b 1024 -O uninit_bg,^metadata_csum,^64bit", "100M"),
    (
        "-t ext4 -b 4096 -O metadata_csum_seed,mmp,quota,project,ea_inode",
        "100M",
    ),
    ("-t ext4 -b 4096 -I 128 -O ^extra_isize", "100M"),
    (
        "-t ext4 -b 4096 -I 1024 -O orphan_file,inline_data,large_dir",
        "100M",
    ),
    (
        "-t ext4 -b 1024 -O ^has_journal,casefold,verity,stable_inodes,encrypt",
        "20M",
    ),
];

/// Returns the `name: value` lines of dumpe2fs.
fn fields(dump: &str) -> HashMap<&str, &str> {
    dump.lines()
        .take_while(|line| !line.starts_with("Group 0"))
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim(), value.trim()))
        .collect()
}

fn number(text: &str) -> u64 {
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    digits
        .parse()
        .unwrap_or_else(|_| panic!("no number: {text}"))
}

#[test]
fn superblock_of_each_layout_reads_as_dumpe2fs_prints_it() {
    for (arguments, size) in LAYOUTS {
        let Some(image) = Image::make(&format!("-L larder {arguments}"), size) else {
            return;
        };
        let (fs, device) = image.open();
        let sb = fs.superblock();
        let dump = image.dumpe2fs();
        let fields = fields(&dump);
        let ours = [
            ("Inode count", u64::from(sb.inodes_count)),
            ("Block count", sb.blocks_count),
            ("Reserved block count", sb.reserved_blocks_count),
            ("Free blocks", sb.free_blocks_count),
            ("Free inodes", u64::from(sb.free_inodes_count)),
            ("First block", u64::from(sb.first_data_block)),
            ("Block size", u64::from(sb.block_size_bytes())),
            ("Blocks per group", u64::from(sb.blocks_per_group)),
            ("Inodes per group", u64::from(sb.inodes_per_group)),
            ("Inode blocks per group", u64::from(sb.inode_table_blocks())),
            ("Inode size", u64::from(sb.inode_size_bytes)),
            ("Group descriptor size", u64::from(sb.descriptor_size_bytes)),
            ("Cluster size", sb.cluster_size_bytes()),
            ("Overhead clusters", u64::from(sb.overhead_clusters)),
            ("Journal inode", u64::from(sb.journal_ino.0)),
            ("MMP block number", sb.mmp_block.0),
            ("MMP update interval", u64::from(sb.mmp_interval_seconds)),
            ("Orphan file inode", u64::from(sb.orphan_file_ino.0)),
            ("User quota inode", u64::from(sb.quota_inos[0].0)),
            ("Project quota inode", u64::from(sb.quota_inos[2].0)),
        ];
        for (name, value) in ours {
            if let Some(theirs) = fields.get(name) {
                assert_eq!(value, number(theirs), "{name} of {arguments}");
            }
        }
        assert_eq!(fields["Filesystem UUID"], sb.uuid.to_string());
        assert_eq!(fields["Filesystem volume name"].as_bytes(), sb.label);
        let mut names: Vec<String> = sb.compat.names().collect();
        names.extend(sb.incompat.names());
        names.extend(sb.ro_compat.names());
        let mut theirs: Vec<&str> = fields["Filesystem features"].split(' ').collect();
        theirs.retain(|&name| name != "(none)");
        names.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(names, theirs, "{arguments}");
        assert_eq!(sb.missing_bytes(device.size_bytes()), 0);
    }
}

#[test]
fn group_descriptors_of_each_layout_are_where_dumpe2fs_finds_them() {
    for (arguments, size) in LAYOUTS {
        let Some(image) = Image::make(arguments, size) else {
            return;
        };
        let (fs, _) = image.open();
        let dump = image.dumpe2fs();
        let mut groups = 0;
        let mut seen = (0, 0);
        for line in dump.lines() {
            if let Some(rest) = line.strip_prefix("Group ")
                && let Some((number_text, blocks)) = rest.split_once(": (Blocks ")
            {
                groups = u32::try_from(number(number_text)).unwrap();
                let first = fs.superblock().group_first_block(GroupNo(groups));
                assert_eq!(first.0, number(blocks), "{arguments}: {line}");
                seen.0 += 1;
            }
            let desc = || fs.group(GroupNo(groups)).unwrap();
            let line = line.trim();
            let block_of = |rest: &str| number(rest.rsplit(" at ").next().unwrap_or(rest));
            if line.starts_with("Block bitmap at ") {
                // For older layouts, dumpe2fs prints both bitmaps on one line.
                let first = line.split(", Inode").next().unwrap();
                assert_eq!(
                    desc().block_bitmap.0,
                    number(&first["Block bitmap at ".len()..])
                );
            }
            if let Some(rest) = line.strip_prefix("Inode table at ") {
                assert_eq!(desc().inode_table.0, block_of(rest), "{arguments} {groups}");
            }
            if line.contains(" free inodes, ") {
                let counts: Vec<u64> = line.split(", ").map(number).collect();
                let unit = fs.superblock().cluster_blocks_log2;
                let free = u64::from(desc().free_clusters);
                assert!(
                    counts[0] == free || counts[0] == free << unit,
                    "{arguments}: {line}: {free}"
                );
                assert_eq!(
                    u64::from(desc().free_inodes),
                    counts[1],
                    "{arguments}: {line}"
                );
                assert_eq!(u64::from(desc().used_directories), counts[2]);
                seen.1 += 1;
            }
        }
        assert_eq!(seen.0, fs.superblock().groups_count, "{arguments}");
        assert_eq!(seen.1, fs.superblock().groups_count, "{arguments}");
        let past = fs.group(GroupNo(fs.superblock().groups_count));
        assert!(matches!(past, Err(Error::Corrupt(_))));
    }
}

#[test]
fn statfs_of_each_layout_equals_the_kernels() {
    for (arguments, size) in LAYOUTS {
        for forget_overhead in [false, true] {
            let Some(image) = Image::make(arguments, size) else {
                return;
            };
            if forget_overhead {
                let checksummed = image.dumpe2fs().contains("metadata_csum");
                if checksummed || arguments.contains("bigalloc") {
                    continue;
                }
                let mut bytes = image.bytes();
                bytes[1024 + 0x248..][..4].fill(0);
                std::fs::write(image.path(), bytes).unwrap();
            }
            let (fs, _) = image.open();
            let Some(mount) = image.mount("ro,noload") else {
                continue;
            };
            let theirs = rustix::fs::statvfs(mount.path()).unwrap();
            let ours = fs.statfs();
            let context = format!("{arguments}, overhead forgotten: {forget_overhead}");
            assert_eq!(ours.blocks, theirs.f_blocks, "blocks of {context}");
            assert_eq!(ours.free_blocks, theirs.f_bfree, "{context}");
            assert_eq!(ours.available_blocks, theirs.f_bavail, "{context}");
            assert_eq!(ours.files, theirs.f_files, "{context}");
            assert_eq!(ours.free_files, theirs.f_ffree, "{context}");
            assert_eq!(u64::from(ours.block_size_bytes), theirs.f_bsize);
            assert_eq!(ours.fsid, theirs.f_fsid, "{context}");
        }
    }
}

#[test]
fn superblock_damaged_byte_is_found_by_its_checksum() {
    let Some(image) = Image::make("-t ext4 -b 1024", "8M") else {
        return;
    };
    let bytes = image.bytes();
    let whole = &bytes[1024..2048];
    Superblock::parse(whole).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.to_vec();
        damaged[at] ^= 0x10;
        assert!(Superblock::parse(&damaged).is_err(), "byte {at}");
    }
}

#[test]
fn truncated_image_opens_and_errors_name_the_missing_block() {
    let Some(image) = Image::make("-t ext4 -b 1024 -O ^flex_bg", "64M") else {
        return;
    };
    let mut bytes = image.bytes();
    bytes.truncate(32 << 20);
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes));
    let fs = image::open(&device);
    assert_eq!(fs.superblock().missing_bytes(32 << 20), 32 << 20);
    fs.inode(Ino::ROOT).unwrap();
    let table = fs.group(GroupNo(7)).unwrap().inode_table;
    let error = fs.metadata_block(table, Ino(9), |_| Ok(())).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(&format!("block {table} of inode 9")),
        "{text}"
    );
    assert!(text.contains("are past the end of the device"), "{text}");
}

#[test]
fn journal_device_is_refused_as_external_journal() {
    let Some(image) = Image::make("-O journal_dev -b 4096", "8M") else {
        return;
    };
    let device = MemoryDevice::new(image.bytes());
    let error = Superblock::read(&device).unwrap_err().to_string();
    assert!(error.contains("external journal"), "{error}");
}
