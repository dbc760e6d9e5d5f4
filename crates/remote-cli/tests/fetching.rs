//! How reads become requests to the server: how many are in flight at once on a mount, and how long they are.

#[expect(dead_code, reason = "the other tests need all of it")]
mod fixture;
mod larder;

use fixture::{Fixture, larder_ok, large};
use larder::Mounted;
use std::collections::HashSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::thread;

const UNIT: usize = 64 << 10;
/// The number of concurrent readers. It is much larger than the number that can wait for a local device at once.
const READERS: usize = 40;

#[test]
fn programs_that_read_at_random_wait_for_one_round_trip_together() {
    let Some(fixture) = Fixture::to_mount() else {
        return;
    };
    let mountpoint = fixture.path("mnt");
    let url = fixture.url();
    larder_ok(["mount".as_ref(), url.as_ref(), mountpoint.as_os_str()]);
    let _mounted = Mounted(&mountpoint);
    let path = mountpoint.join("directory/large");
    let files = (0..READERS).map(|_| File::open(&path).unwrap());
    let files: Vec<File> = files.collect();
    drop(fixture.server.take_requests());
    fixture.server.hold_until(READERS);
    let expected = large();
    thread::scope(|scope| {
        for (number, file) in files.iter().enumerate() {
            let expected = &expected;
            scope.spawn(move || {
                // Each read is in another unit.
                let at = number * UNIT + UNIT / 2;
                let mut page = [0; 4096];
                file.read_exact_at(&mut page, at as u64).unwrap();
                assert_eq!(page, expected[at..at + page.len()]);
            });
        }
    });
    let requests = fixture.server.take_requests();
    let ranges: HashSet<_> = requests
        .iter()
        .map(|request| request.range().unwrap())
        .collect();
    assert_eq!((requests.len(), ranges.len()), (READERS, READERS));
    assert!(ranges.iter().all(|(first, last)| last + 1 - first == UNIT));
}

#[test]
fn file_is_copied_with_requests_of_more_than_one_mebibyte() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let (url, copy) = (fixture.url(), fixture.path("copy"));
    larder_ok([
        "cp".as_ref(),
        url.as_ref(),
        "/directory/large".as_ref(),
        copy.as_os_str(),
    ]);
    assert_eq!(fs::read(copy).unwrap(), large());
    let requests = fixture.server.take_requests();
    let lengths = requests.iter().map(|request| {
        let (first, last) = request.range().unwrap();
        last + 1 - first
    });
    let longest = lengths.max().unwrap();
    assert!(longest > 1 << 20, "{longest}");
}
