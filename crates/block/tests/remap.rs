//! Tests of what a remapped device reads, and in which pieces.

use std::io::IoSliceMut;
use std::num::NonZeroU32;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use larder_block::{
    BlockDevice, Error, MemoryDevice, Priority, Redirect, RemapDevice, Request, Result,
};
use larder_instruments::{LazyDevice, RecordingDevice};

const BLOCK: NonZeroU32 = NonZeroU32::new(16).unwrap();

fn redirect(home: u64, source: u64) -> Redirect {
    Redirect {
        home,
        source,
        first_bytes: None,
    }
}

/// A device of `blocks` blocks, in which every byte of block n is n.
fn numbered(blocks: u8) -> Vec<u8> {
    (0..blocks).flat_map(|block| [block; 16]).collect()
}

fn device(redirects: Vec<Redirect>) -> (Arc<RecordingDevice>, RemapDevice) {
    let inner = Arc::new(RecordingDevice::new(Arc::new(MemoryDevice::new(numbered(
        32,
    )))));
    let remap = RemapDevice::new(inner.clone(), BLOCK, redirects).unwrap();
    (inner, remap)
}

#[test]
fn every_range_read_matches_replayed_copy() {
    let redirects = vec![
        redirect(3, 20),
        redirect(4, 21),
        redirect(5, 25),
        Redirect {
            home: 6,
            source: 26,
            first_bytes: Some(*b"jbd2"),
        },
        redirect(20, 31),
        redirect(0, 30),
    ];
    let mut replayed = numbered(32);
    for redirect in &redirects {
        let home = usize::try_from(redirect.home).unwrap() * 16;
        replayed[home..home + 16].fill(u8::try_from(redirect.source).unwrap());
        if let Some(bytes) = redirect.first_bytes {
            replayed[home..home + 4].copy_from_slice(&bytes);
        }
    }
    let (_, device) = device(redirects);
    for start in 0..replayed.len() {
        for len in [0, 1, 3, 15, 16, 17, 40, 200, 512] {
            let Some(expected) = replayed.get(start..start + len) else {
                continue;
            };
            let mut buf = vec![0xff; len];
            device.read_at(&mut buf, start as u64).unwrap();
            assert_eq!(buf, expected, "{len} bytes at {start}");
            let (left, right) = buf.split_at_mut(len / 3);
            left.fill(0xee);
            device
                .read_vectored_at(
                    &mut [IoSliceMut::new(left), IoSliceMut::new(right)],
                    start as u64,
                )
                .unwrap();
            assert_eq!(buf, expected, "{len} bytes at {start}, vectored");
        }
    }
}

#[test]
fn read_without_redirect_is_one_inner_read() {
    let (inner, device) = device(vec![redirect(1, 9), redirect(30, 9)]);
    device.read_at(&mut [0; 320], 48).unwrap();
    let (mut a, mut b) = ([0; 16], [0; 32]);
    device
        .read_vectored_at(&mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)], 32)
        .unwrap();
    let log = inner.take_log();
    assert_eq!(log.len(), 2);
    assert_eq!((log[0].offset_bytes, log[0].len_bytes), (48, 320));
    assert_eq!((log[1].len_bytes, log[1].buffers), (48, 2));
}

/// An overlay of which only the first blocks were never changed.
#[derive(Debug)]
struct PartlyChanged {
    unchanged_end: u64,
}

impl BlockDevice for PartlyChanged {
    fn size_bytes(&self) -> u64 {
        32 * 16
    }

    fn read_at(&self, _: &mut [u8], _: u64) -> Result<()> {
        Ok(())
    }

    fn unchanged_bytes(&self, offset_bytes: u64, len_bytes: u64) -> u64 {
        let left_bytes = self.unchanged_end.saturating_sub(offset_bytes);
        left_bytes.min(len_bytes)
    }
}

