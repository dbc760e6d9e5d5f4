//! Records the kernel's caches end to end: on a separate file system, with a file whose pages are
//! known.

use larder_cache::tape::{CacheKind, Operation};
use larder_lab::trace::kernel::{
    Error, KernelConfig, KernelRecorder, KernelSummary, PathCounts, PathSearch, Processes,
};
use larder_testkit::e2fsprogs::make_image_of;
use larder_testkit::{Access, LoopMount, Requirement, report_skipped, skip};
use larder_trace::{Row, TraceEvent};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

const PAGES: usize = 64;
const PAGE_BYTES: usize = 4096;

/// A file system with a file of [`PAGES`] pages, none of which is cached.
struct Target {
    mount: LoopMount,
    file: PathBuf,
    ino: u64,
    _folder: TempDir,
}

/// Returns the file system, unless this machine cannot record it.
fn target() -> Option<Target> {
    if skip(&[Requirement::LoopMount, Requirement::Tool("mke2fs")]) {
        return None;
    }
    let probe = KernelRecorder::start(&config(None, Processes::Spawned));
    if let Err(error @ (Error::NoTracefs(_) | Error::NoTracepoint(_) | Error::NotRoot)) = probe {
        report_skipped(error);
        return None;
    }
    let folder = TempDir::new().unwrap();
    let content = folder.path().join("content");
    fs::create_dir(&content).unwrap();
    fs::write(content.join("file"), "x".repeat(PAGES * PAGE_BYTES)).unwrap();
    let image = folder.path().join("image");
    make_image_of(&content, &image, "-t ext4 -b 4096", "32M").unwrap();
    let mount = LoopMount::new(&image, Access::ReadOnly, &[]).unwrap();
    let file = mount.path().join("file");
    let ino = fs::metadata(&file).unwrap().ino();
    Some(Target {
        mount,
        file,
        ino,
        _folder: folder,
    })
}

fn config(mount: Option<&Path>, processes: Processes) -> KernelConfig {
    KernelConfig {
        mount: mount.map(Path::to_owned),
        processes,
        buffer_bytes: 4 << 20,
        with_paths: false,
    }
}

/// Records while `action` runs in one round.
fn record(recorder: KernelRecorder, action: impl FnMut()) -> (Vec<TraceEvent>, KernelSummary) {
    let (rows, summary, _) = record_rows(recorder, action);
    let events = rows.into_iter().filter_map(|row| match row {
        Row::Cache(event) => Some(event),
        _ => None,
    });
    (events.collect(), summary)
}

/// Records while `action` runs in one round. Returns all rows.
fn record_rows(
    recorder: KernelRecorder,
    mut action: impl FnMut(),
) -> (Vec<Row>, KernelSummary, Option<PathSearch>) {
    let mut events = Vec::new();
    let mut stop = |_| {
        action();
        true
    };
    let mut sink = |row: Row| {
        events.push(row);
        Ok(())
    };
    let (summary, search) = recorder.run(&mut stop, &mut sink).unwrap();
    (events, summary, search)
}

/// Returns the pages of the file with events of `operation`.
fn pages(target: &Target, events: &[TraceEvent], operation: Operation) -> BTreeSet<u64> {
    let of_file = events.iter().filter(|event| {
        event.cache == CacheKind::Page && event.inode == target.ino && event.operation == operation
    });
    of_file.map(|event| event.index).collect()
}

fn cat(path: &Path) -> Command {
    let mut cat = Command::new("cat");
    cat.arg(path).stdout(Stdio::null());
    cat
}

#[test]
fn reading_a_file_records_an_insertion_and_a_hit_of_each_page() {
    let Some(target) = target() else { return };
    let config = config(Some(&target.mount.path()), Processes::All);
    let recorder = KernelRecorder::start(&config).unwrap();
    let (events, summary) = record(recorder, || {
        assert!(cat(&target.file).status().unwrap().success());
    });
    assert_eq!(summary.lost, 0);
    let all: BTreeSet<u64> = (0..PAGES as u64).collect();
    assert_eq!(pages(&target, &events, Operation::Insert), all);
    assert_eq!(
        pages(&target, &events, Operation::Lookup { hit: true }),
        all
    );
    assert!(
        summary.counts.read_bytes >= (PAGES * PAGE_BYTES) as u64,
        "{summary:?}"
    );
    // All events are of the same file system.
    let device = events[0].device;
    assert!(
        events.iter().all(|event| event.device == device),
        "{events:?}"
    );
    assert!(events.is_sorted_by_key(|event| event.time_ns));
}

