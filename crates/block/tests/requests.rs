//! Requests that complete later, with each back end of a file device.

use std::fs::File;
use std::io::{IoSlice, Write};
use std::num::NonZeroU32;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use larder_block::{
    BackEnd, BlockDevice, CancelToken, CountingDevice, DeadlineDevice, DirectDevice, Error,
    FileDevice, FileRange, MemoryDevice, Priority, Redirect, RemapDevice, Request, Result,
    ThreadedDevice, write_all,
};
use larder_instruments::{FaultyDevice, ReorderingDevice};
use larder_testkit::report_skipped;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use tempfile::NamedTempFile;

const PAGE: usize = 4096;
/// More pages than any back end has requests in flight.
const PAGES: usize = 600;

fn byte(at: usize) -> u8 {
    u8::try_from(at % 251).unwrap()
}

fn file(len: usize) -> NamedTempFile {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut file = NamedTempFile::new_in(folder).unwrap();
    let bytes: Vec<u8> = (0..len).map(byte).collect();
    file.write_all(&bytes).unwrap();
    file.as_file().sync_all().unwrap();
    file
}

/// Waits until `holds` returns true.
fn wait_until(mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_mins(1);
    while !holds() {
        assert!(Instant::now() < end, "the device does not answer");
        std::thread::yield_now();
    }
}

/// Calls `test` with a writable device for each back end.
fn each_back_end(len: usize, test: impl Fn(&NamedTempFile, FileDevice)) {
    for back_end in [BackEnd::IoUring, BackEnd::Threads] {
        let file = file(len);
        let device = FileDevice::open_writable(file.path(), FileRange::default()).unwrap();
        let device = device.with_back_end(back_end);
        if device.back_end() == back_end {
            test(&file, device);
        } else {
            report_skipped(format!("{back_end} is not available"));
        }
    }
}

type Outcome = (usize, Vec<u8>, Result<()>);

fn read(done: &Sender<Outcome>, number: usize, len: usize, offset_bytes: u64) -> Request {
    let done = done.clone();
    Request::read(vec![0; len], offset_bytes, move |bytes, result| {
        done.send((number, bytes, result)).unwrap();
    })
}

fn outcomes(done: &Receiver<Outcome>, count: usize) -> Vec<Outcome> {
    let mut all: Vec<Outcome> = (0..count).map(|_| done.recv().unwrap()).collect();
    all.sort_by_key(|(number, ..)| *number);
    all
}

fn expected(offset: usize, len: usize) -> Vec<u8> {
    (offset..offset + len).map(byte).collect()
}

#[test]
fn more_reads_than_the_queue_takes_complete_once_with_their_bytes() {
    each_back_end(PAGES * PAGE, |_, device| {
        let (sender, receiver) = channel();
        let requests = (0..PAGES).map(|page| read(&sender, page, PAGE, (page * PAGE) as u64));
        device.submit(requests.collect());
        for (page, bytes, result) in outcomes(&receiver, PAGES) {
            result.unwrap();
            assert!(bytes == expected(page * PAGE, PAGE), "page {page}");
        }
        drop(sender);
        drop(device);
        assert!(receiver.recv().is_err(), "a request completed twice");
    });
}

#[test]
fn performed_requests_are_complete_on_return() {
    each_back_end(PAGES * PAGE, |_, device| {
        let (sender, receiver) = channel();
        let requests = (0..PAGES).map(|page| read(&sender, page, PAGE, (page * PAGE) as u64));
        device.perform(requests.collect(), None).unwrap();
        let all: Vec<Outcome> = receiver.try_iter().collect();
        assert_eq!(all.len(), PAGES);
        for (page, bytes, result) in all {
            result.unwrap();
            assert!(bytes == expected(page * PAGE, PAGE), "page {page}");
        }
        device.perform(Vec::new(), None).unwrap();
    });
}

#[test]
fn written_buffers_are_read_back() {
    each_back_end(PAGES * PAGE, |file, device| {
        let (sender, receiver) = channel();
        let writes = (0..PAGES).rev().map(|page| {
            let done = sender.clone();
            let bytes = vec![u8::try_from(page % 200).unwrap() + 1; PAGE];
            Request::write(bytes, (page * PAGE) as u64, move |_, result| {
                done.send(result).unwrap();
            })
        });
        let (waited, submitted): (Vec<_>, Vec<_>) =
            writes.enumerate().partition(|(number, _)| number % 2 == 0);
        device.submit(submitted.into_iter().map(|(_, write)| write).collect());
        let waited = waited.into_iter().map(|(_, write)| write).collect();
        device.perform(waited, None).unwrap();
        for _ in 0..PAGES {
            receiver.recv().unwrap().unwrap();
        }
        let bytes = std::fs::read(file.path()).unwrap();
        assert_eq!(bytes.len(), PAGES * PAGE);
        for (page, bytes) in bytes.chunks(PAGE).enumerate() {
            let byte = u8::try_from(page % 200).unwrap() + 1;
            assert!(bytes.iter().all(|at| *at == byte), "page {page}");
        }
    });
}

