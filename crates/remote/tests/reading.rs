//! Reads of an object on a server with faults: right bytes of one version, or an error.

use larder_block::{BlockDevice, Error as DeviceError, FileRange, PartDevice, Priority, Request};
use larder_remote::{Error, ImageUrl, RemoteDevice, RemoteOptions};
use larder_testkit::http::{Fault, HttpServer, Link, Object};
use larder_testkit::{Random, Seed};
use sha2::{Digest as _, Sha256};
use std::sync::{Arc, Once, OnceLock, mpsc};
use std::time::Duration;

const UNIT: usize = 64 << 10;
/// The size of the image, which is not a multiple of a unit.
const SIZE: usize = 100 * UNIT + 1234;
const ESTALE: i32 = 116;
const EIO: i32 = 5;

/// Returns content that is different for each `salt`.
fn content(salt: u8) -> Vec<u8> {
    let byte = |at: usize| (at.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0] ^ salt;
    (0..SIZE).map(byte).collect()
}

/// The size of an image with many units.
const LONG_SIZE: usize = 600 * UNIT;

/// Returns content of equal units.
fn long_content() -> Vec<u8> {
    vec![7; LONG_SIZE]
}

fn server() -> HttpServer {
    HttpServer::of_object(Object::new(content(0), "one"), Link::default())
}

fn options() -> RemoteOptions {
    let mut options = RemoteOptions::default();
    options.deadline = Duration::from_secs(20);
    options
}

fn open(server: &HttpServer) -> Result<RemoteDevice, Error> {
    let url = ImageUrl::parse(&server.url("disk.img?token=secret")).unwrap();
    RemoteDevice::open(&url, &options())
}

fn read(device: &dyn BlockDevice, offset: usize, len: usize) -> Result<Vec<u8>, DeviceError> {
    let mut buf = vec![0; len];
    device.read_at(&mut buf, offset as u64).map(|()| buf)
}

fn errno(error: &DeviceError) -> Option<i32> {
    match error {
        DeviceError::Io { source, .. } => source.raw_os_error(),
        _ => None,
    }
}

#[test]
fn image_is_ready_after_one_request() {
    let server = server();
    let device = open(&server).unwrap();
    assert_eq!(device.size_bytes(), SIZE as u64);
    assert_eq!(
        read(&device, 1024, 100_000).unwrap(),
        content(0)[1024..101_024]
    );
    let requests = server.take_requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].target, "/disk.img?token=secret");
    assert!(!device.server_counts().unwrap().unversioned);
}

#[test]
fn reads_anywhere_return_the_bytes() {
    let seed = Seed::announced(21);
    let mut random = Random::new(seed);
    let server = server();
    let device = open(&server).unwrap();
    let content = content(0);
    for _ in 0..200 {
        let start = random.index(SIZE);
        let len = random.index(5 * UNIT).min(SIZE - start);
        assert_eq!(
            read(&device, start, len).unwrap(),
            content[start..start + len],
            "{seed:?}"
        );
    }
    let past = read(&device, SIZE - 1, 2).unwrap_err();
    assert!(matches!(past, DeviceError::OutOfRange { .. }));
}

#[test]
fn pieces_of_a_partition_are_the_units_of_the_object() {
    // The start of the first partition on many old disks.
    const START: usize = 63 * 512;
    let server = server();
    let range = FileRange {
        offset_bytes: START as u64,
        size_bytes: None,
    };
    let device = PartDevice::new(Arc::new(open(&server).unwrap()), range).unwrap();
    assert_eq!(read(&device, 0, 9).unwrap(), content(0)[START..START + 9]);
    let pieces = device.pieces().unwrap();
    let end = (UNIT - START) as u64;
    assert_eq!((pieces.number(end - 1), pieces.number(end)), (0, 1));
}

