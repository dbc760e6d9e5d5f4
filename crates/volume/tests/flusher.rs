//! Write-back in the background and on demand: it ends, and it reports errors. A panic in the
//! flusher stops all writing. If it did not, a mount would accept writes that are never committed.

use larder::{ErrorsMode, Fallocate, Ino, NewFile, OpenOptions, Volume};
use larder_block::{BlockDevice, Error, MemoryDevice, Result};
use larder_testkit::crash::{LAYOUTS, Layout};
use larder_testkit::{Requirement, skip};
use rustix::io::Errno;
use std::fmt::{Debug, Formatter};
use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

const PAGE: usize = 4096;

const NEW: NewFile = NewFile {
    permissions: 0o644,
    umask: 0,
    uid: 0,
    gid: 0,
};

/// The maximum number of pages in one batch of write-back.
const BATCH_PAGES: u64 = 1024;

/// The maximum number of appends. The image has space for this number of appends of one batch each.
const MAX_APPENDS: u64 = 8;

/// A longer wait is a hang.
const HANG: Duration = Duration::from_mins(2);

type Hook = dyn Fn(Call) -> Result<()> + Send + Sync;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// A write of this many bytes.
    Write(usize),
    Flush,
}

/// A device in memory that calls a hook before each write and flush.
#[derive(Default)]
struct HookedDevice {
    inner: OnceLock<MemoryDevice>,
    hook: OnceLock<Box<Hook>>,
}

impl Debug for HookedDevice {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HookedDevice").finish_non_exhaustive()
    }
}

impl HookedDevice {
    fn new(bytes: Vec<u8>) -> Arc<Self> {
        let device = Self::default();
        device.inner.set(MemoryDevice::new(bytes)).unwrap();
        Arc::new(device)
    }

    fn inner(&self) -> &MemoryDevice {
        self.inner.get().unwrap()
    }

    fn before_each(&self, hook: impl Fn(Call) -> Result<()> + Send + Sync + 'static) {
        assert!(
            self.hook.set(Box::new(hook)).is_ok(),
            "a device has one hook"
        );
    }

    fn call(&self, call: Call) -> Result<()> {
        self.hook.get().map_or(Ok(()), |hook| hook(call))
    }
}

