//! Tests of the buffer cache: what it reads from the device, and what it verifies.

use larder_block::{BlockDevice, DeadlineDevice, Error, MemoryDevice, Priority, Result};
use larder_cache::buffer::BufferCache;
use larder_instruments::LazyDevice;
use std::io::IoSliceMut;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// A device on which all bytes of a sector of 512 bytes have a value that depends on the sector's
/// number. Reads are counted, and one range is bad.
#[derive(Debug)]
struct Device {
    bytes: MemoryDevice,
    reads: AtomicU64,
    bad: std::ops::Range<u64>,
}

impl Device {
    fn new(len_bytes: usize, bad: std::ops::Range<u64>) -> Arc<Self> {
        let bytes = (0..len_bytes)
            .map(|at| (at / 512 % 251).try_into().unwrap())
            .collect();
        Arc::new(Self {
            bytes: MemoryDevice::new(bytes),
            reads: AtomicU64::new(0),
            bad,
        })
    }

    fn reads(&self) -> u64 {
        self.reads.load(Relaxed)
    }

    fn check(&self, len_bytes: u64, offset_bytes: u64) -> Result<()> {
        self.reads.fetch_add(1, Relaxed);
        if offset_bytes < self.bad.end && self.bad.start < offset_bytes + len_bytes {
            return Err(Error::Io {
                offset_bytes,
                len_bytes,
                source: std::io::ErrorKind::Other.into(),
            });
        }
        Ok(())
    }
}

impl BlockDevice for Device {
    fn size_bytes(&self) -> u64 {
        self.bytes.size_bytes()
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        self.check(buf.len() as u64, offset_bytes)?;
        self.bytes.read_at(buf, offset_bytes)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        let len_bytes = bufs.iter().map(|buf| buf.len() as u64).sum();
        self.check(len_bytes, offset_bytes)?;
        self.bytes.read_vectored_at(bufs, offset_bytes)
    }
}

#[expect(clippy::unnecessary_wraps, reason = "a verification that never fails")]
fn unverified(_: &[u8]) -> Result<()> {
    Ok(())
}

/// Returns the first byte of `block` of `size` bytes.
fn first_byte(block: u64, size: u64) -> u8 {
    (block * size / 512 % 251).try_into().unwrap()
}

#[test]
fn blocks_of_one_frame_are_read_together() {
    for size in [1024, 2048, 4096] {
        let device = Device::new(16384, 0..0);
        let buffers = BufferCache::small(device.clone(), size);
        for block in 0..(16384 / size as u64) {
            let buffer = buffers.read(block, unverified).unwrap();
            assert_eq!(buffer.len(), size);
            assert_eq!(buffer[0], first_byte(block, size as u64));
        }
        assert_eq!(device.reads(), 4, "frames of 4096 bytes");
    }
}

#[test]
fn verified_block_is_not_verified_again() {
    let buffers = BufferCache::small(Device::new(8192, 0..0), 1024);
    let calls = AtomicU64::new(0);
    let verify = |good: bool| {
        let calls = &calls;
        move |_: &[u8]| {
            calls.fetch_add(1, Relaxed);
            if good {
                Ok(())
            } else {
                Err(Error::Locked {
                    path: "x".into(),
                    is_own: false,
                })
            }
        }
    };
    assert!(buffers.read(1, verify(false)).is_err());
    assert!(buffers.read(1, verify(false)).is_err(), "fails again");
    assert!(buffers.read(1, verify(true)).is_ok());
    assert!(buffers.read(1, verify(false)).is_ok(), "verified before");
    assert_eq!(calls.load(Relaxed), 3);
    assert!(
        buffers.read(2, verify(false)).is_err(),
        "the neighbour is not verified"
    );
}

#[test]
fn evicted_block_is_verified_again() {
    let buffers = BufferCache::small(Device::new(4 << 20, 0..0), 4096);
    let calls = AtomicU64::new(0);
    let verify = |_: &[u8]| -> Result<()> {
        calls.fetch_add(1, Relaxed);
        Ok(())
    };
    buffers.read(0, verify).unwrap();
    for block in 1..1024 {
        buffers.read(block, unverified).unwrap();
    }
    buffers.read(0, verify).unwrap();
    assert_eq!(calls.load(Relaxed), 2);
}