#[test]
fn adjacent_units_are_one_request_and_are_read_once() {
    let server = server();
    let device = open(&server).unwrap();
    drop(server.take_requests());
    for _ in 0..2 {
        read(&device, 20 * UNIT + 7, 8 * UNIT).unwrap();
    }
    let requests = server.take_requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].range(), Some((20 * UNIT, 29 * UNIT - 1)));
    assert_eq!(requests[0].header("if-match"), Some("\"one\""));
}

#[test]
fn unit_is_read_before_the_rest_of_its_run_has_arrived() {
    let server = server();
    let device = open(&server).unwrap();
    drop(server.take_requests());
    // The reply stalls after four of the eight units.
    server.inject([Fault::Stall]);
    let run = Request::read(vec![0_u8; 8 * UNIT], 40 * UNIT as u64, |_, _| ());
    device.submit(vec![run]);
    assert_eq!(
        read(&device, 42 * UNIT, 2 * UNIT).unwrap(),
        content(0)[42 * UNIT..44 * UNIT]
    );
    assert_eq!(server.take_requests().len(), 1);
}

#[test]
fn repeated_request_has_only_the_units_that_did_not_arrive() {
    for fault in [Fault::ShortBody, Fault::ShortReply] {
        let server = server();
        let device = open(&server).unwrap();
        drop(server.take_requests());
        server.inject([fault.clone()]);
        // Three and a half of the seven units arrive.
        assert_eq!(
            read(&device, 40 * UNIT, 7 * UNIT).unwrap(),
            content(0)[40 * UNIT..47 * UNIT],
            "{fault:?}"
        );
        let ranges: Vec<_> = server
            .take_requests()
            .iter()
            .map(|request| request.range().unwrap())
            .collect();
        let end = 47 * UNIT - 1;
        assert_eq!(ranges, [(40 * UNIT, end), (43 * UNIT, end)], "{fault:?}");
        assert_eq!(device.server_counts().unwrap().repeated, 1, "{fault:?}");
    }
}

#[test]
fn many_requests_are_in_flight_at_once() {
    const COUNT: usize = 64;
    let server = HttpServer::of_object(
        Object::new(content(0), "one"),
        Link::new(Duration::from_millis(1), None),
    );
    let device = open(&server).unwrap();
    let (sender, receiver) = mpsc::channel();
    let requests = (0..COUNT).map(|index| {
        let sender = sender.clone();
        let offset = (30 + index) * UNIT;
        Request::read(vec![0_u8; 4096], offset as u64, move |bytes, result| {
            sender.send((offset, result.map(|()| bytes))).unwrap();
        })
        .with_priority(if index % 2 == 0 {
            Priority::Demand
        } else {
            Priority::Background
        })
    });
    device.submit(requests.collect());
    let content = content(0);
    for _ in 0..COUNT {
        let (offset, bytes) = receiver.recv().unwrap();
        assert_eq!(bytes.unwrap(), content[offset..offset + 4096]);
    }
}

/// Starts to read `count` units: `first`, and then every second unit. The results are dropped.
fn start_reads(device: &RemoteDevice, first: usize, count: usize, priority: Priority) {
    let requests = (first..).step_by(2).take(count).map(|unit| {
        let offset_bytes = (unit * UNIT) as u64;
        Request::read(vec![0_u8; 9], offset_bytes, |_, _| ()).with_priority(priority)
    });
    device.submit(requests.collect());
}

/// Waits until the server has received `count` requests, and removes them.
fn await_requests(server: &HttpServer, count: usize) {
    let mut received = 0;
    while received < count {
        received += server.take_requests().len();
        std::thread::yield_now();
    }
    assert_eq!(received, count);
}