#[test]
fn request_of_more_buffers_than_a_system_call_takes_is_complete() {
    each_back_end(PAGES * PAGE, |file, device| {
        let parts: Vec<Arc<[u8]>> = (0..2500_usize)
            .map(|part| vec![byte(part); part % 7].into())
            .collect();
        let all: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let (sender, receiver) = channel();
        let write = Request::write(parts, 1000, move |_, result| sender.send(result).unwrap());
        device.submit(vec![write]);
        receiver.recv().unwrap().unwrap();
        assert!(std::fs::read(file.path()).unwrap()[1000..].starts_with(&all));
    });
}

#[test]
fn ranges_outside_the_device_fail_and_the_others_succeed() {
    each_back_end(2 * PAGE, |_, device| {
        let (sender, receiver) = channel();
        let offsets = [0, 2 * PAGE, PAGE + 1, usize::MAX, PAGE];
        let requests =
            |sender: &Sender<Outcome>| offsets.map(|at| read(sender, at, PAGE, at as u64));
        device.submit(requests(&sender).into());
        device.perform(requests(&sender).into(), None).unwrap();
        for (at, bytes, result) in outcomes(&receiver, 10) {
            if at == 0 || at == PAGE {
                result.unwrap();
                assert!(bytes == expected(at, PAGE));
            } else {
                assert!(
                    matches!(result, Err(Error::OutOfRange { .. })),
                    "{result:?}"
                );
            }
        }
    });
}

#[test]
fn truncated_file_fails_reads_in_the_middle_of_a_batch() {
    each_back_end(4 * PAGE, |file, device| {
        file.as_file().set_len(2 * PAGE as u64 + 100).unwrap();
        let (sender, receiver) = channel();
        let requests = (0..4).map(|page| read(&sender, page, PAGE, (page * PAGE) as u64));
        device.perform(requests.collect(), None).unwrap();
        for (page, bytes, result) in outcomes(&receiver, 4) {
            if page < 2 {
                result.unwrap();
                assert!(bytes == expected(page * PAGE, PAGE));
            } else {
                let Err(Error::Io {
                    offset_bytes,
                    source,
                    ..
                }) = result
                else {
                    panic!("{result:?}");
                };
                assert_eq!(offset_bytes / PAGE as u64, page as u64);
                assert_eq!(source.kind(), std::io::ErrorKind::UnexpectedEof);
            }
        }
    });
}

#[test]
fn eio_in_the_middle_of_a_batch_fails_only_its_requests() {
    each_back_end(5 * PAGE, |_, device| {
        let middle = 2 * PAGE as u64..3 * PAGE as u64;
        let device = FaultyDevice::new(Arc::new(device)).fail_range(middle);
        let (sender, receiver) = channel();
        let requests = || (0..5).map(|page| read(&sender, page, PAGE, (page * PAGE) as u64));
        device.submit(requests().collect());
        device.perform(requests().collect(), None).unwrap();
        for (page, bytes, result) in outcomes(&receiver, 10) {
            if page == 2 {
                let source = match result {
                    Err(Error::Io { source, .. }) => source,
                    other => panic!("{other:?}"),
                };
                assert_eq!(Errno::from_io_error(&source), Some(Errno::IO));
            } else {
                result.unwrap();
                assert!(bytes == expected(page * PAGE, PAGE));
            }
        }
    });
}

