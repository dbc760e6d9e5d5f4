//! Seeds that are made by hand or copied from test data.

use super::{Result, seed};
use larder_cache::hash::HashKey;
use larder_cache::tables::Tables;
use larder_cache::tape::{CacheKind, Event, Operation};
use larder_fuzz::{EVENT_FORMAT, PAGE_HEADER, gpt_with_checksums};
use larder_testkit::qemu::convert;
use larder_trace::{TraceEvent, TraceInfo, TraceWriter};
use std::fs;

/// The files of the import tests, in the order of the formats.
const IMPORTS: [(u8, &str); 6] = [
    (0, "blkparse.txt"),
    (1, "fio-2.txt"),
    (1, "fio-3.txt"),
    (2, "strace.txt"),
    (3, "msr.txt"),
    (5, "keys.txt"),
];

/// Values of `-o tables=`.
const TABLES: [&str; 5] = [
    "larder",
    "D",
    "reference+page=rbtree+shrink=eager",
    "A+page=mult/16+dentry=mult-11+sizes=2.2.16",
    "larder+buffer=steiner/today+inode=modified/8",
];

pub fn make() -> Result<()> {
    for (number, text) in TABLES.into_iter().enumerate() {
        let _: Tables = text.parse()?;
        seed("tables", &number.to_string(), text.as_bytes())?;
    }
    for (format, name) in IMPORTS {
        let file = format!(
            "{}/../crates/lab/tests/imports/{name}",
            env!("CARGO_MANIFEST_DIR")
        );
        let input = [&[format, 9], fs::read(file)?.as_slice()].concat();
        seed("import", name, &input)?;
    }
    let record = [1_u8; 24].repeat(4);
    seed("import", "oracle-general", &[&[4, 3], &record[..]].concat())?;
    for (name, head) in [
        ("get", "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("head", "HEAD /metrics?x HTTP/1.0\r\n\r\n"),
        ("post", "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n"),
    ] {
        seed("metrics_request", name, head.as_bytes())?;
    }
    // Without changes, with other bytes in the header, in the map and in a unit, and cut short.
    for (name, input) in [
        ("whole", &[0, 0][..]),
        ("header", &[4, 0, 1, 2, 3, 4]),
        ("label", &[0, 0, 64, 0, 0, 0x1b]),
        ("map", &[0, 0, 3, 16, 0, 1]),
        ("unit", &[0, 0, 0, 32, 0, 0]),
        ("record", &[0, 0, 80, 2, 0, 9]),
        ("cut", &[0, 0, 1]),
    ] {
        seed("disk_cache", name, input)?;
    }
    make_credentials()?;
    make_replies()?;
    make_profile()?;
    make_disks()?;
    make_disk_images()?;
    make_page()?;
    make_trace()?;
    make_changes()
}

/// Creates a disk of 72 KiB for each kind of partition table. The first partition begins at sector 64, and has the
/// magic number of an ext file system.
fn make_disks() -> Result<()> {
    let mut mbr = vec![0; 72 << 10];
    mbr[64 * 512 + 1080..][..2].copy_from_slice(&[0x53, 0xEF]);
    mbr[510..512].copy_from_slice(&[0x55, 0xAA]);
    let mut gpt = mbr.clone();
    // The type, the first sector and the number of sectors of two entries: a partition and an extended one.
    for (at, kind, first, sectors) in [(446, 0x83, 64_u8, 16_u8), (462, 0x05, 80, 32)] {
        mbr[at + 4] = kind;
        mbr[at + 8] = first;
        mbr[at + 12] = sectors;
    }
    // A logical partition in the extended one.
    mbr[80 * 512 + 510..][..2].copy_from_slice(&[0x55, 0xAA]);
    for (at, value) in [(450, 0x83), (454, 1), (458, 8)] {
        mbr[80 * 512 + at] = value;
    }
    seed("partitions", "mbr", &mbr)?;
    gpt[450] = 0xEE;
    gpt[454] = 1;
    gpt[458] = 143;
    // The sector of the array, the number of entries and their size.
    for (at, value) in [(584, 2), (592, 4), (596, 128)] {
        gpt[at] = value;
    }
    // The type, the first and the last sector of an entry.
    for (at, value) in [(1024, 1), (1024 + 32, 64), (1024 + 40, 79)] {
        gpt[at] = value;
    }
    seed("partitions", "gpt", &gpt_with_checksums(&gpt))
}

/// Creates small images in each format of disks. Those of qcow2 and VMDK are made by qemu-img.
fn make_disk_images() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (raw, image) = (dir.path().join("raw"), dir.path().join("image"));
    let mut content = vec![0; 20 << 10];
    content[5000..9000].fill(7);
    for (byte, value) in content[10_000..10_500].iter_mut().zip(0_u8..=255) {
        *byte = value;
    }
    fs::write(&raw, &content)?;
    for (target, name, arguments) in [
        ("qcow2", "small", "-o cluster_size=512"),
        ("qcow2", "extended", "-o extended_l2=on,cluster_size=16k"),
        ("qcow2", "deflate", "-c -o cluster_size=4k"),
        ("qcow2", "zstd", "-c -o cluster_size=4k,compression_type=zstd"),
        ("vmdk", "sparse", "-o subformat=monolithicSparse"),
        ("vmdk", "stream", "-o subformat=streamOptimized"),
    ] {
        convert(&raw, &image, target, arguments)?;
        seed(target, name, &fs::read(&image)?)?;
    }
    // Two frames: a block that is stored as it is, and a block of equal bytes. Their entries follow: the sizes of each.
    let frames = [
        &[0x28, 0xB5, 0x2F, 0xFD, 0x20, 4, 0x21, 0, 0][..],
        b"disk",
        &[0x28, 0xB5, 0x2F, 0xFD, 0x20, 9, 0x4B, 0, 0, 7],
        &[13, 0, 0, 0, 4, 0, 0, 0],
        &[10, 0, 0, 0, 9, 0, 0, 0],
    ]
    .concat();
    seed("seekable_zstd", "frames", &[&[2], frames.as_slice()].concat())
}

