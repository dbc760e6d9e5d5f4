//! A sequential reader and the readahead that its requests set off.

use larder::{OpenOptions, Volume};
use larder_testkit::image::LargeFile;
use larder_testkit::{Requirement, skip};

const PAGE_BYTES: u64 = 4096;

/// The requests of a program and of a FUSE kernel, smaller than a window, as large, and larger.
#[test]
fn sequential_reader_of_any_request_size_finds_most_pages_read_ahead() {
    if skip(&["mke2fs", "debugfs"].map(Requirement::Tool)) {
        return;
    }
    let large = LargeFile::new(32).unwrap();
    for request_bytes in [4 << 10, 128 << 10, 1 << 20, 3 << 20] {
        let volume = Volume::open_device(large.device.clone(), &OpenOptions::default()).unwrap();
        let ino = volume.resolve(large.path.as_bytes()).unwrap();
        let mut buf = vec![0; request_bytes];
        let mut offset_bytes = 0;
        while offset_bytes < large.size_bytes {
            offset_bytes += volume.read_at(ino, &mut buf, offset_bytes).unwrap() as u64;
        }
        let ahead = volume.stats().readahead.pages_ahead;
        let pages = large.size_bytes / PAGE_BYTES;
        assert!(
            ahead > pages * 3 / 4,
            "requests of {request_bytes} bytes: {ahead} of {pages} pages read ahead"
        );
    }
}