/// The kernel refuses writes to a sealed file, and performs reads.
#[test]
fn errors_of_the_kernel_in_the_middle_of_a_batch_fail_only_their_requests() {
    for back_end in [BackEnd::IoUring, BackEnd::Threads] {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = File::from(rustix::fs::memfd_create("sealed", flags).unwrap());
        (&memory).write_all(&expected(0, 5 * PAGE)).unwrap();
        let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
        let device = FileDevice::open_writable(Path::new(&path), FileRange::default()).unwrap();
        let device = device.with_back_end(back_end);
        if device.back_end() != back_end {
            report_skipped(format!("{back_end} is not available"));
            continue;
        }
        rustix::fs::fcntl_add_seals(&memory, SealFlags::WRITE).unwrap();
        let (sender, receiver) = channel();
        let requests = (0..5).map(|page| {
            let offset_bytes = (page * PAGE) as u64;
            if page % 2 == 0 {
                return read(&sender, page, PAGE, offset_bytes);
            }
            let done = sender.clone();
            Request::write(vec![1; PAGE], offset_bytes, move |bytes, result| {
                done.send((page, bytes, result)).unwrap();
            })
        });
        device.submit(requests.collect());
        for (page, bytes, result) in outcomes(&receiver, 5) {
            if page % 2 == 0 {
                result.unwrap();
                assert!(bytes == expected(page * PAGE, PAGE));
                continue;
            }
            let Err(Error::Write {
                offset_bytes,
                source,
                ..
            }) = result
            else {
                panic!("{result:?}");
            };
            assert_eq!(offset_bytes, (page * PAGE) as u64);
            assert_eq!(Errno::from_io_error(&source), Some(Errno::PERM));
        }
    }
}

#[test]
fn file_in_memory_is_read_and_written() {
    let Ok(mut file) = NamedTempFile::new_in("/dev/shm") else {
        return report_skipped("no /dev/shm");
    };
    file.write_all(&expected(0, 4 * PAGE)).unwrap();
    let device = FileDevice::open_writable(file.path(), FileRange::default()).unwrap();
    let (sender, receiver) = channel();
    let done = sender.clone();
    let write = Request::write(vec![9; PAGE], PAGE as u64, move |_, result| {
        done.send((9, Vec::new(), result)).unwrap();
    });
    device
        .perform(vec![read(&sender, 0, PAGE, 0), write], None)
        .unwrap();
    device.submit(vec![read(&sender, 1, PAGE, PAGE as u64)]);
    let all = outcomes(&receiver, 3);
    assert!(all.iter().all(|(.., result)| result.is_ok()), "{all:?}");
    assert!(all[0].1 == expected(0, PAGE) && all[1].1 == vec![9; PAGE]);
}

#[test]
fn read_only_device_refuses_write_requests() {
    let file = file(PAGE);
    let device = FileDevice::open(file.path(), FileRange::default()).unwrap();
    let (sender, receiver) = channel();
    let write = Request::write(vec![1; 10], 0, move |_, result| {
        sender.send(result).unwrap();
    });
    device.perform(vec![write], None).unwrap();
    assert!(matches!(receiver.recv().unwrap(), Err(Error::ReadOnly)));
}

#[test]
fn cancelled_requests_complete_without_being_started() {
    each_back_end(4 * PAGE, |_, device| {
        let (sender, receiver) = channel();
        let token = CancelToken::default();
        token.cancel();
        let cancelled = read(&sender, 0, PAGE, 0)
            .with_cancel(&token)
            .with_priority(Priority::Background);
        device.submit(vec![cancelled, read(&sender, 1, PAGE, 0)]);
        let all = outcomes(&receiver, 2);
        assert!(matches!(all[0].2, Err(Error::Cancelled)));
        assert!(all[0].1.iter().all(|byte| *byte == 0));
        assert!(all[1].2.is_ok());
    });
}

/// A device, and one of its queues.
struct Queued {
    device: Box<dyn BlockDevice>,
    /// The number of threads that complete the requests of the queue.
    threads: usize,
    /// The start of the first of two adjacent ranges of the device. Requests for both ranges are in this queue.
    at: usize,
    len: usize,
}

