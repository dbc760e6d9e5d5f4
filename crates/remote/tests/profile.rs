//! Profiles and packs: the next start costs few requests, and never gets wrong bytes.

use larder_block::{BlockDevice, Error as DeviceError, Priority, Request as DeviceRequest};
use larder_remote::profile::{self, Location, Profile, Recorder};
use larder_remote::{CacheOptions, Error, ImageUrl, RemoteDevice, RemoteOptions};
use larder_testkit::http::{Fault, HttpServer, Link, Object};
use larder_testkit::{Random, Seed};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use tempfile::TempDir;

const UNIT: usize = 64 << 10;
/// The size of the image, which is not a multiple of a unit.
const SIZE: usize = 600 * UNIT + 1234;
/// The number of units that the first request of each mount reads.
const FIRST_UNITS: usize = 16;

/// Returns content that is different for each `salt`.
fn content(salt: u8) -> Vec<u8> {
    let byte = |at: usize| (at.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0] ^ salt;
    (0..SIZE).map(byte).collect()
}

/// A server with an image, and a directory for a profile and a pack.
struct Fixture {
    folder: TempDir,
    server: HttpServer,
    content: Vec<u8>,
}

impl Fixture {
    fn new() -> Self {
        let content = content(0);
        let object = Object::new(content.clone(), "one");
        Self {
            folder: tempfile::tempdir().unwrap(),
            server: HttpServer::of_object(object, Link::default()),
            content,
        }
    }