/// The oracle is the command: dd prints nothing, and reads exactly these ranges.
#[test]
fn reads_of_a_command_are_recorded_with_their_ranges_and_path() {
    let Some(target) = target() else { return };
    let config = KernelConfig {
        with_paths: true,
        ..config(Some(&target.mount.path()), Processes::Spawned)
    };
    let recorder = KernelRecorder::start(&config).unwrap();
    let mut dd = Command::new("dd");
    let arguments = ["of=/dev/null", "bs=64K", "count=3", "skip=1", "status=none"];
    dd.arg(format!("if={}", target.file.display()))
        .args(arguments);
    let mut child = recorder.spawn(&mut dd).unwrap();
    let thread = child.id();
    let (rows, _, search) = record_rows(recorder, || assert!(child.wait().unwrap().success()));
    let reads = rows.iter().filter_map(|row| match row {
        Row::Read(read) if read.inode == target.ino => Some(*read),
        _ => None,
    });
    let reads: Vec<_> = reads.collect();
    let ranges: Vec<_> = reads
        .iter()
        .map(|read| (read.offset_bytes, read.len_bytes, read.thread))
        .collect();
    let expected = [1, 2, 3].map(|block| (block << 16, 1 << 16, thread));
    assert_eq!(ranges, expected);
    assert!(reads[0].duration_ns > 0, "the first page was not cached");
    let mut paths = Vec::new();
    let counts = search.unwrap().run::<()>(&mut || false, &mut |path| {
        paths.push(path);
        Ok(())
    });
    let PathCounts { files, found } = counts.unwrap();
    assert!(found >= 1 && found <= files);
    let path = paths.iter().find(|path| path.inode == target.ino).unwrap();
    assert_eq!(*path.path, *target.file.to_string_lossy());
    assert_eq!(path.file_bytes, (PAGES * PAGE_BYTES) as u64);
}

#[test]
fn only_the_command_and_its_children_are_recorded() {
    let Some(target) = target() else { return };
    let recorder = KernelRecorder::start(&config(None, Processes::Spawned)).unwrap();
    let mut shell = Command::new("sh");
    // The shell only forks a separate process for dd if another command follows.
    shell.args([
        "-c",
        "dd if=\"$0\" of=/dev/null bs=4096 count=1 2>/dev/null; exit 7",
    ]);
    let mut child = recorder.spawn(shell.arg(&target.file)).unwrap();
    let (events, _) = record(recorder, || {
        assert_eq!(child.wait().unwrap().code(), Some(7));
        // This process is not recorded.
        fs::read(target.mount.path().join("file")).unwrap();
    });
    let found = pages(&target, &events, Operation::Lookup { hit: true });
    assert_eq!(found, BTreeSet::from([0]));
}

#[test]
fn removal_by_another_process_is_recorded() {
    let Some(target) = target() else { return };
    let mut reader = Command::new("sh")
        .args(["-c", "read line; cat \"$0\" >/dev/null; read line"])
        .arg(&target.file)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let trees = Processes::Trees(vec![reader.id()]);
    let config = config(Some(&target.mount.path()), trees);
    let recorder = KernelRecorder::start(&config).unwrap();
    let mut input = reader.stdin.take().unwrap();
    let (events, summary) = record(recorder, || {
        use std::io::Write as _;
        input.write_all(b"go\n").unwrap();
        // The shell reads this line after cat has exited. Then the pipe is empty again.
        input.write_all(b"end\n").unwrap();
        assert!(reader.wait().unwrap().success());
        let file = fs::File::open(&target.file).unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    });
    assert_eq!(summary.lost, 0);
    let inserted = pages(&target, &events, Operation::Insert);
    assert_eq!(inserted.len(), PAGES);
    assert_eq!(pages(&target, &events, Operation::Remove), inserted);
}

#[test]
fn events_that_overflow_the_buffer_are_counted_as_lost() {
    let Some(target) = target() else { return };
    let config = KernelConfig {
        buffer_bytes: 4096,
        ..config(Some(&target.mount.path()), Processes::All)
    };
    let recorder = KernelRecorder::start(&config).unwrap();
    let (events, summary) = record(recorder, || {
        for _ in 0..40 {
            assert!(cat(&target.file).status().unwrap().success());
            let file = fs::File::open(&target.file).unwrap();
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        }
    });
    assert!(summary.lost > 0, "{summary:?}");
    assert!(!events.is_empty());
}

#[test]
fn failed_command_is_named_in_the_error() {
    let Some(_target) = target() else { return };
    let recorder = KernelRecorder::start(&config(None, Processes::Spawned)).unwrap();
    let error = recorder.spawn(&mut Command::new("/nonexistent"));
    let message = error.unwrap_err().to_string();
    assert!(message.contains("/nonexistent"), "{message}");
}
