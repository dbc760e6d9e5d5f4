//! The option --sha256.

#[allow(dead_code, reason = "each test uses a part of it")]
mod fixture;
#[allow(dead_code, reason = "each test uses a part of it")]
mod larder;

use fixture::{Fixture, SECRET, assert_hidden, larder_fails};
use larder::{PROGRAM, command, command_of};
use larder_testkit::{Requirement, skip};
use std::process::{Command, Output, Stdio};

/// The size of the image of a fixture.
const IMAGE_BYTES: usize = 64 << 20;

/// Returns an image, and its SHA-256. Returns `None` if a tool is not installed.
fn with_digest() -> Option<(Fixture, String)> {
    if skip(&[Requirement::Tool("sha256sum")]) {
        return None;
    }
    let fixture = Fixture::new()?;
    let mut sum = Command::new("sha256sum");
    let sum = sum.arg(fixture.path("image")).output().unwrap();
    let text = String::from_utf8(sum.stdout).unwrap();
    let digest = text.split(' ').next().unwrap().to_owned();
    assert_eq!(digest.len(), 64, "{text}");
    Some((fixture, digest))
}

/// Prints the file `hello`, with `args` and the disk cache in the folder of `fixture`.
fn cat(fixture: &Fixture, args: &[&str]) -> Output {
    let mut command = command();
    command.args(["cat", &fixture.url(), "/hello", "--cache-dir"]);
    let output = command.arg(fixture.path("cache")).args(args).output();
    let output = output.unwrap();
    assert_hidden(&output.stderr);
    output
}

#[track_caller]
fn assert_reads(output: &Output) {
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{messages}");
    assert_eq!(output.stdout, b"hello\n");
    // The progress is shown only on a terminal.
    assert_eq!(messages, "");
}

#[test]
fn image_is_checked_once_and_read_if_it_has_the_digest() {
    let Some((fixture, digest)) = with_digest() else {
        return;
    };
    assert_reads(&cat(&fixture, &["--sha256", &digest]));
    drop(fixture.server.take_requests());
    assert_reads(&cat(&fixture, &["--sha256", &digest]));
    let requests = fixture.server.take_requests();
    assert_eq!(requests[0].range(), Some((0, 0)));
    // The disk may have been too slow to store all parts.
    let lengths = requests.iter().map(|request| {
        let (first, last) = request.range().unwrap();
        last + 1 - first
    });
    assert!(lengths.sum::<usize>() < IMAGE_BYTES / 2);
}

#[test]
fn image_with_another_digest_is_refused() {
    let Some((fixture, digest)) = with_digest() else {
        return;
    };
    let other = "0123456789abcdef".repeat(4);
    let output = cat(&fixture, &["--sha256", &other]);
    assert!(!output.status.success() && output.stdout.is_empty());
    let message = String::from_utf8(output.stderr).unwrap();
    for text in [digest.as_str(), &other, "check the URL and the SHA-256"] {
        assert!(message.contains(text), "{message}");
    }
    let message = larder_fails(["ls", &fixture.url(), "--sha256", &digest[1..]]);
    for text in ["64 hexadecimal digits", "sha256sum"] {
        assert!(message.contains(text), "{message}");
    }
}

#[test]
fn progress_of_the_check_is_shown_on_a_terminal() {
    if skip(&[Requirement::Tool("script")]) {
        return;
    }
    let Some((fixture, digest)) = with_digest() else {
        return;
    };
    let url = fixture.url();
    let line = format!("'{PROGRAM}' cat '{url}' /hello --cache-disk-size 0 --sha256 {digest}");
    let mut terminal = command_of("script");
    terminal.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    terminal.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut terminal = terminal.spawn().unwrap();
    // At the end of its input, the terminal would print ^D.
    let input = terminal.stdin.take();
    let output = terminal.wait_with_output().unwrap();
    drop(input);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{shown}");
    assert!(!shown.contains(SECRET), "{shown}");
    for part in [
        "note: checking the SHA-256 of the image\r\n",
        " 2.00 MiB of 64.00 MiB, ",
        "/s, ",
        " left",
    ] {
        assert!(shown.contains(part), "{part:?} is not in {shown:?}");
    }
    assert!(shown.ends_with("hello\r\n"), "{shown:?}");
}
