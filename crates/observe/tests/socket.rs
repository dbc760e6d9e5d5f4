//! The server's end of the statistics socket.

use larder::{CacheKind, HistogramReport, MountTransport, Stats};
use larder_observe::{Answer, Listener, Question};
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

fn listener(path: &Path) -> Listener {
    Listener::start_at(path, |question| match question {
        Question::Stats | Question::Counts => Answer::Stats(Box::default()),
        Question::Histogram { cache } => {
            Answer::Histogram(Box::new(HistogramReport::of(cache, [])))
        }
        Question::Close => Answer::Error(String::new()),
    })
    .unwrap()
}

fn query(path: &Path, line: &[u8]) -> io::Result<Answer> {
    let mut stream = UnixStream::connect(path)?;
    stream.write_all(line)?;
    received(&stream)
}

fn received(stream: &UnixStream) -> io::Result<Answer> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

#[test]
fn listener_answers_one_client_after_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.sock");
    let listener = listener(&path);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    for _ in 0..3 {
        let received = query(&path, b"{\"ask\":\"histogram\",\"cache\":\"inode\"}\n").unwrap();
        assert!(matches!(received, Answer::Histogram(report) if report.cache == CacheKind::Inode));
    }
    listener.stop(&Answer::Closed(None));
    assert!(!path.exists());
}

#[test]
fn replaced_listener_leaves_the_new_socket_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.sock");
    let before = listener(&path);
    let after = listener(&path);
    before.stop(&Answer::Closed(None));
    query(&path, b"{\"ask\":\"stats\"}\n").unwrap();
    after.stop(&Answer::Closed(None));
    assert!(!path.exists());
}

#[test]
fn waiting_client_receives_the_result_of_the_close() {
    for what in [
        Answer::Closed(None),
        Answer::Closed(Some("the disk is full".to_owned())),
        Answer::Unrecorded("the other disk is full".to_owned()),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sock");
        let listener = listener(&path);
        let mut waiting = UnixStream::connect(&path).unwrap();
        waiting.write_all(b"{\"ask\":\"close\"}\n").unwrap();
        // The client may not have been accepted yet.
        listener.stop(&what);
        let received = received(&waiting).unwrap();
        let [received, what] =
            [received, what].map(|answer| serde_json::to_string(&answer).unwrap());
        assert_eq!(received, what);
    }
}

#[test]
fn invalid_question_is_answered_with_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.sock");
    let listener = listener(&path);
    assert!(matches!(
        query(&path, b"hello\n").unwrap(),
        Answer::Error(_)
    ));
    let endless = vec![b'x'; 2048];
    // The listener may close the connection while the rest is still being written.
    assert!(matches!(
        query(&path, &endless),
        Ok(Answer::Error(_)) | Err(_)
    ));
    assert!(matches!(
        query(&path, b"{\"ask\":\"stats\"}\n").unwrap(),
        Answer::Stats(_)
    ));
    listener.stop(&Answer::Closed(None));
}

#[test]
fn silent_client_delays_the_next_one_only_briefly() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.sock");
    let listener = listener(&path);
    let silent = UnixStream::connect(&path).unwrap();
    assert!(matches!(
        query(&path, b"{\"ask\":\"stats\"}\n").unwrap(),
        Answer::Stats(_)
    ));
    drop(silent);
    listener.stop(&Answer::Closed(None));
}

#[test]
fn stale_socket_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(UnixStream::connect(&path).is_err());
    let listener = listener(&path);
    assert!(UnixStream::connect(&path).is_ok());
    listener.stop(&Answer::Closed(None));
}

#[test]
fn transport_in_json_is_its_name() {
    for (transport, name) in [
        (MountTransport::IoUring, "io_uring"),
        (MountTransport::Device, "/dev/fuse"),
    ] {
        let mut stats = Stats::default();
        let without = serde_json::to_string(&stats).unwrap();
        stats.transport = Some(transport);
        let json = serde_json::to_string(&stats).unwrap();
        let field = format!(",\"transport\":\"{name}\"");
        assert_eq!(json.replace(&field, ""), without);
        let parsed: Stats = serde_json::from_str(&json).unwrap();
        assert_eq!(parsed.transport, Some(transport));
        assert_eq!(transport.to_string(), name);
    }
}