#[test]
fn partial_last_block_of_device_is_read_and_the_next_fails() {
    // The device has five and a half blocks: its end is inside the last frame.
    let device = Device::new(5 * 1024 + 512, 0..0);
    let buffers = BufferCache::small(device, 1024);
    assert_eq!(buffers.read(4, unverified).unwrap()[0], 8);
    for block in [5, 6, 7, 8, u64::MAX / 1024, u64::MAX] {
        let error = buffers.read(block, unverified).unwrap_err();
        assert!(matches!(error, Error::OutOfRange { .. }), "{error}");
    }
}

#[test]
fn bad_sector_spares_its_neighbours() {
    let device = Device::new(8192, 1024..1536);
    let buffers = BufferCache::small(device, 1024);
    for block in [0, 2, 3, 4] {
        assert_eq!(
            buffers.read(block, unverified).unwrap()[0],
            first_byte(block, 1024)
        );
    }
    assert!(matches!(
        buffers.read(1, unverified),
        Err(Error::Io {
            offset_bytes: 1024,
            ..
        })
    ));
}

#[test]
fn prefetch_reads_neighbours_at_once() {
    let device = Device::new(1 << 20, 0..0);
    let buffers = BufferCache::small(device.clone(), 4096);
    buffers.prefetch(3, 8);
    assert_eq!(device.reads(), 1);
    for block in 3..11 {
        assert_eq!(
            buffers.read(block, unverified).unwrap()[0],
            first_byte(block, 4096)
        );
    }
    assert_eq!(device.reads(), 1);
    buffers.prefetch(1, 12);
    assert_eq!(
        device.reads(),
        3,
        "a cached block splits the range into two reads"
    );
}

#[test]
fn prefetch_of_any_range_succeeds() {
    let device = Device::new(10_000, 4096..8192);
    let buffers = BufferCache::small(device, 1024);
    for (block, count) in [
        (0, 0),
        (0, 100),
        (9, u32::MAX),
        (u64::MAX, 1),
        (u64::MAX, 9),
    ] {
        buffers.prefetch(block, count);
    }
    assert_eq!(buffers.read(8, unverified).unwrap()[0], 16);
    assert!(buffers.read(4, unverified).is_err());
}

#[test]
fn started_prefetch_reads_each_run_at_once() {
    let device = Device::new(1 << 20, 0..0);
    let buffers = BufferCache::small(device.clone(), 4096);
    buffers.read(5, unverified).unwrap();
    let mut budget = buffers.prefetch_budget();
    buffers.start_prefetch(&[3..7, 20..22], Priority::Background, &mut budget);
    assert_eq!(budget, 3, "the cache has 64 frames");
    assert_eq!(
        device.reads(),
        4,
        "a cached block splits a range into two reads"
    );
    for block in [3, 4, 6, 20, 21] {
        let buffer = buffers.read(block, unverified).unwrap();
        assert_eq!(buffer[0], first_byte(block, 4096));
    }
    assert_eq!(device.reads(), 4);
}

#[test]
fn started_prefetch_is_expedited_when_a_thread_needs_a_block() {
    let piece_bytes = 4096.try_into().unwrap();
    let device = Arc::new(LazyDevice::new(Device::new(20_000, 0..0), piece_bytes));
    // A read that is not expedited fails.
    let timeout = Duration::from_secs(5);
    let limited = Arc::new(DeadlineDevice::new(device.clone(), timeout));
    let buffers = BufferCache::small(limited, 1024);
    let mut budget = 64;
    buffers.start_prefetch(&[0..1, 8..9, 16..19], Priority::Background, &mut budget);
    assert_eq!(device.waiting(), 3);
    for (block, waiting) in [(9, 2), (18, 1)] {
        let buffer = buffers.read(block, unverified).unwrap();
        assert_eq!(buffer[0], first_byte(block, 1024));
        assert_eq!(device.waiting(), waiting);
    }
    device.perform_waiting();
}

#[test]
fn started_prefetch_keeps_within_its_budget() {
    let device = Device::new(1 << 20, 0..0);
    let buffers = BufferCache::small(device.clone(), 4096);
    let mut budget = 8;
    buffers.start_prefetch(&[0..6, 100..200], Priority::Background, &mut budget);
    assert_eq!((device.reads(), budget), (2, 0));
    assert!((100..102).all(|block| buffers.contains(block)));
    assert!(!buffers.contains(102));
    buffers.start_prefetch(&[300..301, 310..311], Priority::Background, &mut budget);
    assert_eq!(device.reads(), 2);
}

