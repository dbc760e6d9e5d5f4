//! Traces whose writer was killed, and truncated files.

use super::{events, info, read, read_rest, write};
use larder_lab::trace::{Error, Tolerance, TraceReader};
use larder_testkit::Seed;
use larder_trace::{TraceEvent, TraceWriter};
use std::fs;
use std::io::Write as _;
use std::path::Path;

const ROWS: usize = 50;

#[test]
fn trace_of_a_killed_writer_is_read_up_to_the_last_row_group() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let events = events(Seed::from_environment(2), 3 * ROWS + 20);
    let mut writer = TraceWriter::create(&path, &info()).unwrap();
    for group in events.chunks(ROWS) {
        for event in group {
            writer.push(event).unwrap();
        }
        if group.len() == ROWS {
            writer.write_row_group().unwrap();
        }
    }
    // As with SIGKILL, no more data reaches the file.
    drop(writer);

    let whole = read(&path, Tolerance::Whole);
    assert!(matches!(whole, Err(Error::CutShort)), "{whole:?}");
    let mut reader = TraceReader::open(&path, Tolerance::UpToLastRowGroup).unwrap();
    assert_eq!(reader.row_groups(), 3);
    assert!(reader.info().is_cut_short);
    assert!(reader.shortened().unwrap().contains("footer is missing"));
    assert!(read_rest(&mut reader).unwrap() == events[..3 * ROWS]);
}

/// Writes a file of two row groups without its footer, followed by `count` ends of checkpoints, which
/// declare footers of `footer_bytes`.
fn with_ends(path: &Path, events: &[TraceEvent], count: usize, footer_bytes: u32) {
    let mut writer = TraceWriter::create(path, &info()).unwrap();
    for group in events.chunks(ROWS) {
        for event in group {
            writer.push(event).unwrap();
        }
        writer.write_row_group().unwrap();
    }
    drop(writer);
    let start = 4_u64.to_le_bytes();
    let end = [
        &start[..],
        &footer_bytes.to_le_bytes(),
        &[0; 4],
        b"larderRG",
    ]
    .concat();
    let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(&end.repeat(count)).unwrap();
}

#[test]
fn invalid_checkpoints_are_skipped_up_to_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    let events = events(Seed::from_environment(4), 2 * ROWS);
    let few = dir.path().join("few");
    with_ends(&few, &events, 1000, 1000);
    assert!(read(&few, Tolerance::UpToLastRowGroup).unwrap() == events);
    // The declared footers have a total of 2 TB.
    let many = dir.path().join("many");
    with_ends(&many, &events, 500_000, 4_000_000);
    let read = read(&many, Tolerance::UpToLastRowGroup);
    let Err(Error::Damaged(what)) = read else {
        panic!("{read:?}");
    };
    assert!(what.contains("last 1024 checkpoints"), "{what}");
}

#[test]
fn file_cut_at_any_byte_gives_whole_row_groups_or_an_error() {
    let seed = Seed::from_environment(3);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let events = events(seed, 2 * ROWS);
    write(&path, &events, ROWS);
    let bytes = fs::read(&path).unwrap();
    let cut = dir.path().join("cut");
    let mut most = 0;
    for length in 0..bytes.len() {
        fs::write(&cut, &bytes[..length]).unwrap();
        let whole = read(&cut, Tolerance::Whole);
        assert!(whole.is_err(), "{seed}: cut at {length} and whole");
        match read(&cut, Tolerance::UpToLastRowGroup) {
            Ok(read) => {
                assert_eq!(read.len() % ROWS, 0, "{seed}: cut at {length}");
                assert!(
                    read == events[..read.len()],
                    "{seed}: cut at {length}: other rows"
                );
                assert!(
                    read.len() >= most,
                    "{seed}: cut at {length}: row groups are lost"
                );
                most = read.len();
            }
            Err(Error::NothingWhole | Error::NotParquet) => {
                assert_eq!(most, 0, "{seed}: cut at {length}");
            }
            Err(error) => panic!("{seed}: cut at {length}: {error}"),
        }
    }
    assert_eq!(
        most,
        events.len(),
        "{seed}: the last row group is never read"
    );
}
