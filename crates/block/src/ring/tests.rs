//! A ring whose file is a pipe, so that a read completes when a test writes to the pipe.

use super::*;
use crate::Error;
use larder_testkit::report_skipped;
use rustix::event::{EventfdFlags, eventfd};
use std::sync::mpsc::channel;

impl Ring {
    /// Makes all later waits fail: the descriptor of the ring refers to another file. The kernel
    /// keeps the ring, because it is mapped.
    pub(crate) fn break_descriptor(&self) {
        let null = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: the descriptor stays open, and is used by this ring only.
        let broken = unsafe { libc::dup2(null.as_raw_fd(), self.uring.as_raw_fd()) };
        assert!(broken >= 0);
    }
}

/// Takes completions until `count` requests have finished.
fn finish(ring: &mut Ring, count: usize) {
    let mut finished = Vec::new();
    while finished.len() < count {
        ring.wait(None, &mut finished).unwrap();
    }
    finished.into_iter().for_each(Finished::complete);
}

#[test]
fn failed_ring_fails_only_requests_that_the_kernel_has_not_taken() {
    let (reader, writer) = std::io::pipe().unwrap();
    let Ok(mut ring) = Ring::new(&Arc::new(OwnedFd::from(reader).into()), 4) else {
        return report_skipped("io_uring is not available");
    };
    let (sender, receiver) = channel();
    let read = |number: u8| {
        let done = sender.clone();
        Request::read(vec![0; 3], 0, move |bytes, result| {
            done.send((number, bytes, result)).unwrap();
        })
    };
    ring.push(read(1), 0);
    let mut finished = Vec::new();
    ring.wait(Some(Duration::from_millis(1)), &mut finished)
        .unwrap();
    assert!(finished.is_empty(), "the pipe is empty");

    ring.push(read(2), 0);
    ring.push(read(3), 0);
    ring.break_descriptor();
    ring.wait(None, &mut finished).unwrap_err();
    assert_eq!((finished.len(), ring.room()), (2, 0));
    finished.into_iter().for_each(Finished::complete);
    for expected in [2, 3] {
        let (number, _, result) = receiver.try_recv().unwrap();
        assert_eq!(number, expected);
        assert!(matches!(result, Err(Error::Io { .. })), "{result:?}");
    }
    assert!(!ring.is_idle(), "the kernel has the first read");

    rustix::io::write(&writer, b"abc").unwrap();
    finish(&mut ring, 1);
    let (number, bytes, result) = receiver.try_recv().unwrap();
    result.unwrap();
    assert_eq!((number, &bytes[..]), (1, &b"abc"[..]));
    assert!(ring.is_idle());
}

#[test]
fn failed_ring_does_not_take_the_wake_up_event() {
    let (reader, _writer) = std::io::pipe().unwrap();
    let Ok(mut ring) = Ring::new(&Arc::new(OwnedFd::from(reader).into()), 4) else {
        return report_skipped("io_uring is not available");
    };
    let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap());
    ring.wake_by(Arc::clone(&event));
    let mut finished = Vec::new();
    ring.wait(Some(Duration::from_millis(1)), &mut finished)
        .unwrap();
    ring.break_descriptor();
    ring.wait(None, &mut finished).unwrap_err();

    rustix::io::write(&event, &1_u64.to_ne_bytes()).unwrap();
    ring.wait(None, &mut finished).unwrap();
    assert_eq!(rustix::io::read(&event, &mut [0; 8]), Ok(8));
}
