//! Imports a small file of each format, and files in unknown formats.
//!
//! Next to each `NAME.txt` is `NAME.events`, which was derived manually: the events, one on each line, and
//! then the skipped lines.

use larder_cache::dentry::name_hash;
use larder_cache::tape::{CacheKind, Operation};
use larder_lab::trace::Error;
use larder_lab::trace::import::{DetectedFormat, Foreign, Format, Skipped, import};
use larder_testkit::Seed;
use larder_testkit::seed::Random;
use larder_trace::TraceEvent;
use std::fmt::Write as _;

/// The files, and their formats.
const FIXTURES: [(Format, &str, &str); 7] = [
    (
        Format::Blkparse,
        include_str!("blkparse.txt"),
        include_str!("blkparse.events"),
    ),
    (
        Format::Fio,
        include_str!("fio-2.txt"),
        include_str!("fio-2.events"),
    ),
    (
        Format::Fio,
        include_str!("fio-3.txt"),
        include_str!("fio-3.events"),
    ),
    (
        Format::Msr,
        include_str!("msr.txt"),
        include_str!("msr.events"),
    ),
    (
        Format::Arc,
        include_str!("arc.txt"),
        include_str!("arc.events"),
    ),
    (
        Format::Keys,
        include_str!("keys.txt"),
        include_str!("keys.events"),
    ),
    (
        Format::Strace,
        include_str!("strace.txt"),
        include_str!("strace.events"),
    ),
];

fn events(format: Format, cache: Option<CacheKind>, bytes: &[u8]) -> (Vec<TraceEvent>, Skipped) {
    let mut events = Vec::new();
    let skipped = import(format, cache, bytes, &mut |event| {
        events.push(event);
        Ok(())
    });
    (events, skipped.unwrap())
}

/// Formats an event as in the files of expected events: fields that are 0 are omitted.
fn line(event: &TraceEvent) -> String {
    let cache = format!("{:?}", event.cache).to_lowercase();
    let mut line = format!("{} {cache} lookup", event.time_ns);
    let numbers = [
        ("device", event.device.into()),
        ("inode", event.inode),
        ("index", event.index),
        ("name_hash", event.name_hash),
    ];
    let has_index = matches!(event.cache, CacheKind::Page | CacheKind::Buffer);
    let has_device = event.cache == CacheKind::Buffer;
    for (name, number) in numbers {
        if number != 0 || name == "index" && has_index || name == "device" && has_device {
            write!(line, " {name}={number}").unwrap();
        }
    }
    line
}

#[test]
fn each_format_gives_the_expected_events() {
    for (format, text, expected) in FIXTURES {
        let (events, skipped) = events(format, None, text.as_bytes());
        let mut lines: Vec<String> = events.iter().map(line).collect();
        for (reason, lines_skipped) in skipped.reasons() {
            let (count, first) = (lines_skipped.count, lines_skipped.first_number);
            lines.push(format!("skipped {count}: {reason}, first {first}"));
        }
        // The files contain names, since their hashes would not be readable.
        let expected: Vec<String> = expected.lines().map(hashed).collect();
        assert_eq!(lines, expected, "{format}");
        let is_lookup = |event: &TraceEvent| event.operation == Operation::Lookup { hit: false };
        assert!(events.iter().all(is_lookup));
    }
}

/// Replaces `name=…` with the hash of the name.
fn hashed(line: &str) -> String {
    match line.split_once("name=") {
        Some((before, name)) => format!("{before}name_hash={}", name_hash(name.as_bytes())),
        None => line.to_owned(),
    }
}

#[test]
fn given_cache_applies_to_all_keys() {
    let text = b"5\n6 7\nname\n";
    let (of_buffers, _) = events(Format::Keys, Some(CacheKind::Buffer), text);
    let keys: Vec<_> = of_buffers
        .iter()
        .map(|event| (event.device, event.index))
        .collect();
    assert_eq!(keys, [(0, 5), (6, 7), (0, name_hash(b"name").into())]);
}