/// Creates files and output with credentials, and URLs.
fn make_credentials() -> Result<()> {
    let keys = "aws_access_key_id = A\naws_secret_access_key = s\naws_session_token = T\n";
    let login = "sso_session = s\nsso_account_id = 1\nsso_role_name = r\n";
    let session = "[sso-session s]\nsso_region = eu-west-1\nsso_start_url = https://host\n";
    for (name, text) in [
        ("keys", format!("[default]\n{keys}")),
        ("config", format!("\0[profile own]\n{keys}")),
        ("login", format!("\0[profile own]\n{login}{session}")),
        (
            "program",
            "\0[default]\ncredential_process = \"/bin/own tool\" 'a b' c\\ d # e\n".to_owned(),
        ),
        (
            "role",
            "\0[default]\nrole_arn = arn:x\nweb_identity_token_file = /t\n".to_owned(),
        ),
    ] {
        seed("credential_files", name, text.as_bytes())?;
    }
    for (name, text) in [
        (
            "program",
            r#"{"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "s", "SessionToken": "T",
                "Expiration": "2100-01-01T00:00:00Z"}"#,
        ),
        (
            "token",
            r#"{"accessToken": "t", "expiresAt": "2100-01-01T00:00:00UTC"}"#,
        ),
        (
            "reply",
            r#"{"roleCredentials": {"accessKeyId": "A", "secretAccessKey": "s", "sessionToken": "T",
                "expiration": 4102444800000}}"#,
        ),
    ] {
        seed("credential_output", name, text.as_bytes())?;
    }
    for (name, text) in [
        (
            "web",
            "https://user:pa%2Fss@host:81/a/disk.img?token=x#part\n",
        ),
        ("bucket", "s3://bucket/images/disk.img"),
        ("address", "http://[::1]:80/disk.img"),
        ("port", "https://host:99999/x?secret"),
    ] {
        seed("image_url", name, text.as_bytes())?;
    }
    Ok(())
}

/// Creates replies to a request for the bytes 100 to 299.
fn make_replies() -> Result<()> {
    let range = "content-range: bytes 100-299/1000\ncontent-length: 200\n";
    let modified = "last-modified: Tue, 24 Nov 2026 12:00:00 GMT\n";
    let overflow = range.replace("299", &u64::MAX.to_string());
    for (name, head) in [
        ("part", format!("206\n{range}{modified}etag: \"one\"\n")),
        ("weak", format!("206\n{range}{modified}etag: W/\"one\"\n")),
        ("encoded", format!("206\n{range}content-encoding: gzip\n")),
        ("whole", format!("200\ncontent-length: 200\n{modified}")),
        ("overflow", format!("206\n{overflow}")),
        ("redirect", "302\nlocation: http://host/\n".to_owned()),
        ("unavailable", "503\n".to_owned()),
    ] {
        let reply = [head.as_bytes(), b"\n", &[b'b'; 200]].concat();
        seed("server_reply", name, &reply)?;
    }
    Ok(())
}