#[test]
fn demand_read_does_not_wait_for_background_reads() {
    const BACKGROUND: usize = 96;
    let server = HttpServer::of_object(Object::new(long_content(), "one"), Link::default());
    let device = open(&server).unwrap();
    drop(server.take_requests());
    server.inject(vec![Fault::Stall; BACKGROUND]);
    start_reads(&device, 20, BACKGROUND, Priority::Background);
    await_requests(&server, BACKGROUND);
    // Two more background reads wait in the queue. A thread then reads the unit of the first.
    let last = 20 + 2 * BACKGROUND;
    start_reads(&device, last, 2, Priority::Background);
    read(&device, last * UNIT, UNIT).unwrap();
    await_requests(&server, 1);
    // A thread begins to wait for the unit of the second, without a read of its own.
    device.expedite(((last + 2) * UNIT) as u64, 1);
    await_requests(&server, 1);
}

#[test]
fn requests_are_repeated_after_temporary_faults() {
    let content = content(0);
    for fault in [
        Fault::Whole,
        Fault::ShortBody,
        Fault::ShortReply,
        Fault::WrongRange,
        Fault::NoEtag,
        Fault::Status(503),
        Fault::Status(429),
        Fault::Close,
    ] {
        let server = server();
        let device = open(&server).unwrap();
        server.inject([fault.clone(), fault.clone()]);
        assert_eq!(
            read(&device, 40 * UNIT, UNIT).unwrap(),
            content[40 * UNIT..41 * UNIT],
            "{fault:?}"
        );
        assert_eq!(device.server_counts().unwrap().repeated, 2, "{fault:?}");
        let why = device.server_counts().unwrap().last_failure.unwrap();
        assert!(!why.contains("secret"), "{why}");
    }
}

#[test]
fn opening_is_repeated_after_temporary_faults() {
    let server = server();
    server.inject([Fault::Close, Fault::Status(500), Fault::ShortBody]);
    let device = open(&server).unwrap();
    assert_eq!(read(&device, 0, 10).unwrap(), content(0)[..10]);
}

#[test]
fn opening_requests_again_only_what_did_not_arrive() {
    const FIRST: usize = 1 << 20;
    let server = server();
    server.inject([Fault::ShortBody]);
    let device = open(&server).unwrap();
    let requests = server.take_requests();
    let ranges: Vec<_> = requests
        .iter()
        .map(|request| request.range().unwrap())
        .collect();
    let expected = [(0, FIRST - 1), (FIRST / 2, FIRST - 1)];
    assert_eq!(ranges, expected);
    assert_eq!(requests[1].header("if-match"), Some("\"one\""));
    assert_eq!(read(&device, 0, FIRST).unwrap(), content(0)[..FIRST]);
}

#[test]
fn opening_starts_again_if_the_object_is_replaced_meanwhile() {
    static SERVER: OnceLock<HttpServer> = OnceLock::new();
    static REPLACED: Once = Once::new();
    /// Replaces the object during the check of its content, when a part of it has not been requested yet.
    fn replace(_: u64, _: u64) {
        let other = || Object::new(vec![8_u8; LONG_SIZE], "two");
        REPLACED.call_once(|| SERVER.get().unwrap().replace(other()));
    }
    let object = Object::new(long_content(), "one");
    let server = SERVER.get_or_init(|| HttpServer::of_object(object, Link::default()));
    let url = ImageUrl::parse(&server.url("disk.img")).unwrap();
    let digest = Sha256::digest(vec![8_u8; LONG_SIZE]);
    let digits = digest.iter().fold(String::new(), |digits, byte| {
        digits + &format!("{byte:02x}")
    });
    let mut options = options();
    options.sha256 = Some(digits.parse().unwrap());
    options.progress = Some(replace);
    let device = RemoteDevice::open(&url, &options).unwrap();
    assert!(REPLACED.is_completed());
    assert_eq!(device.version().etag.as_deref(), Some("\"two\""));
    assert_eq!(read(&device, 0, 10).unwrap(), [8; 10]);
}

