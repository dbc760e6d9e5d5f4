//! The messages of the statistics socket, and their maximum lengths.

use larder::{CacheKind, HistogramReport, Stats};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// The maximum length of a question, in bytes.
pub(super) const QUESTION_BYTES: usize = 1024;
/// The maximum length of an answer, in bytes. The longest answers are histograms, which have few rows.
pub(super) const ANSWER_BYTES: usize = 4 << 20;

/// A message from a client to the server, as in `{"ask":"histogram","cache":"page"}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase")]
pub enum Question {
    /// Requests all counts and the longest chains, for which the server visits every bucket.
    Stats,
    /// Requests all counts, without the longest chains.
    Counts,
    /// Requests the bucket histogram of one cache.
    Histogram {
        /// The cache.
        cache: CacheKind,
    },
    /// Requests the result of closing the volume. The answer is sent after the unmount, when the volume is
    /// closed.
    Close,
}

/// A message from the server to a client, as in `{"histogram":{"cache":"page",...}}`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// All counts.
    Stats(Box<Stats>),
    /// The bucket histogram.
    Histogram(Box<HistogramReport>),
    /// The volume is closed. Contains the error of the close, if there was one.
    Closed(Option<String>),
    /// The volume is closed and all changes are on the image, but the recording ended early. Contains the
    /// reason.
    Unrecorded(String),
    /// The question cannot be answered. Contains the reason.
    Error(String),
}

/// Sends `message` as one line of JSON.
pub(super) fn send(stream: &mut UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Receives one line of JSON, which must have at most `limit_bytes` bytes and be complete by `deadline`.
///
/// # Errors
/// Returns `TimedOut` if the line is not complete by `deadline`, and `InvalidData` if the line is too long
/// or invalid.
pub(super) fn receive<T: DeserializeOwned>(
    stream: &mut UnixStream,
    limit_bytes: usize,
    deadline: Instant,
) -> io::Result<T> {
    let mut line = Vec::new();
    let mut buffer = [0; 4096];
    while !line.contains(&b'\n') {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let len = match stream.read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(error) => return Err(error),
        };
        if line.len() + len > limit_bytes {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the message is too long",
            ));
        }
        line.extend_from_slice(&buffer[..len]);
    }
    Ok(serde_json::from_slice(&line)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    #[test]
    fn question_and_answer_read_back() {
        let (mut client, mut server) = UnixStream::pair().unwrap();
        let question = Question::Histogram {
            cache: CacheKind::Dentry,
        };
        send(&mut client, &question).unwrap();
        let received: Question = receive(&mut server, QUESTION_BYTES, soon()).unwrap();
        assert_eq!(received, question);
        let report = HistogramReport::of(CacheKind::Dentry, []);
        send(&mut server, &Answer::Histogram(Box::new(report.clone()))).unwrap();
        let received: Answer = receive(&mut client, ANSWER_BYTES, soon()).unwrap();
        assert!(matches!(received, Answer::Histogram(received) if *received == report));
    }

    #[test]
    fn question_is_written_as_documented() {
        let question = Question::Histogram {
            cache: CacheKind::Page,
        };
        assert_eq!(
            serde_json::to_string(&question).unwrap(),
            r#"{"ask":"histogram","cache":"page"}"#
        );
        assert_eq!(
            serde_json::to_string(&Question::Stats).unwrap(),
            r#"{"ask":"stats"}"#
        );
    }

    #[test]
    fn message_that_is_too_long_is_refused() {
        let (mut client, mut server) = UnixStream::pair().unwrap();
        client.write_all(&[b' '; QUESTION_BYTES + 1]).unwrap();
        let error = receive::<Question>(&mut server, QUESTION_BYTES, soon()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn invalid_message_is_refused() {
        let (mut client, mut server) = UnixStream::pair().unwrap();
        client.write_all(b"{\"ask\":\"money\"}\n").unwrap();
        let error = receive::<Question>(&mut server, QUESTION_BYTES, soon()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn endless_message_ends_at_the_deadline() {
        let (mut client, mut server) = UnixStream::pair().unwrap();
        client.write_all(b"{").unwrap();
        let deadline = Instant::now() + Duration::from_millis(20);
        let error = receive::<Question>(&mut server, QUESTION_BYTES, deadline).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
