//! The caller's side of [`larder_readahead::Policy`]: policies receive the events that they depend
//! on, at the right time. The decisions of the policies are tested in their crate, and end to end
//! in `readahead.rs`.

use larder::{Advice, OpenFile, OpenOptions, PolicyName, Volume};
use larder_block::BlockDevice;
use larder_instruments::RecordingDevice;
use larder_testkit::image::LargeFile;
use larder_testkit::{Requirement, skip};
use std::io::IoSliceMut;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

const PAGE_BYTES: u64 = 4096;
/// The largest window in these tests.
const MAX_PAGES: u64 = 32;
/// The maximum wait for an event that always occurs unless there is a bug.
const DEADLINE: Duration = Duration::from_mins(1);

fn tools_are_missing() -> bool {
    skip(&["mke2fs", "debugfs"].map(Requirement::Tool))
}

/// A device whose reads can be blocked.
#[derive(Debug)]
struct GatedDevice {
    inner: Arc<dyn BlockDevice>,
    gate: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Gate {
    is_closed: bool,
    held_reads: usize,
}

/// Blocks all reads until it is dropped.
struct Closed<'d>(&'d GatedDevice);

impl GatedDevice {
    fn close(&self) -> Closed<'_> {
        self.gate.lock().unwrap().is_closed = true;
        Closed(self)
    }

    /// Waits until `reads` reads are blocked. Returns false if fewer are blocked at the deadline.
    fn holds(&self, reads: usize) -> bool {
        let gate = self.gate.lock().unwrap();
        let waited = self
            .changed
            .wait_timeout_while(gate, DEADLINE, |gate| gate.held_reads < reads);
        !waited.unwrap().1.timed_out()
    }

    /// Waits until the gate is open.
    fn pass(&self) {
        let mut gate = self.gate.lock().unwrap();
        gate.held_reads += 1;
        self.changed.notify_all();
        gate = self
            .changed
            .wait_while(gate, |gate| gate.is_closed)
            .unwrap();
        gate.held_reads -= 1;
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.gate.lock().unwrap().is_closed = false;
        self.0.changed.notify_all();
    }
}

impl BlockDevice for GatedDevice {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> larder_block::Result<()> {
        self.pass();
        self.inner.read_at(buf, offset_bytes)
    }

    fn read_vectored_at(
        &self,
        bufs: &mut [IoSliceMut<'_>],
        offset_bytes: u64,
    ) -> larder_block::Result<()> {
        self.pass();
        self.inner.read_vectored_at(bufs, offset_bytes)
    }
}

/// The volume of a large file, on a device whose reads can be blocked and are recorded.
struct Watched {
    gate: Arc<GatedDevice>,
    device: Arc<RecordingDevice>,
    volume: Volume,
}

impl Watched {
    fn new(policy: PolicyName) -> Self {
        let large = LargeFile::new(16).unwrap();
        let gate = Arc::new(GatedDevice {
            inner: large.device,
            gate: Mutex::default(),
            changed: Condvar::new(),
        });
        let device = Arc::new(RecordingDevice::new(gate.clone()));
        let mut options = OpenOptions::default();
        options.readahead = policy;
        options.readahead_max_bytes = MAX_PAGES * PAGE_BYTES;
        options.cache_size_bytes = 8 << 20;
        let volume = Volume::open_device(device.clone(), &options).unwrap();
        // Read the whole mapping of the file, so that all later device reads are of content.
        let _ = volume.seek_hole(volume.resolve(b"/large").unwrap(), 0);
        let _ = device.take_log();
        Self {
            gate,
            device,
            volume,
        }
    }

    fn open(&self) -> OpenFile {
        let ino = self.volume.resolve(b"/large").unwrap();
        self.volume.open_file(ino).unwrap()
    }

    fn windows(&self) -> u64 {
        self.volume.stats().readahead.windows
    }