#[test]
fn opening_fails_if_the_object_is_replaced_each_time() {
    let server = server();
    // Half of the first MiB arrives. The rest is requested from the same version, which no longer exists.
    let replaced = [Fault::ShortBody, Fault::Status(412)];
    server.inject(std::iter::repeat_n(replaced, 4).flatten());
    assert_eq!(open(&server).unwrap_err(), Error::Replaced);
    assert_eq!(server.take_requests().len(), 8);
}

#[test]
fn read_fails_after_the_deadline() {
    let server = server();
    let url = ImageUrl::parse(&server.url("disk.img")).unwrap();
    let mut options = options();
    options.deadline = Duration::from_millis(300);
    let device = RemoteDevice::open(&url, &options).unwrap();
    // A stall lasts until the client closes the connection.
    server.inject(vec![Fault::Stall; 100]);
    let error = read(&device, 40 * UNIT, UNIT).unwrap_err();
    assert_eq!(errno(&error), Some(EIO));
    assert_eq!(device.server_counts().unwrap().failed, 1);
    let why = device.server_counts().unwrap().last_failure.unwrap();
    assert!(why.contains("does not answer"), "{why}");
}

#[test]
fn pages_of_a_failed_read_fail_at_once() {
    let server = server();
    let url = ImageUrl::parse(&server.url("disk.img")).unwrap();
    let mut options = options();
    options.deadline = Duration::from_millis(300);
    let device = RemoteDevice::open(&url, &options).unwrap();
    // Four of eight units arrive, and then nothing more.
    server.inject([Fault::ShortBody]);
    server.inject(vec![Fault::Status(503); 100]);
    let error = read(&device, 40 * UNIT, 8 * UNIT).unwrap_err();
    assert_eq!(errno(&error), Some(EIO));
    drop(server.take_requests());
    // The failure is forgotten after a while, so the pages are read without a pause.
    let content = content(0);
    for page in 0..8 * UNIT / 4096 {
        let at = 40 * UNIT + page * 4096;
        let read = read(&device, at, 4096);
        let expected = (at < 44 * UNIT).then(|| content[at..at + 4096].to_vec());
        assert_eq!(read.as_ref().ok(), expected.as_ref());
        assert!(read.is_ok() || read.is_err_and(|error| errno(&error) == Some(EIO)));
    }
    assert_eq!(server.take_requests().len(), 0);
}

#[test]
fn replaced_object_is_never_mixed_with_the_old_one() {
    for fault in [None, Some(Fault::NoEtag)] {
        let server = server();
        let device = open(&server).unwrap();
        let old = read(&device, 40 * UNIT, UNIT).unwrap();
        server.replace(Object::new(content(1), "two"));
        server.inject(fault);
        let error = read(&device, 50 * UNIT, UNIT).unwrap_err();
        assert_eq!(errno(&error), Some(ESTALE));
        // The unit that was read before is still that of the old version.
        assert_eq!(read(&device, 40 * UNIT, UNIT).unwrap(), old);
    }
}

#[test]
fn server_that_disregards_the_condition_is_noticed() {
    let server = server();
    let device = open(&server).unwrap();
    let mut other = Object::new(content(1), "two");
    other.ignores_conditions = true;
    server.replace(other);
    let error = read(&device, 50 * UNIT, UNIT).unwrap_err();
    assert_eq!(errno(&error), Some(ESTALE));
}

#[test]
fn shorter_object_is_a_replaced_one() {
    let server = server();
    let device = open(&server).unwrap();
    let mut shorter = Object::new(content(1)[..9 * UNIT].to_vec(), "two");
    shorter.ignores_conditions = true;
    server.replace(shorter);
    let error = read(&device, 50 * UNIT, UNIT).unwrap_err();
    assert_eq!(errno(&error), Some(ESTALE));
}

#[test]
fn removed_object_is_reported() {
    let server = server();
    let device = open(&server).unwrap();
    server.inject([Fault::Status(404)]);
    let error = read(&device, 50 * UNIT, UNIT).unwrap_err();
    assert_eq!(errno(&error), Some(ESTALE));
}