#[test]
fn started_prefetch_stops_if_no_frame_is_free() {
    let device = Device::new(1 << 20, 0..0);
    let buffers = BufferCache::small(device.clone(), 4096);
    let held: Vec<_> = (0..64)
        .map(|block| buffers.read(block, unverified).unwrap())
        .collect();
    let (reads, mut budget) = (device.reads(), 100);
    buffers.start_prefetch(&[100..150, 200..250], Priority::Background, &mut budget);
    assert_eq!((device.reads(), budget), (reads, 0));
    drop(held);
}

#[test]
fn started_prefetch_of_any_range_succeeds() {
    let device = Device::new(10_000, 4096..8192);
    let buffers = BufferCache::small(device, 1024);
    let ranges = [0..0, 0..9, 9..u64::MAX, u64::MAX - 1..u64::MAX];
    buffers.start_prefetch(&ranges, Priority::Demand, &mut 100);
    assert_eq!(buffers.read(8, unverified).unwrap()[0], 16);
    assert!(buffers.read(4, unverified).is_err());
}

#[test]
fn block_read_by_many_threads_is_read_once() {
    let device = Device::new(1 << 16, 0..0);
    let buffers = BufferCache::small(device.clone(), 1024);
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                barrier.wait();
                for block in 0..64 {
                    let buffer = buffers.read(block, unverified).unwrap();
                    assert_eq!(buffer[1023], first_byte(block, 1024) + 1);
                }
            });
        }
    });
    assert_eq!(device.reads(), 16);
}

#[test]
fn buffers_held_beyond_capacity_bypass_the_cache() {
    let buffers = BufferCache::small(Device::new(1 << 20, 0..0), 4096);
    let held: Vec<_> = (0..256)
        .map(|block| buffers.read(block, unverified).unwrap())
        .collect();
    for (block, buffer) in (0..).zip(&held) {
        assert_eq!(buffer[0], first_byte(block, 4096));
    }
}

/// Reads so many other blocks that `block` is evicted.
fn evict(cache: &BufferCache, block: u64) {
    let mut others = (1000..3000).cycle().take(10_000);
    assert!(others.any(|other| {
        drop(cache.read(other, unverified).unwrap());
        !cache.contains(block)
    }));
}

#[test]
fn block_in_memory_is_read_without_the_device() {
    let device = Device::new(4 << 20, 0..0);
    let cache = BufferCache::small(device.clone(), 1024);
    assert!(cache.read_in_memory(5, unverified).unwrap().is_none());
    assert_eq!(device.reads(), 0);
    drop(cache.read(5, unverified).unwrap());
    let found = cache.read_in_memory(5, unverified).unwrap().unwrap();
    assert_eq!(found[0], first_byte(5, 1024));
    drop(found);
    let _ = cache.set_dirty(7, vec![9; 1024].into());
    let found = cache.read_in_memory(7, unverified).unwrap().unwrap();
    assert_eq!(found[0], 9);
    assert_eq!(device.reads(), 1);
}

#[test]
fn held_block_stays_in_memory_until_its_last_release() {
    let device = Device::new(4 << 20, 0..0);
    let cache = BufferCache::small(device.clone(), 1024);
    cache.hold(5).unwrap();
    cache.hold(5).unwrap();
    for releases in 0..3 {
        evict(&cache, 5);
        let before = device.reads();
        let found = cache.read_in_memory(5, unverified).unwrap();
        assert_eq!(device.reads(), before);
        let first = found.map(|found| found[0]);
        let held = (releases < 2).then(|| first_byte(5, 1024));
        assert_eq!(first, held, "after {releases} releases");
        cache.release(5);
    }
}

#[test]
fn held_block_has_the_contents_that_were_written_last() {
    let device = Device::new(4 << 20, 0..0);
    let cache = BufferCache::small(device, 1024);
    cache.hold(5).unwrap();
    for byte in [7, 8] {
        let contents: Arc<[u8]> = vec![byte; 1024].into();
        let _ = cache.set_dirty(5, Arc::clone(&contents));
        // A hold of a dirty block does not store the contents. They are stored when the block is
        // cleaned.
        cache.hold(5).unwrap();
        assert!(cache.clean(5, &contents));
        let found = cache.read_in_memory(5, unverified).unwrap().unwrap();
        assert_eq!(found[0], byte);
    }
}

#[test]
fn block_that_cannot_be_read_is_not_held() {
    let device = Device::new(4 << 20, 5 * 1024..6 * 1024);
    let cache = BufferCache::small(device, 1024);
    assert!(matches!(cache.hold(5), Err(Error::Io { .. })));
    assert!(cache.read_in_memory(5, unverified).unwrap().is_none());
    // A block past the end of the device is an error, too.
    assert!(cache.hold(4 << 10).is_err());
}
