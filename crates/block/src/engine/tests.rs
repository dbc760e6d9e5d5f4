//! Tests of engines whose file is one end of a pipe. A request completes when the test uses the other end.

use super::queue::DEMAND_RUN;
use super::*;
use crate::calls::FileCalls;
use crate::{CancelToken, Priority};
use larder_testkit::report_skipped;
use rustix::io::Errno;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

mod full_pipe;

/// A timeout that passes because the device does not answer.
const SHORT: Duration = Duration::from_millis(1);

/// More requests than an engine has in flight.
const MANY: usize = DEPTH as usize + 1;

struct PipeCalls {
    file: Arc<LockableFile>,
    /// The offsets of the requests that were started, in the order of their starts.
    started: Mutex<Vec<u64>>,
}

impl PipeCalls {
    fn fill(&self, slices: &mut [IoSliceMut<'_>]) {
        for slice in slices {
            let mut done = 0;
            while done < slice.len() {
                match rustix::io::read(&self.file, &mut slice[done..]) {
                    Ok(read @ 1..) => done += read,
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    fn write(&self, slices: &[IoSlice<'_>]) {
        for slice in slices {
            let mut done = 0;
            while done < slice.len() {
                done += rustix::io::write(&self.file, &slice[done..]).unwrap();
            }
        }
    }

    /// Waits until all bytes that were written have been read.
    fn wait_until_empty(&self) {
        while rustix::io::ioctl_fionread(&self.file).unwrap() > 0 {
            std::thread::yield_now();
        }
    }

    /// Waits until at least `count` requests were started.
    fn wait_for_starts(&self, count: usize) {
        while self.started.lock().len() < count {
            std::thread::yield_now();
        }
    }
}

impl Calls for PipeCalls {
    fn perform(&self, request: Request) {
        let fill = |slices: &mut [IoSliceMut<'_>], offset_bytes| {
            self.started.lock().push(offset_bytes);
            self.fill(slices);
            Ok(())
        };
        let write = |slices: &[IoSlice<'_>], offset_bytes| {
            self.started.lock().push(offset_bytes);
            self.write(slices);
            Ok(())
        };
        request.perform(fill, write);
    }

    /// Called when a request is added to a ring.
    fn position_bytes(&self, offset_bytes: u64) -> u64 {
        self.started.lock().push(offset_bytes);
        0
    }
}

type Outcome = (Vec<u8>, Result<()>);

fn read(done: &Sender<Outcome>) -> Request {
    read_bytes(done, 1)
}

fn read_bytes(done: &Sender<Outcome>, len: usize) -> Request {
    let done = done.clone();
    Request::read(vec![0; len], 0, move |bytes, result| {
        done.send((bytes, result)).unwrap();
    })
}

/// Returns an engine whose rings are created by `set_up`, and the other end of its pipe.
fn engine(back_end: Option<BackEnd>, set_up: SetUp) -> (Engine<PipeCalls>, OwnedFd) {
    let (reader, writer) = std::io::pipe().unwrap();
    (engine_of(reader.into(), back_end, set_up), writer.into())
}

/// Returns an engine for `end`, which is an end of a pipe. Its rings are created by `set_up`.
fn engine_of(end: OwnedFd, back_end: Option<BackEnd>, set_up: SetUp) -> Engine<PipeCalls> {
    // Only the engine keeps the file.
    let file = Arc::new(LockableFile::from(end));
    let calls = Arc::new(PipeCalls {
        file: Arc::clone(&file),
        started: Mutex::default(),
    });
    Engine::with_set_up(calls, &file, false, back_end, set_up)
}

/// Calls `test` with what `create` returns for each kind of engine. `kind` returns the kind of what was created, which
/// differs if the requested kind is not available.
fn each<T>(create: impl Fn(BackEnd) -> T, kind: impl Fn(&T) -> BackEnd, test: impl Fn(T)) {
    for back_end in [BackEnd::IoUring, BackEnd::Threads] {
        let created = create(back_end);
        if kind(&created) == back_end {
            test(created);
        } else {
            report_skipped(format!("{back_end} is not available"));
        }
    }
}

/// Calls `test` with an engine of each kind, and the other end of its pipe.
fn each_kind(test: impl Fn(Engine<PipeCalls>, OwnedFd)) {
    let create = |back_end| engine(Some(back_end), Ring::new);
    each(
        create,
        |(engine, _)| engine.back_end(),
        |(engine, writer)| test(engine, writer),
    );
}

/// Returns the number of submitted requests that `engine` has in flight.
fn submitted_depth(engine: &Engine<PipeCalls>) -> usize {
    match engine.back_end() {
        BackEnd::IoUring => BACKGROUND_DEPTH as usize,
        _ => MAX_THREADS,
    }
}

/// Performs a read that is in flight when the thread stops waiting for it.
fn give_up(engine: &Engine<PipeCalls>) -> Receiver<Outcome> {
    let mut timeout = SHORT;
    loop {
        let (sender, receiver) = channel();
        let performed = engine.perform(vec![read(&sender)], Some(timeout));
        assert!(
            matches!(performed, Err(Error::Deadline(_))),
            "{performed:?}"
        );
        match receiver.try_recv() {
            // The read was not started within the timeout.
            Ok((_, Err(Error::Cancelled))) => timeout *= 2,
            outcome => {
                outcome.unwrap_err();
                return receiver;
            }
        }
    }
}

#[test]
fn late_answer_completes_the_request() {
    each_kind(|engine, writer| {
        let late = give_up(&engine);
        rustix::io::write(&writer, b"x").unwrap();
        let (bytes, result) = late.recv().unwrap();
        result.unwrap();
        assert_eq!(bytes, b"x");
    });
}

#[test]
fn requests_that_are_not_started_are_cancelled_at_the_deadline() {
    each_kind(|engine, writer| {
        let (sender, receiver) = channel();
        let reads = (0..MANY).map(|_| read(&sender)).collect();
        drop(sender);
        let performed = engine.perform(reads, Some(SHORT));
        assert!(
            matches!(performed, Err(Error::Deadline(_))),
            "{performed:?}"
        );
        let cancelled: Vec<_> = receiver.try_iter().collect();
        assert!(!cancelled.is_empty());
        for (_, result) in cancelled {
            assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
        }
        // These bytes complete the other requests.
        rustix::io::write(&writer, &[b'x'; MANY]).unwrap();
        assert!(receiver.iter().all(|(_, result)| result.is_ok()));
    });
}

#[test]
fn request_that_is_not_started_is_cancelled_at_once() {
    type Cancel = fn(&Engine<PipeCalls>, &Arc<Countdown>, &CancelToken);
    let cancels: [Cancel; 3] = [
        |engine, _, _| engine.queue.close(),
        |engine, countdown, _| {
            let is_counted = |request: &Request| request.is_counted_by(countdown);
            engine.queue.cancel(is_counted);
        },
        |engine, _, token| {
            token.cancel();
            engine.complete_cancelled();
        },
    ];
    for cancel in cancels {
        each_kind(|engine, writer| {
            let depth = submitted_depth(&engine);
            let (sender, receiver) = channel();
            let token = CancelToken::default();
            let requests = (0..=depth).map(|_| read(&sender).with_cancel(&token));
            let mut requests: Vec<_> = requests.collect();
            let countdown = Countdown::of(&mut requests);
            engine.submit(requests);
            engine.calls.wait_for_starts(depth);
            cancel(&engine, &countdown, &token);
            let (_, result) = receiver.try_recv().unwrap();
            assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
            rustix::io::write(&writer, &vec![b'x'; depth]).unwrap();
            for (_, result) in receiver.iter().take(depth) {
                result.unwrap();
            }
        });
    }
}

#[test]
fn cancellation_does_not_delay_background_requests() {
    let read = |offset_bytes| Request::read(vec![0; 1], offset_bytes, |_, _| ());
    let queue = Queue::default();
    let mut requests: Vec<_> = (0..=DEMAND_RUN as u64).map(read).collect();
    let cancelled = Countdown::of(&mut requests[DEMAND_RUN..]);
    requests.push(read(100).with_priority(Priority::Background));
    requests.push(read(101));
    queue.push(requests);
    for offset_bytes in 0..DEMAND_RUN as u64 {
        assert_eq!(queue.take().unwrap().offset_bytes(), offset_bytes);
    }
    queue.cancel(|request| request.is_counted_by(&cancelled));
    for offset_bytes in [100, 101] {
        assert_eq!(queue.take().unwrap().offset_bytes(), offset_bytes);
    }
    assert!(queue.take().is_none());
}

#[test]
fn drop_of_an_engine_leaves_requests_in_flight_and_the_file_locked() {
    each_kind(|engine, writer| {
        let late = give_up(&engine);
        let file = Arc::downgrade(&engine.calls.file);
        drop(engine);
        assert!(matches!(
            late.recv_timeout(Duration::ZERO),
            Err(RecvTimeoutError::Timeout)
        ));
        assert!(file.upgrade().is_some(), "the file stays locked");
        rustix::io::write(&writer, b"x").unwrap();
        late.recv().unwrap().1.unwrap();
        while file.upgrade().is_some() {
            std::thread::yield_now();
        }
    });
}

#[test]
fn thread_performs_requests_after_the_failure_of_its_ring() {
    each_kind(|engine, writer| {
        let Kind::IoUring { rings, .. } = &engine.kind else {
            return;
        };
        rings.lock()[0].break_descriptor();
        let (sender, receiver) = channel();
        // A single request would be a blocking call.
        let two = || vec![read(&sender), read(&sender)];
        let performed = engine.perform(two(), None);
        assert!(matches!(performed, Err(Error::Wait(_))), "{performed:?}");
        for _ in 0..2 {
            let (_, result) = receiver.try_recv().unwrap();
            assert!(matches!(result, Err(Error::Io { .. })), "{result:?}");
        }

        rustix::io::write(&writer, b"xx").unwrap();
        engine.perform(two(), None).unwrap();
        for _ in 0..2 {
            receiver.try_recv().unwrap().1.unwrap();
        }
    });
}

/// Creates a ring, which fails if it is for a background thread.
fn failing_background_ring(file: &Arc<LockableFile>, depth: u32) -> io::Result<Ring> {
    let ring = Ring::new(file, depth)?;
    if depth == BACKGROUND_DEPTH {
        ring.break_descriptor();
    }
    Ok(ring)
}

#[test]
fn background_thread_with_a_failed_ring_makes_blocking_calls() {
    const FAILED: usize = BACKGROUND_DEPTH as usize;
    let (engine, writer) = engine(None, failing_background_ring);
    if engine.back_end() != BackEnd::IoUring {
        return report_skipped("io_uring is not available");
    }
    let (sender, receiver) = channel();
    rustix::io::write(&writer, b"x").unwrap();
    engine.submit((0..=FAILED).map(|_| read(&sender)).collect());
    let (done, failed): (Vec<_>, Vec<_>) =
        (receiver.iter().take(FAILED + 1)).partition(|(_, result)| result.is_ok());
    assert_eq!((done.len(), failed.len()), (1, FAILED));
    for (_, result) in failed {
        assert!(matches!(result, Err(Error::Io { .. })), "{result:?}");
    }
}

#[test]
fn background_thread_with_a_failed_ring_is_counted_until_it_ends() {
    let (engine, _writer) = engine(None, failing_background_ring);
    if engine.back_end() != BackEnd::IoUring {
        return report_skipped("io_uring is not available");
    }
    let mut requests: Vec<_> = (0..BACKGROUND_DEPTH)
        .map(|_| Request::read(vec![0; 1], 0, |_, _| ()))
        .collect();
    let (sender, receiver) = channel();
    let token = CancelToken::default();
    token.cancel();
    let queue = Arc::clone(&engine.queue);
    // The ring has no room for this request, which ends after the failure.
    let last = Request::read(vec![0; 1], 0, move |_, _| {
        sender.send(queue.has_threads()).unwrap();
    });
    requests.push(last.with_cancel(&token));
    engine.submit(requests);
    assert!(receiver.recv().unwrap());
}

#[test]
fn short_reads_are_continued_until_the_buffer_is_full() {
    each_kind(|engine, writer| {
        let (sender, receiver) = channel();
        engine.submit(vec![read_bytes(&sender, 8)]);
        for part in [&b"abc"[..], b"d", b"efgh"] {
            assert!(receiver.try_recv().is_err());
            rustix::io::write(&writer, part).unwrap();
            engine.calls.wait_until_empty();
        }
        let (bytes, result) = receiver.recv().unwrap();
        result.unwrap();
        assert_eq!(bytes, b"abcdefgh");
    });
}

#[test]
fn read_that_fails_in_the_kernel_does_not_affect_the_rest_of_its_batch() {
    const LEN: usize = 100;
    let content = [7_u8; LEN];
    // The bytes of the content are at this position of the file. The memory at position 0 is not mapped.
    let at_bytes = content.as_ptr().addr() as u64;
    let memory = match File::open("/proc/self/mem") {
        Ok(memory) => memory,
        Err(error) => return report_skipped(error),
    };
    if let Err(error) = memory.read_exact_at(&mut [0; LEN], at_bytes) {
        return report_skipped(error);
    }
    let file = Arc::new(LockableFile::from(OwnedFd::from(memory)));
    let create = |back_end| {
        let calls = Arc::new(FileCalls {
            fd: Arc::clone(&file),
            start_bytes: 0,
        });
        Engine::new(calls, &file, false, Some(back_end))
    };
    let test = |engine: Engine<FileCalls>| {
        let (sender, receiver) = channel();
        let batch = || {
            let reads = [at_bytes, 0, at_bytes].map(|offset_bytes| {
                let done = sender.clone();
                Request::read(vec![0; LEN], offset_bytes, move |bytes, result| {
                    done.send((offset_bytes, bytes, result)).unwrap();
                })
            });
            Vec::from(reads)
        };
        engine.perform(batch(), None).unwrap();
        engine.submit(batch());
        for (offset_bytes, bytes, result) in receiver.iter().take(6) {
            match &result {
                Err(Error::Io { source, .. }) if offset_bytes == 0 => {
                    assert_eq!(Errno::from_io_error(source), Some(Errno::IO));
                }
                Ok(()) if offset_bytes != 0 => assert_eq!(bytes, content),
                _ => panic!("at {offset_bytes}: {result:?}"),
            }
        }
    };
    each(create, Engine::back_end, test);
}

#[test]
fn request_cancelled_while_the_queue_is_full_is_not_started() {
    each_kind(|engine, writer| {
        let depth = submitted_depth(&engine);
        let (sender, receiver) = channel();
        let token = CancelToken::default();
        let mut requests: Vec<_> = (0..depth).map(|_| read(&sender)).collect();
        requests.push(read(&sender).with_cancel(&token));
        requests.push(read(&sender));
        engine.submit(requests);
        token.cancel();
        rustix::io::write(&writer, &vec![7; depth + 1]).unwrap();
        let (done, cancelled): (Vec<_>, Vec<_>) =
            (receiver.iter().take(depth + 2)).partition(|(_, result)| result.is_ok());
        assert_eq!(done.len(), depth + 1);
        assert!(done.iter().all(|(bytes, _)| bytes == &[7]));
        let [(bytes, Err(Error::Cancelled))] = &cancelled[..] else {
            panic!("{cancelled:?}");
        };
        assert_eq!(bytes, &[0]);
    });
}

/// Submits reads of two bytes at the offsets `waiting`, while as many others are in flight as possible. Then calls
/// `change`. Returns the offsets in the order in which the reads are started.
fn order_of_starts(
    engine: &Engine<PipeCalls>,
    writer: &OwnedFd,
    waiting: &[(u64, Priority)],
    change: impl FnOnce(),
) -> Vec<u64> {
    let depth = submitted_depth(engine);
    let (sender, receiver) = channel();
    let read = |offset_bytes, priority| {
        let done = sender.clone();
        let request = Request::read(vec![0; 2], offset_bytes, move |_, result| {
            done.send(result).unwrap();
        });
        request.with_priority(priority)
    };
    // These requests stay in flight, so the following requests wait.
    engine.submit((0..depth).map(|_| read(0, Priority::Demand)).collect());
    engine.calls.wait_for_starts(depth);
    engine.submit(
        waiting
            .iter()
            .map(|(at, priority)| read(*at, *priority))
            .collect(),
    );
    change();
    for started in 1..=waiting.len() {
        // These bytes complete one request, so that one more is started.
        rustix::io::write(writer, b"xx").unwrap();
        engine.calls.wait_for_starts(depth + started);
    }
    rustix::io::write(writer, &vec![b'x'; 2 * depth]).unwrap();
    for result in receiver.iter().take(depth + waiting.len()) {
        result.unwrap();
    }
    engine.calls.started.lock()[depth..].to_vec()
}

#[test]
fn waiting_demand_requests_start_before_background_requests_which_are_not_starved() {
    const BACKGROUND: [u64; 2] = [1, 2];
    each_kind(|engine, writer| {
        let demand: Vec<u64> = (10..).take(DEMAND_RUN + 1).collect();
        let waiting: Vec<_> = (BACKGROUND.iter().map(|at| (*at, Priority::Background)))
            .chain(demand.iter().map(|at| (*at, Priority::Demand)))
            .collect();
        let (run, rest) = demand.split_at(DEMAND_RUN);
        let expected = [run, &BACKGROUND[..1], rest, &BACKGROUND[1..]].concat();
        let started = order_of_starts(&engine, &writer, &waiting, || ());
        assert_eq!(started, expected);
    });
}

#[test]
fn expedited_requests_start_after_earlier_demand_requests_and_before_background_requests() {
    each_kind(|engine, writer| {
        let background = [20, 22, 24, 26].map(|at| (at, Priority::Background));
        let waiting = [&[(50, Priority::Demand)], &background[..]].concat();
        // The bytes from 23 to 24 are parts of two requests.
        let expedite = || engine.expedite(23, 2);
        let started = order_of_starts(&engine, &writer, &waiting, expedite);
        assert_eq!(started, [50, 22, 24, 20, 26]);
    });
}

#[test]
fn refused_io_uring_selects_threads() {
    let refused: SetUp = |_, _| Err(io::ErrorKind::PermissionDenied.into());
    for selected in [None, Some(BackEnd::IoUring)] {
        let (engine, writer) = engine(selected, refused);
        assert_eq!(engine.back_end(), BackEnd::Threads);
        let (sender, receiver) = channel();
        engine.submit(vec![read(&sender)]);
        rustix::io::write(&writer, b"x").unwrap();
        let (bytes, result) = receiver.recv().unwrap();
        result.unwrap();
        assert_eq!(bytes, b"x");
    }
}

#[test]
fn background_thread_without_a_ring_makes_blocking_calls() {
    let set_up: SetUp = |file, depth| match depth {
        BACKGROUND_DEPTH => Err(io::ErrorKind::OutOfMemory.into()),
        depth => Ring::new(file, depth),
    };
    let (engine, writer) = engine(None, set_up);
    if engine.back_end() != BackEnd::IoUring {
        return report_skipped("io_uring is not available");
    }
    let own = std::thread::current().id();
    let (sender, receiver) = channel();
    let request = Request::read(vec![0; 1], 0, move |bytes, result| {
        let thread = std::thread::current().id();
        sender.send((bytes, result, thread)).unwrap();
    });
    // The read does not wait, whichever thread makes the call.
    rustix::io::write(&writer, b"x").unwrap();
    engine.submit(vec![request]);
    let (bytes, result, thread) = receiver.recv().unwrap();
    result.unwrap();
    assert_eq!(bytes, b"x");
    assert_ne!(thread, own);
}
