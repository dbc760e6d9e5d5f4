//! Appends: the offsets at which they write, and appends by several threads, each with a `File` of its own, which must
//! not overwrite each other. Append-only files (chattr(1)). Writes that run out of space.

use larder::{
    Clock, Errno, Error, FileOptions, Fs, Ino, NewFile, OpenOptions, SystemClock, Timestamp,
};
use larder_testkit::{Access, LoopMount, Requirement, e2fsprogs, skip};
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use tempfile::TempDir;

/// The letter of each thread's records.
const LETTERS: [u8; 4] = *b"abcd";

fn tools_are_missing() -> bool {
    skip(&["mke2fs", "e2fsck"].map(Requirement::Tool))
}

/// Creates an image, opens it for writing, and calls `run`. Then checks the image.
fn with_image(arguments: &str, size: &str, run: impl FnOnce(&Fs)) {
    with_clock(arguments, size, Arc::new(SystemClock), run);
}

/// Works like [`with_image`], with a clock.
fn with_clock(arguments: &str, size: &str, clock: Arc<dyn Clock>, run: impl FnOnce(&Fs)) {
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("disk.img");
    e2fsprogs::make_image(&image, arguments, size).unwrap();
    let options = OpenOptions::new()
        .read_write(true)
        .cache_size_bytes(8 << 20)
        .clock(clock);
    let fs = options.open(&image).unwrap();
    run(&fs);
    fs.close().unwrap();
    drop(fs);
    e2fsprogs::check(&image).unwrap();
}

/// Calls `run` in one thread for each letter, with a `File` for appends to `/log`. Returns the results.
fn in_threads<R: Send>(fs: &Fs, run: impl Fn(u8, larder::File) -> R + Sync) -> [R; LETTERS.len()] {
    let options = FileOptions::new().append(true).create(true);
    let files = LETTERS.map(|letter| (letter, fs.open_with("/log", options).unwrap()));
    thread::scope(|scope| {
        let run = &run;
        let threads = files.map(|(letter, file)| scope.spawn(move || run(letter, file)));
        threads.map(|thread| thread.join().unwrap())
    })
}

/// Returns the length of a thread's record `number`, without the newline.
fn record_bytes(number: usize, max_bytes: usize) -> usize {
    1 + number * 104_729 % max_bytes
}

#[test]
fn threads_that_append_through_own_files_lose_no_record() {
    if tools_are_missing() {
        return;
    }
    for (arguments, records, max_bytes) in [
        ("-t ext4 -b 4096 -N 2048", 2000, 300),
        ("-t ext2 -b 1024", 2000, 300),
        // The content is in the inode at first.
        ("-t ext4 -b 4096 -N 2048 -O inline_data", 500, 20),
        // The whole pages of large writes bypass the page cache.
        ("-t ext4 -b 4096 -N 2048", 12, 600_000),
    ] {
        with_image(arguments, "64M", |fs| {
            in_threads(fs, |letter, mut file| {
                for number in 0..records {
                    let mut record = vec![letter; record_bytes(number, max_bytes)];
                    record.push(b'\n');
                    assert_eq!(file.write(&record).unwrap(), record.len());
                }
            });
            let content = fs.read("/log").unwrap();
            let mut counts = [0; LETTERS.len()];
            for record in content.split_inclusive(|&byte| byte == b'\n') {
                let thread = LETTERS.iter().position(|&letter| letter == record[0]);
                let thread = thread.expect("a record begins with a letter");
                let mut expected = vec![LETTERS[thread]; record_bytes(counts[thread], max_bytes)];
                expected.push(b'\n');
                assert!(
                    record == expected,
                    "{arguments}: record {} of thread {thread}",
                    counts[thread]
                );
                counts[thread] += 1;
            }
            assert_eq!(counts, [records; LETTERS.len()], "{arguments}");
        });
    }
}

#[test]
fn threads_that_append_to_a_full_image_lose_no_reported_byte() {
    if tools_are_missing() {
        return;
    }
    for arguments in [
        "-t ext4 -b 1024 -m 0 -O ^has_journal",
        "-t ext4 -b 1024 -m 0",
    ] {
        with_image(arguments, "8M", |fs| {
            // After the first lack of space, a commit releases the blocks of these removed files, and the appends
            // continue.
            for number in 0..8 {
                fs.write(format!("/removed-{number}"), vec![0; 200_000])
                    .unwrap();
            }
            fs.sync_all().unwrap();
            for number in 0..8 {
                fs.remove_file(format!("/removed-{number}")).unwrap();
            }
            let reported = in_threads(fs, |letter, mut file| {
                let record = vec![letter; 70_000];
                let mut reported = 0;
                loop {
                    match file.write(&record) {
                        Ok(len) => reported += len,
                        Err(error) => {
                            let inner = error.get_ref().unwrap().downcast_ref::<Error>();
                            assert_eq!(inner.unwrap().errno(), Errno::NOSPC, "{error}");
                            return reported;
                        }
                    }
                }
            });
            let content = fs.read("/log").unwrap();
            let mut found = [0; LETTERS.len()];
            for byte in &content {
                let thread = LETTERS.iter().position(|letter| letter == byte);
                found[thread.expect("the file consists of letters")] += 1;
            }
            assert_eq!(found, reported, "{arguments}");
        });
    }
}