    fn url(&self) -> ImageUrl {
        ImageUrl::parse(&self.server.url("disk.img?token=secret")).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Opens the image with a profile or a pack.
    fn open_with(&self, profile: &Path) -> Result<RemoteDevice, Error> {
        self.open_at(Location::File(profile.to_owned()))
    }

    fn open_at(&self, profile: Location) -> Result<RemoteDevice, Error> {
        let mut options = options();
        options.profile = Some(profile);
        RemoteDevice::open(&self.url(), &options)
    }

    /// Reads `units`, and records them in a profile, whose path is returned.
    fn record(&self, units: &[usize]) -> PathBuf {
        let path = self.path("profile");
        let recorder = Arc::new(Recorder::create(&path).unwrap());
        let mut options = options();
        options.recorder = Some(Arc::clone(&recorder));
        let device = RemoteDevice::open(&self.url(), &options).unwrap();
        self.check_units(&device, units);
        recorder.finish().unwrap();
        drop(self.server.take_requests());
        path
    }

    /// Records `units`, and packs them.
    fn pack(&self, units: &[usize]) -> PathBuf {
        let path = self.path("pack");
        let profile = self.record(units);
        let device = self.open_with(&profile).unwrap();
        device.write_pack(&path, &mut |_, _| ()).unwrap();
        drop(self.server.take_requests());
        path
    }

    /// Checks that reads of a part of each unit return the right bytes.
    #[track_caller]
    fn check_units(&self, device: &RemoteDevice, units: &[usize]) {
        for unit in units {
            let start = unit * UNIT + 10;
            let bytes = read(device, start, 500).unwrap();
            assert!(bytes == self.content[start..start + 500], "unit {unit}");
        }
    }

    fn replace(&self) {
        self.server.replace(Object::new(content(1), "two"));
    }
}

fn options() -> RemoteOptions {
    let mut options = RemoteOptions::default();
    options.deadline = Duration::from_secs(20);
    options.memory_bytes = 64 << 20;
    options
}

fn read(device: &RemoteDevice, offset: usize, len: usize) -> Result<Vec<u8>, DeviceError> {
    let mut buf = vec![0; len];
    device.read_at(&mut buf, offset as u64).map(|()| buf)
}

/// Returns the units of a start: many runs in a random order.
fn working_set() -> Vec<usize> {
    let mut random = Random::new(Seed::announced(7));
    let mut runs: Vec<usize> = (2..40).collect();
    let mut units = vec![0];
    while !runs.is_empty() {
        let run = runs.swap_remove(random.index(runs.len()));
        units.extend(run * 15..run * 15 + 13);
    }
    units
}

#[track_caller]
fn refused(opened: Result<RemoteDevice, Error>) -> profile::Error {
    match opened {
        Err(Error::Profile { why, .. }) => why,
        opened => panic!("{opened:?}"),
    }
}

#[test]
fn profile_lists_what_was_read_in_order_and_no_secret() {
    let fixture = Fixture::new();
    let path = fixture.record(&[300, 2, 301, 2, 600]);
    let text = fs::read_to_string(path).unwrap();
    let profile = Profile::parse(text.as_bytes()).unwrap();
    assert_eq!(profile.units(), [300, 2, 301, 600]);
    assert!(
        text.contains("disk.img\n") && !text.contains("secret"),
        "{text}"
    );
}

#[test]
fn start_with_a_profile_costs_few_requests() {
    let fixture = Fixture::new();
    let units = working_set();
    let device = fixture.open_with(&fixture.record(&units)).unwrap();
    fixture.check_units(&device, &units);
    let requests = fixture.server.take_requests();
    assert!(requests.len() <= 20, "{} requests", requests.len());
    let counts = device.server_counts().unwrap();
    let used = counts.profile_used_bytes;
    let expected = units.iter().filter(|&&unit| unit >= FIRST_UNITS).count() * UNIT;
    assert_eq!(used, expected as u64);
    assert!(used * 5 >= counts.profile_bytes * 4, "{counts:?}");
}

#[test]
fn start_with_a_pack_costs_two_requests() {
    let fixture = Fixture::new();
    let units = working_set();
    let pack = fixture.pack(&units);
    let object = Object::new(fs::read(&pack).unwrap(), "pack");
    let packs = HttpServer::of_object(object, Link::default());
    let url = ImageUrl::parse(&packs.url("start.pack?token=secret")).unwrap();
    for (location, requests) in [(Location::Url(url), 2), (Location::File(pack), 1)] {
        let device = fixture.open_at(location).unwrap();
        fixture.check_units(&device, &units);
        let sent = fixture.server.take_requests().len() + packs.take_requests().len();
        assert_eq!(sent, requests);
        let counts = device.server_counts().unwrap();
        assert_eq!(counts.requests, requests as u64);
        // Unit 0 is also in the first reply, so the unit in the pack is fetched, but not used.
        assert_eq!(
            counts.profile_used_bytes + UNIT as u64,
            counts.profile_bytes
        );
    }
}

#[test]
fn profile_at_a_url_is_read_with_one_request() {
    let fixture = Fixture::new();
    let profile = fixture.record(&[100, 101]);
    let object = Object::new(fs::read(profile).unwrap(), "profile");
    let profiles = HttpServer::of_object(object, Link::default());
    let url = ImageUrl::parse(&profiles.url("start.profile")).unwrap();
    let device = fixture.open_at(Location::Url(url)).unwrap();
    fixture.check_units(&device, &[100, 101]);
    assert_eq!(profiles.take_requests().len(), 1);
    assert_eq!(fixture.server.take_requests().len(), 2);
}

#[test]
fn units_are_fetched_without_being_read() {
    let fixture = Fixture::new();
    let profile = fixture.record(&[100, 101, 102]);
    let device = fixture.open_with(&profile).unwrap();
    while device.server_counts().unwrap().profile_bytes < 3 * UNIT as u64 {
        std::thread::yield_now();
    }
    assert_eq!(device.server_counts().unwrap().profile_used_bytes, 0);
}

#[test]
fn profile_and_pack_of_another_version_are_refused() {
    let fixture = Fixture::new();
    let pack = fixture.pack(&[100]);
    let profile = fixture.path("profile");
    fixture.replace();
    for path in [profile, pack] {
        let why = refused(fixture.open_with(&path));
        assert!(matches!(why, profile::Error::OtherVersion { .. }), "{why}");
        let why = why.to_string();
        assert!(why.contains("one") && why.contains("two"), "{why}");
    }
}

#[test]
fn damaged_profile_and_pack_are_refused() {
    let fixture = Fixture::new();
    let pack = fixture.pack(&[100, 200]);
    let damaged = fixture.path("damaged");
    for (path, at) in [
        (fixture.path("profile"), 60),
        (pack.clone(), 20),
        (pack, 60),
    ] {
        let mut bytes = fs::read(&path).unwrap();
        bytes[at] ^= 1;
        fs::write(&damaged, &bytes).unwrap();
        let why = refused(fixture.open_with(&damaged));
        assert!(matches!(why, profile::Error::Damaged(_)), "{why}");
        fs::write(&damaged, &bytes[..at]).unwrap();
        refused(fixture.open_with(&damaged));
    }
    fs::write(
        &damaged,
        "any other text, which can be longer than the head of a pack",
    )
    .unwrap();
    assert_eq!(
        refused(fixture.open_with(&damaged)),
        profile::Error::Unknown
    );
    let why = refused(fixture.open_with(&fixture.path("missing")));
    assert!(matches!(why, profile::Error::Io(_)), "{why}");
}

#[test]
fn missing_profile_at_a_url_is_reported() {
    let fixture = Fixture::new();
    let packs = HttpServer::of_object(Object::new(Vec::new(), "x"), Link::default());
    packs.inject([Fault::Status(404)]);
    let url = ImageUrl::parse(&packs.url("start.pack?token=secret")).unwrap();
    let error = fixture.open_at(Location::Url(url)).unwrap_err().to_string();
    assert!(
        error.contains("start.pack") && error.contains("no such object"),
        "{error}"
    );
    assert!(!error.contains("secret"), "{error}");
}

#[test]
fn damaged_unit_in_a_pack_is_fetched_from_the_image() {
    let fixture = Fixture::new();
    let pack = fixture.pack(&[100, 200, 300]);
    let mut bytes = fs::read(&pack).unwrap();
    let end = bytes.len();
    for cut in [false, true] {
        if cut {
            bytes.truncate(end - UNIT - 5);
        } else {
            bytes[end - UNIT - 5] ^= 1;
        }
        fs::write(&pack, &bytes).unwrap();
        let device = fixture.open_with(&pack).unwrap();
        fixture.check_units(&device, &[300, 200, 100]);
        let fetched: Vec<_> = ranges(&fixture.server).collect();
        assert_eq!(fetched[1..], [unit_range(300), unit_range(200)]);
    }
}

/// Returns the ranges of the requests that `server` has received.
fn ranges(server: &HttpServer) -> impl Iterator<Item = (usize, usize)> {
    let requests = server.take_requests().into_iter();
    requests.map(|request| request.range().unwrap())
}

fn unit_range(unit: usize) -> (usize, usize) {
    (unit * UNIT, (unit + 1) * UNIT - 1)
}

#[test]
fn fault_during_the_prefetch_gives_no_wrong_bytes() {
    let fixture = Fixture::new();
    let units: Vec<usize> = (100..140).chain(300..340).collect();
    let profile = fixture.record(&units);
    for fault in [
        Fault::Whole,
        Fault::ShortBody,
        Fault::ShortReply,
        Fault::WrongRange,
        Fault::NoEtag,
        Fault::Status(503),
        Fault::Close,
    ] {
        let mut options = options();
        options.profile = Some(Location::File(profile.clone()));
        // The first request reads the start of the image.
        let faults = [Fault::None, fault.clone(), fault.clone(), fault];
        fixture.server.inject(faults);
        let device = RemoteDevice::open(&fixture.url(), &options).unwrap();
        fixture.check_units(&device, &units);
    }
}

#[test]
fn fault_in_a_pack_gives_no_wrong_bytes() {
    let fixture = Fixture::new();
    let units: Vec<usize> = (100..140).collect();
    let object = Object::new(fs::read(fixture.pack(&units)).unwrap(), "pack");
    for fault in [
        Fault::ShortBody,
        Fault::ShortReply,
        Fault::WrongRange,
        Fault::Status(503),
        Fault::Close,
    ] {
        let packs = HttpServer::of_object(object.clone(), Link::default());
        packs.inject([fault]);
        let url = ImageUrl::parse(&packs.url("start.pack")).unwrap();
        let device = fixture.open_at(Location::Url(url)).unwrap();
        fixture.check_units(&device, &units);
        assert_eq!(fixture.server.take_requests().len(), 1);
        assert!(packs.take_requests().len() > 1);
    }
}

#[test]
fn pack_that_is_replaced_while_it_is_read_is_not_mixed() {
    let fixture = Fixture::new();
    let units: Vec<usize> = (100..140).collect();
    let pack = fs::read(fixture.pack(&units)).unwrap();
    let packs = HttpServer::of_object(Object::new(pack.clone(), "pack"), Link::default());
    packs.inject([Fault::ShortBody]);
    let url = ImageUrl::parse(&packs.url("start.pack")).unwrap();
    let device = fixture.open_at(Location::Url(url)).unwrap();
    packs.replace(Object::new(vec![0; pack.len()], "other"));
    fixture.check_units(&device, &units);
}

#[test]
fn read_does_not_wait_for_a_prefetch_that_stalls() {
    let fixture = Fixture::new();
    let units: Vec<usize> = (100..140).collect();
    let profile = fixture.record(&units);
    fixture.server.inject([Fault::None, Fault::Stall]);
    let device = fixture.open_with(&profile).unwrap();
    // The first half of the reply arrives, and then nothing more.
    fixture.check_units(&device, &[100]);
    drop(fixture.server.take_requests());
    fixture.check_units(&device, &[139]);
    let fetched: Vec<_> = ranges(&fixture.server).collect();
    assert_eq!(fetched, [unit_range(139)]);
}

#[test]
fn readahead_is_wanted_again_after_reads_of_other_units() {
    let fixture = Fixture::new();
    let profile = fixture.record(&[100, 101]);
    let device = fixture.open_with(&profile).unwrap();
    fixture.check_units(&device, &[100, 101, 0, 1, 2, 100]);
    assert!(!device.wants_readahead());
    let others: Vec<usize> = (200..209).collect();
    fixture.check_units(&device, &others[..8]);
    assert!(!device.wants_readahead());
    fixture.check_units(&device, &others[8..]);
    assert!(device.wants_readahead());
    let device = RemoteDevice::open(&fixture.url(), &options()).unwrap();
    assert!(device.wants_readahead());
}

#[test]
fn readahead_is_not_wanted_during_a_recording() {
    let fixture = Fixture::new();
    let mut options = options();
    let recorder = Recorder::create(&fixture.path("profile")).unwrap();
    options.recorder = Some(Arc::new(recorder));
    let device = RemoteDevice::open(&fixture.url(), &options).unwrap();
    fixture.check_units(&device, &(100..120).collect::<Vec<_>>());
    assert!(!device.wants_readahead());
}

#[test]
fn replaced_image_fails_with_estale_with_a_profile() {
    let fixture = Fixture::new();
    let profile = fixture.record(&[100, 300]);
    let device = fixture.open_with(&profile).unwrap();
    fixture.check_units(&device, &[100, 300]);
    fixture.replace();
    assert!(read(&device, 400 * UNIT, 1).is_err());
    fixture.check_units(&device, &[100, 300]);
}

#[test]
fn cached_units_are_not_fetched_again() {
    let fixture = Fixture::new();
    let units = working_set();
    let profile = fixture.record(&units);
    let pack = fixture.pack(&units);
    let mut options = options();
    options.cache = Some(CacheOptions {
        directory: fixture.path("cache"),
        max_bytes: 1 << 30,
    });
    options.profile = Some(Location::File(profile));
    {
        let device = RemoteDevice::open(&fixture.url(), &options).unwrap();
        fixture.check_units(&device, &units);
    }
    drop(fixture.server.take_requests());
    for path in [fixture.path("profile"), pack] {
        options.profile = Some(Location::File(path));
        let device = RemoteDevice::open(&fixture.url(), &options).unwrap();
        fixture.check_units(&device, &units);
        assert_eq!(ranges(&fixture.server).collect::<Vec<_>>(), [(0, 0)]);
        assert_eq!(device.server_counts().unwrap().profile_bytes, 0);
    }
}

#[test]
fn prefetch_without_a_disk_cache_is_limited_to_memory() {
    let fixture = Fixture::new();
    let units: Vec<usize> = (100..200).collect();
    let pack = fixture.pack(&units);
    let mut options = options();
    options.memory_bytes = 40 * UNIT as u64;
    for path in [fixture.path("profile"), pack] {
        options.profile = Some(Location::File(path));
        let device = RemoteDevice::open(&fixture.url(), &options).unwrap();
        let limit = 30 * UNIT as u64;
        while device.server_counts().unwrap().profile_bytes < limit {
            std::thread::yield_now();
        }
        fixture.check_units(&device, &units);
        assert_eq!(device.server_counts().unwrap().profile_bytes, limit);
    }
}

fn with_cache(fixture: &Fixture, name: &str, max_bytes: u64) -> RemoteOptions {
    let mut options = options();
    options.memory_bytes = 40 * UNIT as u64;
    options.cache = Some(CacheOptions {
        directory: fixture.path(name),
        max_bytes,
    });
    options
}

#[test]
fn prefetch_with_a_small_disk_cache_is_limited_to_its_room() {
    let fixture = Fixture::new();
    let units: Vec<usize> = (100..200).collect();
    let pack = fixture.pack(&units);
    for (path, cache) in [(fixture.path("profile"), "first"), (pack, "second")] {
        let max_bytes = 50 * UNIT as u64;
        let mut options = with_cache(&fixture, cache, max_bytes);
        options.profile = Some(Location::File(path));
        let device = RemoteDevice::open(&fixture.url(), &options).unwrap();
        fixture.check_units(&device, &units);
        let fetched = device.server_counts().unwrap().profile_bytes;
        assert!(fetched <= max_bytes, "{fetched}");
    }
}

#[test]
fn prefetched_units_that_memory_cannot_keep_are_stored_before_they_are_dropped() {
    let fixture = Fixture::new();
    let units: Vec<usize> = (100..200).collect();
    let pack = fixture.pack(&units);
    for (path, cache) in [(fixture.path("profile"), "first"), (pack, "second")] {
        let mut options = with_cache(&fixture, cache, 1 << 30);
        options.profile = Some(Location::File(path));
        let device = RemoteDevice::open(&fixture.url(), &options).unwrap();
        let expected = 100 * UNIT as u64;
        while device.server_counts().unwrap().profile_bytes < expected {
            std::thread::yield_now();
        }
        // A read of a unit from the disk cache drops another one from memory. The latest may not be stored yet.
        let latest_first: Vec<usize> = units.iter().rev().copied().collect();
        fixture.check_units(&device, &latest_first);
        assert_eq!(device.server_counts().unwrap().profile_used_bytes, expected);
    }
}

#[test]
fn drop_stores_the_units_that_have_arrived_and_does_not_wait_for_the_rest_of_the_pack() {
    let fixture = Fixture::new();
    let units: Vec<usize> = (100..140).collect();
    let pack = fs::read(fixture.pack(&units)).unwrap();
    let packs = HttpServer::of_object(Object::new(pack, "pack"), Link::default());
    // Half of the pack arrives.
    packs.inject([Fault::Stall]);
    let url = ImageUrl::parse(&packs.url("start.pack")).unwrap();
    let mut options = with_cache(&fixture, "cache", 1 << 30);
    options.profile = Some(Location::Url(url));
    let device = RemoteDevice::open(&fixture.url(), &options).unwrap();
    while device.server_counts().unwrap().profile_bytes < 10 * UNIT as u64 {
        std::thread::yield_now();
    }
    drop(device);
    // Only now does the stall end.
    drop(packs);
    options.profile = None;
    options.offline = true;
    let device = RemoteDevice::open(&fixture.url(), &options).unwrap();
    // The unit that was counted last may not have been delivered before the drop.
    fixture.check_units(&device, &units[..9]);
}

#[test]
fn unit_that_is_fetched_again_is_not_counted_as_used() {
    let fixture = Fixture::new();
    let units: Vec<usize> = (100..120).collect();
    let mut options = options();
    options.memory_bytes = 40 * UNIT as u64;
    options.profile = Some(Location::File(fixture.record(&units)));
    let device = RemoteDevice::open(&fixture.url(), &options).unwrap();
    while device.server_counts().unwrap().profile_bytes < 20 * UNIT as u64 {
        std::thread::yield_now();
    }
    // More than memory can keep.
    fixture.check_units(&device, &(300..400).collect::<Vec<_>>());
    fixture.check_units(&device, &units);
    assert_eq!(device.server_counts().unwrap().profile_used_bytes, 0);
}

#[test]
fn profile_needs_requests() {
    let fixture = Fixture::new();
    let mut options = options();
    options.profile = Some(Location::File(fixture.record(&[1])));
    options.offline = true;
    let error = RemoteDevice::open(&fixture.url(), &options).unwrap_err();
    assert!(error.to_string().contains("offline"), "{error}");
}

#[test]
fn pack_needs_a_strong_version() {
    let fixture = Fixture::new();
    let mut object = Object::new(content(0), "one");
    object.etag = None;
    fixture.server.replace(object);
    let mut options = options();
    options.allow_unversioned = true;
    let path = fixture.path("profile");
    let recorder = Arc::new(Recorder::create(&path).unwrap());
    options.recorder = Some(Arc::clone(&recorder));
    let device = RemoteDevice::open(&fixture.url(), &options).unwrap();
    fixture.check_units(&device, &[100]);
    recorder.finish().unwrap();
    options.recorder = None;
    options.profile = Some(Location::File(path));
    let device = RemoteDevice::open(&fixture.url(), &options).unwrap();
    fixture.check_units(&device, &[100]);
    let pack = fixture.path("pack");
    assert_eq!(
        device.write_pack(&pack, &mut |_, _| ()),
        Err(profile::Error::NoVersion)
    );
    assert!(!pack.exists());
}

#[test]
fn concurrent_reads_during_the_prefetch_get_the_bytes() {
    let seed = Seed::announced(11);
    let mut random = Random::new(seed);
    let fixture = Fixture::new();
    let profile = fixture.record(&working_set());
    let device = fixture.open_with(&profile).unwrap();
    let (sender, receiver) = mpsc::channel();
    let requests: Vec<DeviceRequest> = (0..300)
        .map(|index| {
            let sender = sender.clone();
            let start = random.index(SIZE - 3 * UNIT);
            let len = 1 + random.index(3 * UNIT);
            let done = move |bytes, result: Result<(), DeviceError>| {
                sender.send((start, result.map(|()| bytes))).unwrap();
            };
            let priority = if index % 2 == 0 {
                Priority::Demand
            } else {
                Priority::Background
            };
            DeviceRequest::read(vec![0_u8; len], start as u64, done).with_priority(priority)
        })
        .collect();
    device.submit(requests);
    for _ in 0..300 {
        let (start, bytes) = receiver.recv().unwrap();
        let bytes = bytes.unwrap();
        assert!(
            bytes == fixture.content[start..start + bytes.len()],
            "{seed:?}"
        );
    }
}