#[test]
fn oracle_general_gives_objects_and_seconds() {
    let record = |seconds: u32, object: u64| {
        let mut bytes = seconds.to_le_bytes().to_vec();
        bytes.extend(object.to_le_bytes());
        bytes.extend(512_u32.to_le_bytes());
        bytes.extend((-1_i64).to_le_bytes());
        bytes
    };
    let mut bytes = [record(100, 5), record(102, u64::MAX)].concat();
    bytes.extend([1, 2, 3]);
    let (events, skipped) = events(Format::OracleGeneral, None, &bytes);
    let read: Vec<_> = events
        .iter()
        .map(|event| (event.time_ns, event.inode))
        .collect();
    assert_eq!(read, [(0, 5), (2_000_000_000, u64::MAX)]);
    let reasons: Vec<_> = skipped
        .reasons()
        .map(|(reason, lines)| (reason, lines.first_number))
        .collect();
    assert_eq!(reasons, [("an incomplete record", 3)]);
}

/// Returns the error for `bytes`, which have no lookup in `format`.
fn foreign(format: Format, bytes: &[u8]) -> Foreign {
    let result = import(format, None, bytes, &mut |event| panic!("{event:?}"));
    match result {
        Err(Error::Foreign(foreign)) => foreign,
        other => panic!("{format}: {other:?}"),
    }
}

#[test]
fn file_of_another_format_is_rejected_with_the_detected_format() {
    let accepts_any_text = |format| format == Format::Keys;
    for said in Format::ALL
        .into_iter()
        .filter(|said| !accepts_any_text(*said))
    {
        for (format, text, _) in FIXTURES {
            if format == said {
                continue;
            }
            let foreign = foreign(said, text.as_bytes());
            // Any text could be keys.
            let detected = (format != Format::Keys).then_some(DetectedFormat::Format(format));
            assert_eq!(foreign.detected, detected, "{format}, said to be {said}");
        }
    }
    let records = [0_u32, 1].map(|second| {
        let mut record = [0; 24];
        record[..4].copy_from_slice(&second.to_le_bytes());
        record[16..].copy_from_slice(&(-1_i64).to_le_bytes());
        record
    });
    let detected = Some(DetectedFormat::Format(Format::OracleGeneral));
    for said in [Format::Keys, Format::Msr] {
        assert_eq!(
            foreign(said, records.as_flattened()).detected,
            detected,
            "{said}"
        );
    }
    for said in Format::ALL {
        let compressed = foreign(said, b"\xfd7zXZ\0rest");
        assert_eq!(
            compressed.detected,
            Some(DetectedFormat::Compressed("xz")),
            "{said}"
        );
        assert_eq!(foreign(said, b"").detected, None, "{said}");
    }
}

#[test]
fn rejection_shows_the_first_foreign_line_and_an_example() {
    let text = b"8,16 1 1 0.000001500 697 G RM 223488 + 8 [ls]\nnonsense\n";
    let message = foreign(Format::Blkparse, text).to_string();
    assert!(message.contains("line 2, `nonsense`"), "{message}");
    assert!(message.contains("697 Q RM 223490 + 8"), "{message}");
    let message = foreign(Format::Blkparse, &text[..46]).to_string();
    assert!(message.contains("an action other than Q"), "{message}");
}

#[test]
fn damaged_files_cause_no_panic_and_no_excess_events() {
    let seed = Seed::from_environment(0xda);
    for (number, (format, text, _)) in FIXTURES.into_iter().enumerate() {
        let mut random = Random::new(seed.part(number as u64));
        for _ in 0..2000 {
            let bytes = damaged(text.as_bytes(), &mut random);
            let mut count = 0_u64;
            let result = import(format, None, &*bytes, &mut |_| {
                count += 1;
                Ok(())
            });
            let lines = bytes.split(|&byte| byte == b'\n').count() as u64;
            // No line can request more than 2 GiB, or traverse more names than it has letters.
            let most = lines * ((1 << 19) + 1) + 2 * bytes.len() as u64;
            assert!(count <= most, "{format}, seed {seed}");
            let is_read = matches!(result, Ok(_) | Err(Error::Foreign(_)));
            assert!(is_read, "{result:?}: {format}, seed {seed}");
        }
    }
}

/// Returns `bytes` with some of them changed, removed or duplicated, and possibly truncated.
fn damaged(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            break;
        }
        let from = usize::try_from(random.below(bytes.len() as u64)).unwrap();
        let to = (from + usize::from(random.byte() % 40)).min(bytes.len());
        match random.below(5) {
            0 => bytes[from] = random.byte(),
            1 => drop(bytes.drain(from..to)),
            2 => {
                let part = bytes[from..to].to_vec();
                bytes.splice(from..from, part);
            }
            3 => bytes[from] = *random.choose(b"0123456789<>()[]{}\"\\,\n ").unwrap(),
            _ => bytes.truncate(from),
        }
    }
    bytes
}