#[test]
fn read_that_the_server_refuses_fails_at_once() {
    let server = server();
    let device = open(&server).unwrap();
    drop(server.take_requests());
    server.inject([Fault::Status(400)]);
    let error = read(&device, 50 * UNIT, UNIT).unwrap_err();
    assert_eq!(errno(&error), Some(EIO));
    assert_eq!(server.take_requests().len(), 1);
    let why = device.server_counts().unwrap().last_failure.unwrap();
    assert!(why.contains("status 400"), "{why}");
}

#[test]
fn object_without_a_strong_version_is_refused() {
    for etag in [None, Some("W/\"one\"".to_owned())] {
        let mut object = Object::new(content(0), "one");
        object.etag = etag;
        let server = HttpServer::of_object(object.clone(), Link::default());
        assert_eq!(open(&server).unwrap_err(), Error::NoVersion);
        let url = ImageUrl::parse(&server.url("disk.img")).unwrap();
        let mut options = options();
        options.allow_unversioned = true;
        let device = RemoteDevice::open(&url, &options).unwrap();
        assert!(device.server_counts().unwrap().unversioned);
        assert_eq!(
            read(&device, 40 * UNIT, 9).unwrap(),
            content(0)[40 * UNIT..40 * UNIT + 9]
        );
        object.modified = "Tue, 24 Nov 2026 12:00:01 GMT".to_owned();
        server.replace(object);
        let error = read(&device, 50 * UNIT, UNIT).unwrap_err();
        assert_eq!(errno(&error), Some(ESTALE));
    }
}

#[test]
fn object_without_any_version_is_refused() {
    let mut object = Object::new(content(0), "one");
    object.etag = None;
    object.modified = String::new();
    let server = HttpServer::of_object(object, Link::default());
    let url = ImageUrl::parse(&server.url("disk.img")).unwrap();
    let mut options = options();
    options.allow_unversioned = true;
    assert_eq!(
        RemoteDevice::open(&url, &options).unwrap_err(),
        Error::NoVersion
    );
}

#[test]
fn opening_says_what_is_wrong() {
    for (fault, expected) in [
        (Fault::Status(404), Error::NotFound),
        (Fault::Status(403), Error::Denied),
        (Fault::Status(401), Error::Denied),
        (Fault::Status(416), Error::Empty),
        (Fault::Status(301), Error::Status(301)),
        (Fault::Status(400), Error::Status(400)),
        (Fault::Status(405), Error::Status(405)),
        (Fault::Status(409), Error::Status(409)),
    ] {
        let server = server();
        server.inject([fault]);
        assert_eq!(open(&server).unwrap_err(), expected);
        assert_eq!(server.take_requests().len(), 1, "{expected}");
    }
    let server = server();
    server.inject(vec![Fault::Whole; 100]);
    let url = ImageUrl::parse(&server.url("disk.img")).unwrap();
    let mut options = options();
    options.deadline = Duration::from_millis(300);
    assert_eq!(
        RemoteDevice::open(&url, &options).unwrap_err(),
        Error::NoRanges
    );
}

#[test]
fn credentials_do_not_follow_a_redirect_to_another_host() {
    let (first, second) = (server(), server());
    // Another port is another origin.
    first.inject([Fault::Redirect(second.url("disk.img"))]);
    let url = first
        .url("disk.img?signature=secret")
        .replace("http://", "http://user:password@");
    let device = RemoteDevice::open(&ImageUrl::parse(&url).unwrap(), &options()).unwrap();
    assert_eq!(device.size_bytes(), SIZE as u64);
    let sent = first.take_requests();
    assert_eq!(
        sent[0].header("authorization"),
        Some("Basic dXNlcjpwYXNzd29yZA==")
    );
    let redirected = second.take_requests();
    assert_eq!(redirected.len(), 1);
    assert_eq!(redirected[0].header("authorization"), None);
    assert_eq!(redirected[0].header("referer"), None);
}