impl BlockDevice for HookedDevice {
    fn size_bytes(&self) -> u64 {
        self.inner().size_bytes()
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        self.inner().read_at(buf, offset_bytes)
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> Result<()> {
        self.call(Call::Write(buf.len()))?;
        self.inner().write_at(buf, offset_bytes)
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset_bytes: u64) -> Result<()> {
        self.call(Call::Write(bufs.iter().map(|buf| buf.len()).sum()))?;
        self.inner().write_vectored_at(bufs, offset_bytes)
    }

    fn flush(&self) -> Result<()> {
        self.call(Call::Flush)?;
        self.inner().flush()
    }
}

fn open(background: bool) -> (Arc<HookedDevice>, Arc<Volume>) {
    open_layout(&LAYOUTS[0], 4, background)
}

fn open_layout(
    layout: &Layout,
    cache_mib: u64,
    background: bool,
) -> (Arc<HookedDevice>, Arc<Volume>) {
    let device = HookedDevice::new(layout.base().unwrap().to_vec());
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.background = background;
    options.cache_size_bytes = cache_mib << 20;
    options.readahead_max_bytes = 0;
    options.commit_seconds = 3600;
    let volume = Volume::open_device(Arc::clone(&device) as _, &options).unwrap();
    (device, Arc::new(volume))
}

/// Appends `pages` pages to `ino`, one by one, because large writes bypass the page cache.
fn append(volume: &Volume, ino: Ino, pages: u64) {
    let end = volume.metadata(ino).unwrap().size_bytes;
    for page in 0..pages {
        let at = end + page * PAGE as u64;
        volume.write_at(ino, &[1; PAGE], at).unwrap();
    }
}

fn make(volume: &Volume, name: &str) -> Ino {
    volume.create(Ino::ROOT, name.as_bytes(), &NEW).unwrap().ino
}

fn is_skipped() -> bool {
    skip(&["mke2fs"].map(Requirement::Tool))
}

/// Writes pages to `ino` until `enough` returns true.
fn write_until(volume: &Volume, ino: Ino, enough: impl Fn(larder::Result<usize>) -> bool) {
    let since = Instant::now();
    let mut page = 0;
    while !enough(volume.write_at(ino, &[1; PAGE], page % 400 * PAGE as u64)) {
        page += 1;
        assert!(since.elapsed() < HANG, "writes still succeed");
        std::thread::yield_now();
    }
}

#[test]
fn sync_of_a_growing_file_writes_what_was_dirty_at_its_start() {
    if is_skipped() {
        return;
    }
    let mut layout = LAYOUTS[0];
    (layout.name, layout.size_mib) = ("ext4-64-mib", 64);
    let (device, volume) = open_layout(&layout, 64, false);
    let ino = make(&volume, "grows");
    append(&volume, ino, BATCH_PAGES + 1);
    let appends = Arc::new(AtomicU64::new(0));
    let (count, writer) = (Arc::clone(&appends), Arc::downgrade(&volume));
    // Append as fast as the device writes: one batch during the write of each batch.
    device.before_each(move |call| {
        if call == Call::Write(PAGE * 1024)
            && count.load(SeqCst) < MAX_APPENDS
            && let Some(volume) = writer.upgrade()
        {
            count.fetch_add(1, SeqCst);
            append(&volume, ino, BATCH_PAGES);
        }
        Ok(())
    });
    volume.sync().unwrap();
    let during = appends.swap(MAX_APPENDS, SeqCst);
    assert_eq!(during, 1, "appends during one sync");
    let size_bytes = volume.metadata(ino).unwrap().size_bytes;
    assert_eq!(size_bytes, (BATCH_PAGES * 2 + 1) * PAGE as u64);
    // The size on the image must not extend past the content on the image.
    let crashed = HookedDevice::new(device.inner().to_bytes());
    let crashed = Volume::open_device(crashed, &OpenOptions::default()).unwrap();
    let size_bytes = crashed.metadata(ino).unwrap().size_bytes;
    assert_eq!(size_bytes, (BATCH_PAGES + 1) * PAGE as u64);
    volume.close().unwrap();
}

#[test]
fn flusher_panic_stops_writing_and_fails_sync_and_close() {
    if is_skipped() {
        return;
    }
    let (device, volume) = open(true);
    let kept = make(&volume, "kept");
    volume.write_at(kept, &[7; PAGE], 0).unwrap();
    volume.sync().unwrap();
    let ino = make(&volume, "f");
    let panics = AtomicU64::new(0);
    device.before_each(move |_| {
        let is_flusher = std::thread::current().name() == Some("larder-flusher");
        assert!(
            !is_flusher || panics.fetch_add(1, SeqCst) > 0,
            "an injected panic in the background"
        );
        Ok(())
    });
    write_until(&volume, ino, |written| {
        written.is_err_and(|error| error.errno() == Errno::ROFS)
    });
    let error = volume.sync_file(ino, false).unwrap_err();
    assert!([Errno::IO, Errno::ROFS].contains(&error.errno()), "{error}");
    assert!(error.to_string().contains("panicked"), "{error}");
    let error = volume.close().unwrap_err();
    assert!(error.to_string().contains("panicked"), "{error}");
    drop(volume);
    // Content that was durable before the failure is still durable.
    let again = HookedDevice::new(device.inner().to_bytes());
    let volume = Volume::open_device(again, &OpenOptions::default()).unwrap();
    let kept = volume.resolve(b"kept").unwrap();
    let mut page = [0; PAGE];
    assert_eq!(volume.read_at(kept, &mut page, 0).unwrap(), PAGE);
    assert_eq!(page, [7; PAGE]);
}

#[test]
fn write_after_a_write_back_panic_does_not_hang() {
    if is_skipped() {
        return;
    }
    let (device, volume) = open(false);
    let ino = make(&volume, "f");
    volume.write_at(ino, &[1; PAGE], 0).unwrap();
    let calls = AtomicU64::new(0);
    device.before_each(move |_| {
        assert!(calls.fetch_add(1, SeqCst) > 0, "an injected panic");
        Ok(())
    });
    let (done, is_done) = channel();
    std::thread::spawn(move || {
        let sync = std::panic::AssertUnwindSafe(|| volume.sync_file(ino, false));
        assert!(std::panic::catch_unwind(sync).is_err());
        volume.write_at(ino, &[2; PAGE], 0).unwrap();
        volume.sync().unwrap();
        volume.close().unwrap();
        done.send(()).unwrap();
    });
    is_done.recv_timeout(HANG).unwrap();
}

#[test]
fn collapse_and_insert_fail_if_the_commit_fails() {
    if is_skipped() {
        return;
    }
    for mode in [Fallocate::Collapse, Fallocate::Insert] {
        let (device, volume) = open(false);
        let ino = make(&volume, "f");
        volume.write_at(ino, &[1; 4 * PAGE], 0).unwrap();
        volume.sync().unwrap();
        device.before_each(|call| match call {
            Call::Write(_) => Ok(()),
            Call::Flush => Err(Error::Flush(std::io::Error::from_raw_os_error(5))),
        });
        let page = PAGE as u64;
        let error = volume.fallocate(ino, mode, page, page).unwrap_err();
        assert_eq!(error.errno(), Errno::IO, "{mode:?}: {error}");
        assert!(volume.close().is_err(), "{mode:?}");
    }
}

/// Returns the offsets of the leaves of extent trees, including their copies in the journal.
fn leaf_offsets_bytes(bytes: &[u8]) -> Vec<usize> {
    let is_leaf = |at: &usize| bytes[*at..].starts_with(&[0x0a, 0xf3]) && bytes[at + 6] == 0;
    (0..bytes.len()).step_by(PAGE).filter(is_leaf).collect()
}

#[test]
fn damage_found_by_background_write_back_follows_the_errors_mode() {
    if is_skipped() {
        return;
    }
    for (errors, continues) in [
        (ErrorsMode::Continue, true),
        (ErrorsMode::RemountReadOnly, false),
    ] {
        let device = HookedDevice::new(LAYOUTS[0].base().unwrap().to_vec());
        let mut options = OpenOptions::default();
        options.read_write = true;
        options.background = false;
        options.errors = Some(errors);
        options.cache_size_bytes = 1 << 20;
        options.readahead_max_bytes = 0;
        let volume = Volume::open_device(Arc::clone(&device) as _, &options).unwrap();
        let (file, large) = (make(&volume, "f"), make(&volume, "large"));
        for page in 0..20 {
            let at = page * 2 * PAGE as u64;
            volume.write_at(file, &[1; PAGE], at).unwrap();
        }
        volume.write_at(large, &vec![2; 4 << 20], 0).unwrap();
        volume.close().unwrap();
        drop(volume);
        let leaves = leaf_offsets_bytes(&device.inner().to_bytes());

        let volume = Volume::open_device(Arc::clone(&device) as _, &options).unwrap();
        let other = make(&volume, "other");
        volume.write_at(file, &[3; PAGE], 0).unwrap();
        for leaf in &leaves {
            device.inner().write_at(&[0; 2], *leaf as u64).unwrap();
        }
        // Read so much content that the leaf is evicted from the cache.
        let mut buf = vec![0; 1 << 20];
        for part in 0..8 {
            volume.read_at(large, &mut buf, (part % 4) << 20).unwrap();
        }
        // These writes exceed the limit of dirty blocks. Without a flusher, the writer then writes
        // back all files.
        for page in 0..100 {
            let written = volume.write_at(other, &[4; PAGE], page * PAGE as u64);
            assert!(written.is_ok() || !continues, "{written:?}");
        }
        match volume.create(Ino::ROOT, b"new", &NEW) {
            Ok(_) => assert!(continues, "{errors:?} continues"),
            Err(error) => assert!(!continues && error.errno() == Errno::ROFS, "{error}"),
        }
        let expected = if continues { Errno::UCLEAN } else { Errno::IO };
        let error = volume.sync_file(file, false).unwrap_err();
        assert!(
            [expected, Errno::UCLEAN].contains(&error.errno()),
            "{error}"
        );
        assert!(volume.close().is_err());
    }
}