impl Queued {
    /// Returns a device of each kind. A direct device has two queues. The second is for requests that touch a block that
    /// is only partly on the device.
    fn all() -> Vec<Self> {
        const LEN: usize = 2 * PAGE + 100;
        const THREADS: usize = 8;
        let file = file(LEN);
        let queued = |device: Box<dyn BlockDevice>, threads, at, len| Self {
            device,
            threads,
            at,
            len,
        };
        let memory: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(expected(0, LEN)));
        let redirects = [0, 1].map(|block| Redirect {
            home: block,
            source: block,
            first_bytes: None,
        });
        let block = NonZeroU32::new(PAGE.try_into().unwrap()).unwrap();
        let remapped = RemapDevice::new(Arc::clone(&memory), block, redirects.into()).unwrap();
        let mut all = vec![
            queued(Box::new(ThreadedDevice::new(memory)), THREADS, 0, PAGE),
            queued(Box::new(remapped), THREADS, 0, PAGE),
        ];
        for (back_end, threads) in [(BackEnd::IoUring, 1), (BackEnd::Threads, THREADS)] {
            let open = || FileDevice::open(file.path(), FileRange::default()).unwrap();
            let direct = || DirectDevice::open(file.path(), FileRange::default()).unwrap();
            if open().with_back_end(back_end).back_end() != back_end {
                report_skipped(format!("{back_end} is not available"));
                continue;
            }
            let device = open().with_back_end(back_end);
            all.push(queued(Box::new(device), threads, 0, PAGE));
            let device = direct().with_back_end(back_end);
            all.push(queued(Box::new(device), threads, 0, PAGE));
            let device = direct().with_back_end(back_end);
            all.push(queued(Box::new(device), THREADS, 2 * PAGE, 50));
        }
        all
    }

    /// Returns a read of the range with this number.
    fn read(&self, done: &Sender<Outcome>, number: usize) -> Request {
        read(done, number, self.len, self.start_bytes(number))
    }

    fn start_bytes(&self, number: usize) -> u64 {
        (self.at + number * self.len) as u64
    }

    /// Makes all threads of the device wait in the completion of a request, so that further requests stay in the queue.
    /// Each thread continues when its sender is dropped.
    fn block(&self) -> Vec<Sender<()>> {
        let (begun, begins) = channel();
        let blocked = (0..self.threads).map(|_| {
            let begun = begun.clone();
            let (release, released) = channel();
            let request = Request::read(vec![0; self.len], self.start_bytes(0), move |_, _| {
                begun.send(()).unwrap();
                released.recv().unwrap_err();
            });
            self.device.submit(vec![request]);
            release
        });
        let blocked = blocked.collect();
        for _ in 0..self.threads {
            begins.recv().unwrap();
        }
        blocked
    }
}

#[test]
fn cancelled_request_in_a_queue_completes_before_those_in_flight() {
    for queued in Queued::all() {
        let blocked = queued.block();
        let (sender, receiver) = channel();
        let token = CancelToken::default();
        let cancelled = queued.read(&sender, 0).with_cancel(&token);
        let kept = queued.read(&sender, 1).with_cancel(&CancelToken::default());
        queued.device.submit(vec![cancelled, kept]);
        token.cancel();
        queued.device.cancel_in_flight();
        let (number, _, result) = receiver.try_recv().unwrap();
        assert!(matches!((number, &result), (0, Err(Error::Cancelled))));
        assert!(receiver.try_recv().is_err());
        drop(blocked);
        let (number, bytes, result) = receiver.recv().unwrap();
        result.unwrap();
        assert!((number, bytes) == (1, expected(queued.at + queued.len, queued.len)));
    }
}

#[test]
fn expedited_request_in_a_queue_is_performed_before_earlier_ones() {
    // The requests of a ring can complete in another order than that of their starts.
    for queued in Queued::all().iter().filter(|queued| queued.threads > 1) {
        let mut blocked = queued.block();
        let (sender, receiver) = channel();
        let background = |number| {
            queued
                .read(&sender, number)
                .with_priority(Priority::Background)
        };
        queued.device.submit(vec![background(0), background(1)]);
        queued.device.expedite(queued.start_bytes(1), 1);
        // One thread continues, and performs both.
        drop(blocked.pop());
        let order = [(); 2].map(|()| receiver.recv().unwrap().0);
        assert_eq!(order, [1, 0]);
    }
}

#[test]
fn dropped_device_completes_what_it_accepted() {
    each_back_end(PAGES * PAGE, |_, device| {
        let (sender, receiver) = channel();
        let requests = (0..PAGES).map(|page| read(&sender, page, PAGE, (page * PAGE) as u64));
        device.submit(requests.collect());
        drop(device);
        drop(sender);
        let all: Vec<Outcome> = receiver.iter().collect();
        assert_eq!(all.len(), PAGES);
        for (page, bytes, result) in all {
            match result {
                Ok(()) => assert!(bytes == expected(page * PAGE, PAGE), "page {page}"),
                Err(error) => assert!(matches!(error, Error::Cancelled), "{error}"),
            }
        }
    });
}