    /// Returns the number of pages of each device read since the last call.
    fn reads(&self) -> Vec<u64> {
        let reads = self.device.take_log();
        reads
            .iter()
            .map(|read| read.len_bytes / PAGE_BYTES)
            .collect()
    }
}

/// Reads `len_bytes` from the start of page `page`.
fn read(file: &OpenFile, page: u64, len_bytes: u64) {
    let mut buf = vec![0; usize::try_from(len_bytes).unwrap()];
    assert_eq!(
        file.read_at(&mut buf, page * PAGE_BYTES).unwrap(),
        buf.len()
    );
}

fn read_pages(file: &OpenFile, pages: Range<u64>) {
    pages.for_each(|page| read(file, page, PAGE_BYTES));
}

fn bytes(pages: Range<u64>) -> Range<u64> {
    pages.start * PAGE_BYTES..pages.end * PAGE_BYTES
}

#[test]
fn marker_of_a_page_in_flight_starts_the_next_window_immediately() {
    if tools_are_missing() {
        return;
    }
    for policy in [PolicyName::OnDemand, PolicyName::Modern] {
        let watched = Watched::new(policy);
        let file = watched.open();
        thread::scope(|scope| {
            let closed = watched.gate.close();
            // This reads pages 0 to 3. Page 1 has the marker.
            scope.spawn(|| read_pages(&file, 0..1));
            let is_first_held = watched.gate.holds(1);
            scope.spawn(|| read_pages(&file, 1..2));
            let is_second_held = watched.gate.holds(2);
            drop(closed);
            assert!(is_first_held && is_second_held, "{policy}");
        });
        assert_eq!(watched.reads(), [4, 8], "{policy}");
        assert_eq!(watched.windows(), 2, "{policy}");
    }
}

#[test]
fn marker_gets_no_window_while_the_queue_is_congested() {
    if tools_are_missing() {
        return;
    }
    for policy in [PolicyName::OnDemand, PolicyName::Modern] {
        for (waiting_pages, windows) in [(200, 2), (1000, 1)] {
            let watched = Watched::new(policy);
            let file = watched.open();
            read_pages(&file, 0..1);
            let closed = watched.gate.close();
            for page in (1000..1000 + waiting_pages).step_by(200) {
                file.advise(bytes(page..page + 200), Advice::WillNeed);
            }
            // Page 1 has the marker, and is cached.
            read_pages(&file, 1..2);
            drop(closed);
            let what = format!("{policy}, {waiting_pages} pages");
            assert_eq!(watched.windows(), windows, "{what}");
        }
    }
}

#[test]
fn legacy_readahead_is_switched_off_by_cached_windows() {
    if tools_are_missing() {
        return;
    }
    for (cached_pages, is_off) in [(100, false), (600, true)] {
        let watched = Watched::new(PolicyName::Legacy);
        let first = watched.open();
        // Read without windows, so that no device read is in flight at the end.
        first.advise(0..1, Advice::Random);
        read_pages(&first, 0..1000);
        let file = watched.open();
        file.advise(bytes(cached_pages..1000), Advice::DontNeed);
        let _ = watched.reads();
        read_pages(&file, 0..cached_pages + 1);
        let reads = watched.reads();
        assert_eq!(reads == [1], is_off, "{cached_pages} pages: {reads:?}");
    }
}

#[test]
fn read_ending_inside_a_page_differs_from_read_ending_with_it() {
    if tools_are_missing() {
        return;
    }
    // If the last read ended at the end of a page, `modern` treats a read that skips one page as
    // sequential.
    for (len_bytes, pages) in [(PAGE_BYTES, 4), (PAGE_BYTES / 2, 1)] {
        let watched = Watched::new(PolicyName::Modern);
        let file = watched.open();
        read(&file, 1100, len_bytes);
        assert_eq!(watched.reads(), [1]);
        read(&file, 1102, PAGE_BYTES);
        assert_eq!(watched.reads(), [pages], "after {len_bytes} bytes");
    }
}