/// Creates a profile and a pack of an object of two units. The fuzz targets correct their checksums.
fn make_profile() -> Result<()> {
    for bound in ["etag \"one\"", "modified 1795790000"] {
        let name = bound.split(' ').next().unwrap_or_default();
        let profile = format!(
            "larder profile 1\nimage https://host/x\nsize 65540\n{bound}\nread 65536 4\nread 0 9\nend\n"
        );
        seed("profile", name, profile.as_bytes())?;
    }
    let mut pack = b"larderpk".to_vec();
    for field in [1_u32, 65_536, 65_540, 0, 2, 5] {
        pack.extend(field.to_le_bytes());
    }
    pack.extend([0; 16]);
    pack.extend(b"\"one\"");
    for unit in [1_u64, 0] {
        pack.extend(unit.to_le_bytes());
        pack.extend([0; 16]);
    }
    seed("pack", "head", &pack)?;
    pack.extend(b"unit");
    seed("pack", "unit", &pack)
}

/// Creates a page of the ring buffer with an event of each length, and the same page preceded by
/// descriptions of the layout.
fn make_page() -> Result<()> {
    /// The words of an event: its kind, and five numbers.
    const EVENT: [u32; 11] = [7, 0, 8 << 20, 0, 12, 0, 3, 0, 4, 0, 1];
    let words = [
        &[5 << 5 | 11],
        &EVENT[..],
        &[2 << 5 | 30, 1, 7 << 5, 48],
        &EVENT,
        &[1 << 5 | 29, 8, 0, 29],
    ]
    .concat();
    let mut page = 1000_u64.to_le_bytes().to_vec();
    page.extend((words.len() as u64 * 4).to_le_bytes());
    page.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    seed("ring_page", "page", &[&[0], page.as_slice()].concat())?;
    for (own, text) in [(1, PAGE_HEADER), (2, EVENT_FORMAT)] {
        let input = [&[own], text.trim_end().as_bytes(), b"\n\n", &page].concat();
        seed("ring_page", &format!("text-{own}"), &input)?;
    }
    Ok(())
}

/// Creates traces of two row groups: complete, without an end, and without the checksums of row
/// groups.
fn make_trace() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("trace");
    let mut writer = TraceWriter::create(&path, &TraceInfo::default())?;
    for index in 0..40 {
        let operations = [Operation::Lookup { hit: false }, Operation::Insert];
        for operation in operations {
            let key = HashKey { object: 12, index };
            let event = Event {
                cache: CacheKind::Page,
                operation,
                key,
            };
            writer.push(&TraceEvent::new(index * 1000, 0, event))?;
        }
        if index == 20 {
            writer.write_row_group()?;
        }
    }
    writer.finish()?;
    let whole = fs::read(&path)?;
    seed("trace", "whole", &whole)?;
    seed("trace", "cut", &whole[..whole.len() - 8])?;
    // Under another key, the checksums are ignored.
    let mut unsummed = whole;
    let (name, other) = (b"larder.trace.crc32c", b"larder.trace.crc32x");
    for at in 0..unsummed.len() {
        if unsummed[at..].starts_with(name) {
            unsummed[at..at + name.len()].copy_from_slice(other);
        }
    }
    seed("trace", "unsummed", &unsummed)
}

/// Creates for each image a complete and a damaged variant, with some changes of each kind.
fn make_changes() -> Result<()> {
    let changes: Vec<u8> = (0..16)
        .flat_map(|kind| [kind, kind / 3, 8 + kind % 4, kind % 3, kind, 0, 100, kind])
        .collect();
    for which in 0..3 {
        for (patches, patch) in [(0, &[][..]), (1, &[0, 0xFF, 3, 0, 0, 0, 0, 0])] {
            let input = [&[which, patches], patch, &changes].concat();
            seed("volume_writes", &format!("{which}-{patches}"), &input)?;
        }
    }
    Ok(())
}