#[test]
fn requests_of_many_threads_get_their_own_bytes() {
    each_back_end(PAGES * PAGE, |_, device| {
        std::thread::scope(|scope| {
            for thread in 0..16 {
                let device = &device;
                scope.spawn(move || {
                    let (sender, receiver) = channel();
                    for round in 0..20 {
                        let page = (thread * 37 + round * 11) % PAGES;
                        let requests = vec![
                            read(&sender, page, PAGE, (page * PAGE) as u64),
                            read(&sender, PAGES, 10, 77),
                        ];
                        if round % 2 == 0 {
                            device.perform(requests, None).unwrap();
                        } else {
                            device.submit(requests);
                        }
                        let all = outcomes(&receiver, 2);
                        assert!(all[0].1 == expected(page * PAGE, PAGE));
                        assert!(all[1].1 == expected(77, 10));
                    }
                });
            }
        });
    });
}

#[test]
fn direct_device_performs_aligned_and_other_requests() {
    let file = file(4 * PAGE + 700);
    let device = match DirectDevice::open_writable(file.path(), FileRange::default()) {
        Ok(device) => device,
        Err(error) => return report_skipped(error),
    };
    let (sender, receiver) = channel();
    let ranges = [(0, PAGE), (1, PAGE), (PAGE, 2 * PAGE), (4 * PAGE, 700)];
    let requests = |sender: &Sender<Outcome>| {
        ranges
            .map(|(at, len)| read(sender, at, len, at as u64))
            .into()
    };
    device.submit(requests(&sender));
    device.perform(requests(&sender), None).unwrap();
    for (at, bytes, result) in outcomes(&receiver, 2 * ranges.len()) {
        result.unwrap();
        assert!(bytes == expected(at, bytes.len()), "at {at}");
    }
}

#[test]
fn panic_at_the_end_of_a_request_affects_no_other_request() {
    each_back_end(PAGE, |_, device| {
        let panicking = || Request::read(vec![0; 1], 0, |_, _| panic!("at the end of a request"));
        device.submit(vec![panicking()]);
        device.perform(vec![panicking()], None).unwrap();
        let (sender, receiver) = channel();
        device.submit(vec![panicking(), read(&sender, 0, PAGE, 0)]);
        let (_, bytes, result) = receiver.recv().unwrap();
        result.unwrap();
        assert!(bytes == expected(0, PAGE));
        device.submit(vec![read(&sender, 1, 1, 0)]);
        receiver.recv().unwrap().2.unwrap();
    });
}

#[test]
fn request_may_drop_its_device_at_the_end() {
    each_back_end(PAGE, |_, device| {
        let device = Arc::new(device);
        let (release, released) = channel::<()>();
        let (sender, receiver) = channel();
        let own = Arc::clone(&device);
        let request = Request::read(vec![0; PAGE], 0, move |_, result| {
            released.recv().unwrap();
            drop(own);
            sender.send(result).unwrap();
        });
        device.submit(vec![request]);
        drop(device);
        release.send(()).unwrap();
        receiver.recv().unwrap().unwrap();
    });
}

#[test]
fn batch_of_writes_fails_at_the_deadline_and_a_late_answer_completes_it() {
    let memory = Arc::new(MemoryDevice::new(vec![0; 3 * PAGE]));
    let silent = PAGE as u64..2 * PAGE as u64;
    let silent = ReorderingDevice::new(Arc::clone(&memory) as _, 1).with_silence(silent);
    let silent = Arc::new(silent);
    let device = DeadlineDevice::new(Arc::clone(&silent) as _, Duration::from_millis(1));
    let writes = (0..3).map(|page| ((page * PAGE) as u64, vec![7; PAGE]));
    let written = write_all(&device, writes);
    assert!(matches!(written, Err(Error::Deadline(_))), "{written:?}");
    let middle = || memory.to_bytes()[PAGE..2 * PAGE].to_vec();
    assert!(middle() == vec![0; PAGE]);
    silent.answer();
    // The drop of the last reference performs the requests that wait.
    drop(device);
    drop(silent);
    assert!(memory.to_bytes() == vec![7; 3 * PAGE]);
}