#[test]
fn redirected_blocks_count_as_changed() {
    let overlay = Arc::new(PartlyChanged {
        unchanged_end: 20 * 16,
    });
    let redirects = vec![redirect(3, 25), redirect(4, 26), redirect(10, 27)];
    let device = RemapDevice::new(overlay, BLOCK, redirects).unwrap();
    for (offset_bytes, len_bytes, expected) in [
        (0, 16, 16),
        (0, 512, 3 * 16),
        (3 * 16 - 1, 512, 1),
        (3 * 16, 512, 0),
        (4 * 16 + 15, 1, 0),
        (5 * 16, 512, 5 * 16),
        (5 * 16, 20, 20),
        (11 * 16 + 4, 512, 9 * 16 - 4),
        (20 * 16, 16, 0),
    ] {
        let found = device.unchanged_bytes(offset_bytes, len_bytes);
        assert_eq!(found, expected, "{len_bytes} bytes at {offset_bytes}");
    }
}

#[test]
fn adjoining_sources_are_read_at_once() {
    let (inner, device) = device(vec![redirect(4, 20), redirect(5, 21), redirect(6, 22)]);
    device.read_at(&mut [0; 128], 32).unwrap();
    let reads: Vec<_> = inner
        .take_log()
        .iter()
        .map(|read| (read.offset_bytes, read.len_bytes))
        .collect();
    assert_eq!(reads, [(32, 32), (320, 48), (112, 48)]);
}

#[test]
fn requests_for_redirected_and_other_blocks_are_expedited() {
    let piece_bytes = 16.try_into().unwrap();
    let inner = Arc::new(MemoryDevice::new(numbered(32)));
    let inner = Arc::new(LazyDevice::new(inner, piece_bytes));
    let device = RemapDevice::new(inner.clone(), BLOCK, vec![redirect(4, 20)]).unwrap();
    let read = |offset_bytes| {
        let request = Request::read(vec![0; 16], offset_bytes, |_, result| result.unwrap());
        request.with_priority(Priority::Background)
    };
    // The first read is of the source block, like a read of the redirected block.
    inner.submit(vec![read(320), read(48), read(80), read(64)]);
    device.expedite(48, 32);
    assert_eq!(inner.waiting(), 2);
    device.expedite(80, 16);
    inner.perform_waiting();
}

/// A device that does not answer while its lock is held.
#[derive(Debug)]
struct SilentDevice {
    memory: MemoryDevice,
    silence: Mutex<()>,
}

impl BlockDevice for SilentDevice {
    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        let _answers = self.silence.lock().unwrap();
        self.memory.read_at(buf, offset_bytes)
    }
}

#[test]
fn request_for_a_redirected_block_does_not_wait_for_a_silent_device() {
    let inner = Arc::new(SilentDevice {
        memory: MemoryDevice::new(numbered(32)),
        silence: Mutex::new(()),
    });
    let device = RemapDevice::new(inner.clone(), BLOCK, vec![redirect(4, 20)]).unwrap();
    let (sender, receiver) = channel();
    let read = |number| {
        let done = sender.clone();
        Request::read(vec![0; 16], 64, move |bytes, result| {
            done.send((number, bytes, result)).unwrap();
        })
    };
    let silence = inner.silence.lock().unwrap();
    device.submit(vec![read(1)]);
    let performed = device.perform(vec![read(2)], Some(Duration::from_millis(1)));
    assert!(
        matches!(performed, Err(Error::Deadline(_))),
        "{performed:?}"
    );
    drop(silence);
    for (number, bytes, result) in receiver.iter().take(2) {
        match result {
            Ok(()) => assert_eq!(bytes, [20; 16]),
            // The read was not started within the timeout.
            Err(Error::Cancelled) if number == 2 => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn last_redirect_of_a_block_applies() {
    let (_, device) = device(vec![redirect(4, 20), redirect(4, 21)]);
    let mut buf = [0; 1];
    device.read_at(&mut buf, 64).unwrap();
    assert_eq!(buf, [21]);
}

#[test]
fn source_past_end_is_refused() {
    let inner = Arc::new(MemoryDevice::new(numbered(4)));
    for source in [4, u64::MAX] {
        assert!(matches!(
            RemapDevice::new(inner.clone(), BLOCK, vec![redirect(0, source)]),
            Err(Error::OutOfRange { .. })
        ));
    }
}
