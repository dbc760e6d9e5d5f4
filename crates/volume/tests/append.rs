//! Appends: where they write, and that several threads do not overwrite each other's data, each with a
//! `File` of its own.

use larder::{Errno, Error, FileOptions, Fs, Ino, NewFile, OpenOptions};
use larder_testkit::{Requirement, e2fsprogs, skip};
use std::io::{Read, Seek, SeekFrom, Write};
use std::thread;
use tempfile::TempDir;

/// The letter of each thread's records.
const LETTERS: [u8; 4] = *b"abcd";

fn tools_are_missing() -> bool {
    skip(&["mke2fs", "e2fsck"].map(Requirement::Tool))
}

/// Creates an image, opens it for writing, and calls `run`. Then checks the image.
fn with_image(arguments: &str, size: &str, run: impl FnOnce(&Fs)) {
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("disk.img");
    e2fsprogs::make_image(&image, arguments, size).unwrap();
    let options = OpenOptions::new()
        .read_write(true)
        .cache_size_bytes(8 << 20);
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
            // A commit releases the blocks of removed files, so that the first lack of space is not the last.
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