#[test]
fn blocking_write_fails_at_the_deadline_and_does_not_replace_a_later_write() {
    let memory = Arc::new(MemoryDevice::new(vec![0; 3 * PAGE]));
    let silent = PAGE as u64..2 * PAGE as u64;
    let silent = ReorderingDevice::new(Arc::clone(&memory) as _, 1).with_silence(silent);
    let silent = Arc::new(silent);
    let device = DeadlineDevice::new(Arc::clone(&silent) as _, Duration::from_millis(1));
    let write = |byte| device.write_at(&[byte; PAGE], PAGE as u64);
    let written = write(7);
    assert!(matches!(written, Err(Error::Deadline(_))), "{written:?}");
    // The device could perform the first of two overlapping writes last.
    let overlapping = device.write_at(&[8; PAGE], PAGE as u64 + 100);
    assert!(
        matches!(overlapping, Err(Error::Deadline(_))),
        "{overlapping:?}"
    );
    let batch = write_all(&device, [(0, vec![8; 2 * PAGE])]);
    assert!(matches!(batch, Err(Error::Deadline(_))), "{batch:?}");
    assert_eq!(silent.waiting(), 1, "only the first write is in flight");
    assert!(memory.to_bytes() == vec![0; 3 * PAGE]);
    assert!(device.has_late_writes());

    silent.answer();
    wait_until(|| write(9).is_ok());
    assert!(!device.has_late_writes());
    // The drop of the last reference performs the requests that wait.
    drop(device);
    drop(silent);
    let expected = [vec![0; PAGE], vec![9; PAGE], vec![0; PAGE]];
    assert!(memory.to_bytes() == expected.concat());
}

#[test]
fn long_blocking_write_through_a_deadline_device_writes_every_byte() {
    const LEN: usize = (2 << 20) + 700;
    let memory = Arc::new(MemoryDevice::new(vec![0; LEN + 100]));
    let device = ReorderingDevice::new(Arc::clone(&memory) as _, 1);
    let device = DeadlineDevice::new(Arc::new(device), Duration::from_hours(1));
    let bytes: Vec<u8> = (0..=250).cycle().take(LEN).collect();
    let (first, second) = bytes.split_at(1000);
    let bufs = [IoSlice::new(first), IoSlice::new(second)];
    device.write_vectored_at(&bufs, 100).unwrap();
    assert!(memory.to_bytes()[100..] == bytes);
    let outside = device.write_at(&[1; 101], LEN as u64);
    assert!(
        matches!(outside, Err(Error::OutOfRange { .. })),
        "{outside:?}"
    );
}

#[test]
fn submitted_write_is_late_until_it_is_complete() {
    let memory = Arc::new(MemoryDevice::new(vec![0; 2 * PAGE]));
    let silent = ReorderingDevice::new(Arc::clone(&memory) as _, 1).with_silence(0..u64::MAX);
    let silent = Arc::new(silent);
    let device = DeadlineDevice::new(Arc::clone(&silent) as _, Duration::from_hours(1));
    let device = CountingDevice::new(Arc::new(device));
    assert!(!device.has_late_writes());
    device.submit(vec![Request::write(vec![7; PAGE], 0, |_, _| ())]);
    assert!(device.has_late_writes());
    let overlapping = device.write_at(&[8; PAGE], 100);
    assert!(
        matches!(overlapping, Err(Error::Deadline(_))),
        "{overlapping:?}"
    );

    silent.answer();
    wait_until(|| !device.has_late_writes());
    device.write_at(&[8; PAGE], 100).unwrap();
    let expected = [vec![7; 100], vec![8; PAGE], vec![0; PAGE - 100]];
    assert!(memory.to_bytes() == expected.concat());
}

/// A device with a page cache, which panics if it receives a request.
#[derive(Debug)]
struct CachingDevice(MemoryDevice);

impl BlockDevice for CachingDevice {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn caches_writes(&self) -> bool {
        true
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        self.0.read_at(buf, offset_bytes)
    }

    fn submit(&self, requests: Vec<Request>) {
        panic!("{requests:?}");
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> Result<()> {
        self.0.write_at(buf, offset_bytes)
    }
}

#[test]
fn blocking_write_to_a_page_cache_is_not_a_request() {
    let caching = Arc::new(CachingDevice(MemoryDevice::new(vec![0; 2 * PAGE])));
    let device = DeadlineDevice::new(Arc::clone(&caching) as _, Duration::ZERO);
    assert!(device.caches_writes());
    device.write_at(&[7; PAGE], PAGE as u64).unwrap();
    assert!(caching.0.to_bytes() == [[0; PAGE], [7; PAGE]].concat());
}

#[test]
fn only_a_device_with_a_page_cache_caches_writes() {
    let file = file(PAGE);
    let cached = FileDevice::open_writable(file.path(), FileRange::default()).unwrap();
    assert!(cached.caches_writes());
    drop(cached);
    assert!(!MemoryDevice::new(vec![0; PAGE]).caches_writes());
    match DirectDevice::open_writable(file.path(), FileRange::default()) {
        Ok(direct) => assert!(!direct.caches_writes()),
        Err(error) => report_skipped(error),
    }
}
