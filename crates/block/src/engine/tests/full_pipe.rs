//! Engines that write to a full pipe, so that a write completes when a test reads from the pipe.

use super::*;
use rustix::fs::OFlags;
use std::io::{PipeReader, Read};

/// Calls `test` with an engine of each kind that writes to a full pipe, the other end of the pipe, and the number of
/// bytes in the pipe. All of these bytes are zero.
fn each_kind_with_full_pipe(test: impl Fn(Engine<PipeCalls>, PipeReader, usize)) {
    let create = |back_end| {
        let (reader, writer) = std::io::pipe().unwrap();
        let writer = OwnedFd::from(writer);
        rustix::fs::fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
        let mut len = 0;
        while let Ok(written) = rustix::io::write(&writer, &[0; 4096]) {
            len += written;
        }
        rustix::fs::fcntl_setfl(&writer, OFlags::empty()).unwrap();
        (engine_of(writer, Some(back_end), Ring::new), reader, len)
    };
    each(
        create,
        |(engine, ..)| engine.back_end(),
        |(engine, reader, len)| test(engine, reader, len),
    );
}

#[test]
fn write_to_a_full_pipe_fails_at_the_deadline_and_completes_later() {
    each_kind_with_full_pipe(|engine, mut reader, len| {
        let mut timeout = SHORT;
        let late = loop {
            let (sender, receiver) = channel();
            let write = Request::write(vec![7; 1], 0, move |_, result| {
                sender.send(result).unwrap();
            });
            let performed = engine.perform(vec![write], Some(timeout));
            assert!(
                matches!(performed, Err(Error::Deadline(_))),
                "{performed:?}"
            );
            match receiver.try_recv() {
                // The write was not started within the timeout.
                Ok(Err(Error::Cancelled)) => timeout *= 2,
                outcome => {
                    outcome.unwrap_err();
                    break receiver;
                }
            }
        };
        let mut bytes = vec![1; len + 1];
        reader.read_exact(&mut bytes).unwrap();
        assert!(bytes == [vec![0; len], vec![7]].concat());
        late.recv().unwrap().unwrap();
    });
}

#[test]
fn short_writes_are_continued_until_all_bytes_are_written() {
    each_kind_with_full_pipe(|engine, mut reader, len| {
        // The pipe then has room for a half of the write.
        let half = len / 2;
        reader.read_exact(&mut vec![1; half]).unwrap();
        let byte = |at: usize| u8::try_from(at % 251).unwrap();
        let content: Vec<u8> = (0..2 * half).map(byte).collect();
        let (sender, receiver) = channel();
        let write = Request::write(content.clone(), 0, move |_, result| {
            sender.send(result).unwrap();
        });
        engine.submit(vec![write]);
        while rustix::io::ioctl_fionread(&reader).unwrap() < len as u64 {
            std::thread::yield_now();
        }
        assert!(receiver.try_recv().is_err());
        let mut bytes = vec![1; len - half + content.len()];
        reader.read_exact(&mut bytes).unwrap();
        assert!(bytes == [vec![0; len - half], content].concat());
        receiver.recv().unwrap().unwrap();
    });
}