#[test]
fn append_moves_the_position_to_its_end() {
    if tools_are_missing() {
        return;
    }
    with_image("-t ext4 -b 4096 -N 2048", "32M", |fs| {
        let options = FileOptions::new().read(true).append(true).create(true);
        let mut first = fs.open_with("/log", options).unwrap();
        let mut second = fs.open_with("/log", options).unwrap();
        first.write_all(b"one").unwrap();
        second.write_all(b"two").unwrap();
        assert_eq!(first.stream_position().unwrap(), 3);
        assert_eq!(second.stream_position().unwrap(), 6);
        first.seek(SeekFrom::Start(1)).unwrap();
        assert_eq!(first.write(b"").unwrap(), 0);
        assert_eq!(first.stream_position().unwrap(), 1);
        first.write_all(b"three").unwrap();
        assert_eq!(first.stream_position().unwrap(), 11);
        // An append at an offset ignores the offset, and does not move the position.
        assert_eq!(first.write_at(b"!", 0).unwrap(), 1);
        assert_eq!(first.stream_position().unwrap(), 11);
        let mut content = String::new();
        second.seek(SeekFrom::Start(0)).unwrap();
        second.read_to_string(&mut content).unwrap();
        assert_eq!(content, "onetwothree!");
    });
}

#[test]
fn append_by_inode_number_returns_its_offset() {
    if tools_are_missing() {
        return;
    }
    with_image("-t ext4 -b 4096 -N 2048", "32M", |fs| {
        let volume = fs.volume();
        let created = volume.create(Ino::ROOT, b"log", &NewFile::new()).unwrap();
        assert_eq!(volume.append(created.ino, b"one").unwrap(), (0, 3));
        volume.truncate(created.ino, 5000).unwrap();
        assert_eq!(volume.append(created.ino, b"").unwrap(), (5000, 0));
        assert_eq!(volume.append(created.ino, b"two").unwrap(), (5000, 3));
        let content = fs.read("/log").unwrap();
        assert_eq!(content, [&b"one"[..], &[0; 4997], b"two"].concat());
        let directory = volume.append(Ino::ROOT, b"x").unwrap_err();
        assert_eq!(directory.errno(), Errno::ISDIR);
    });
}

/// A clock that removes `/removed` of an image when a thread reads the time. A write reads the time when
/// it ends, also if it ends early for lack of space. So another file is removed after the write has
/// found too little space, and before it decides whether to try again.
#[derive(Debug, Default)]
struct RemovingClock(Mutex<Option<Fs>>);

impl Clock for RemovingClock {
    fn now(&self) -> Timestamp {
        // The removal reads the time, too.
        let image = self.0.lock().unwrap().take();
        if let Some(fs) = image {
            // The thread that reads the time holds locks, so another thread removes the file.
            let remover = thread::spawn(move || fs.remove_file("/removed").unwrap());
            remover.join().unwrap();
        }
        SystemClock.now()
    }
}

/// Writes `record` into an empty file of an image that has space for only a part of it. With `frees`, space for the
/// other part is freed when the first part has been written. This space becomes available with a commit. Returns the
/// number of bytes written.
fn write_to_full_image(arguments: &str, record: &[u8], appends: bool, frees: bool) -> usize {
    let clock = Arc::new(RemovingClock::default());
    let mut len = 0;
    with_clock(arguments, "8M", Arc::clone(&clock) as _, |fs| {
        let volume = fs.volume();
        for (name, size_bytes) in [("/small", 40_000), ("/removed", 600_000), ("/log", 0)] {
            fs.write(name, vec![1; size_bytes]).unwrap();
        }
        let filler = volume.create(Ino::ROOT, b"filler", &NewFile::new());
        let filler = filler.unwrap().ino;
        let full = loop {
            if let Err(error) = volume.append(filler, &vec![2; 1 << 16]) {
                break error;
            }
        };
        assert_eq!(full.errno(), Errno::NOSPC, "{full}");
        fs.remove_file("/small").unwrap();
        fs.sync_all().unwrap();
        let log = volume.resolve(b"/log").unwrap();
        if frees {
            *clock.0.lock().unwrap() = Some(fs.clone());
        }
        len = if appends {
            volume.append(log, record).unwrap().1
        } else {
            volume.write_at(log, record, 0).unwrap()
        };
        assert!(fs.read("/log").unwrap() == record[..len], "the content");
    });
    len
}

#[test]
fn write_that_ran_out_of_space_continues_with_space_that_a_commit_releases() {
    if tools_are_missing() {
        return;
    }
    for arguments in [
        "-t ext4 -b 1024 -m 0 -O ^has_journal",
        "-t ext4 -b 1024 -m 0",
    ] {
        // The whole pages of the larger write bypass the page cache.
        for record_bytes in [100_000, 400_000] {
            let record: Vec<u8> = (0..record_bytes)
                .map(|at: u32| at.to_le_bytes()[1])
                .collect();
            for appends in [true, false] {
                let what = format!("{record_bytes} bytes, append: {appends}, {arguments}");
                let part = write_to_full_image(arguments, &record, appends, false);
                assert!((1..record.len()).contains(&part), "{part} of {what}");
                let all = write_to_full_image(arguments, &record, appends, true);
                assert_eq!(all, record.len(), "{what}");
            }
        }
    }
}

const IMAGE: (&str, &str) = ("-t ext4 -b 4096 -N 2048", "32M");

/// The flags that limit what can be opened.
const LIMITING: IFlags = IFlags::APPEND.union(IFlags::IMMUTABLE);

fn errno(error: &io::Error) -> Errno {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let errno = inner.map(Error::errno).or(Errno::from_io_error(error));
    // The standard library itself returns an error for invalid options, without an errno.
    errno.unwrap_or_else(|| {
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        Errno::INVAL
    })
}

/// Writes at an offset, and truncates the file. Returns the errnos.
fn change<F: FileExt>(
    file: &F,
    set_len: impl FnOnce(&F, u64) -> io::Result<()>,
) -> [Option<Errno>; 2] {
    let changes = [file.write_at(b"new", 1).map(drop), set_len(file, 2)];
    changes.map(|change| change.err().map(|error| errno(&error)))
}

/// Returns whether to open for reading, writing and appending, whether to empty the file, and whether
/// to create it.
fn options(bits: u8) -> [bool; 5] {
    [0, 1, 2, 3, 4].map(|bit| bits & (1 << bit) != 0)
}

fn open_on_larder(fs: &Fs, bits: u8) -> Result<larder::File, Errno> {
    let [read, write, append, truncate, create] = options(bits);
    let options = FileOptions::new().read(read).write(write).append(append);
    let options = options.truncate(truncate).create(create);
    fs.open_with("/file", options)
        .map_err(|error| errno(&error))
}

fn open_on_kernel(path: &Path, bits: u8) -> Result<std::fs::File, Errno> {
    let [read, write, append, truncate, create] = options(bits);
    let mut options = std::fs::File::options();
    options.read(read).write(write).append(append);
    options.truncate(truncate).create(create);
    options.open(path).map_err(|error| errno(&error))
}

fn set_flag_on_larder(fs: &Fs, flag: IFlags) {
    let metadata = fs.metadata("/file").unwrap();
    let flags = (metadata.flags & !LIMITING.bits()) | flag.bits();
    fs.volume().set_flags(metadata.ino, flags).unwrap();
}

fn set_flag_on_kernel(path: &Path, flag: IFlags) {
    let file = std::fs::File::open(path).unwrap();
    let flags = ioctl_getflags(&file).unwrap().difference(LIMITING);
    ioctl_setflags(&file, flags.union(flag)).unwrap();
}

#[test]
fn immutable_and_append_only_files_are_opened_or_refused_as_by_the_kernel() {
    if tools_are_missing() || skip(&[Requirement::LoopMount]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("kernel.img");
    e2fsprogs::make_image(&image, IMAGE.0, IMAGE.1).unwrap();
    let kernel = LoopMount::new(&image, Access::ReadWrite, &[]).unwrap();
    let path = kernel.path().join("file");
    with_image(IMAGE.0, IMAGE.1, |fs| {
        for flag in [IFlags::empty(), IFlags::APPEND, IFlags::IMMUTABLE] {
            // The file is opened once after the flag is set, and once before.
            for (bits, is_late) in (0..32).flat_map(|bits| [(bits, true), (bits, false)]) {
                let what = format!("{flag:?}, {:?}, late: {is_late}", options(bits));
                fs.write("/file", "content").unwrap();
                std::fs::write(&path, "content").unwrap();
                let open = || (open_on_larder(fs, bits), open_on_kernel(&path, bits));
                let early = (!is_late).then(open);
                set_flag_on_larder(fs, flag);
                set_flag_on_kernel(&path, flag);
                let (on_larder, on_kernel) = early.unwrap_or_else(open);
                let on_larder = on_larder.map(|file| change(&file, larder::File::set_len));
                let on_kernel = on_kernel.map(|file| change(&file, std::fs::File::set_len));
                assert_eq!(on_larder, on_kernel, "{what}");
                set_flag_on_larder(fs, IFlags::empty());
                set_flag_on_kernel(&path, IFlags::empty());
                let content = fs.read("/file").unwrap();
                assert_eq!(content, std::fs::read(&path).unwrap(), "{what}");
            }
        }
    });
}
