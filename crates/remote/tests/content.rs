//! The SHA-256 that pins the content of an image.

use larder_block::BlockDevice;
use larder_remote::profile::{Location, Recorder};
use larder_remote::{CacheOptions, ContentDigest, Error, ImageUrl, RemoteDevice, RemoteOptions};
use larder_testkit::http::{HttpServer, Link, Object, Request};
use sha2::{Digest as _, Sha256};
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

const UNIT: usize = 64 << 10;
/// The size of the image: several pieces, and a rest.
const SIZE: usize = 100 * UNIT + 99;

fn content(salt: u8) -> Vec<u8> {
    let byte = |at: usize| (at.wrapping_mul(40_503) >> 7).to_le_bytes()[0] ^ salt;
    (0..SIZE).map(byte).collect()
}

fn digest(content: &[u8]) -> ContentDigest {
    let digest = Sha256::digest(content);
    let digits = digest.iter().fold(String::new(), |digits, byte| {
        digits + &format!("{byte:02x}")
    });
    digits.parse().unwrap()
}

struct Fixture {
    folder: TempDir,
    server: HttpServer,
}

impl Fixture {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            server: HttpServer::of_object(Object::new(content(0), "one"), Link::default()),
        }
    }

    /// Returns options with the digest of `expected`.
    fn options(&self, expected: &[u8]) -> RemoteOptions {
        let mut options = RemoteOptions::default();
        options.sha256 = Some(digest(expected));
        options.cache = Some(CacheOptions {
            directory: self.path("cache"),
            max_bytes: 1 << 30,
        });
        options
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn open(&self, options: &RemoteOptions) -> Result<RemoteDevice, Error> {
        let url = ImageUrl::parse(&self.server.url("disk.img")).unwrap();
        RemoteDevice::open(&url, options)
    }

    fn ranges(&self) -> Vec<Option<(usize, usize)>> {
        let requests = self.server.take_requests();
        requests.iter().map(Request::range).collect()
    }
}

fn read_all(device: &RemoteDevice) -> Vec<u8> {
    let mut buf = vec![0; SIZE];
    device.read_at(&mut buf, 0).unwrap();
    buf
}

#[test]
fn content_is_read_once_and_the_digest_is_remembered() {
    let fixture = Fixture::new();
    let options = fixture.options(&content(0));
    assert!(read_all(&fixture.open(&options).unwrap()) == content(0));
    let fetched: usize = fixture
        .ranges()
        .iter()
        .flatten()
        .map(|(first, last)| last - first + 1)
        .sum();
    assert_eq!(fetched, SIZE);
    drop(fixture.open(&options).unwrap());
    assert_eq!(fixture.ranges(), [Some((0, 0))]);
    let mut offline = options;
    offline.offline = true;
    assert!(read_all(&fixture.open(&offline).unwrap()) == content(0));
    assert_eq!(fixture.ranges(), []);
}

#[test]
fn other_content_is_refused_each_time() {
    let fixture = Fixture::new();
    let expected = Error::OtherContent {
        found: digest(&content(0)),
        expected: digest(&content(1)),
    };
    for _ in 0..2 {
        let opened = fixture.open(&fixture.options(&content(1)));
        assert_eq!(opened.unwrap_err(), expected);
    }
    let text = expected.to_string();
    assert!(text.contains(&digest(&content(1)).to_string()), "{text}");
    // Another version is read anew.
    let replaced = Object::new(content(1), "two");
    fixture.server.replace(replaced);
    drop(fixture.open(&fixture.options(&content(1))).unwrap());
    let opened = fixture.open(&fixture.options(&content(0)));
    assert!(matches!(opened, Err(Error::OtherContent { .. })));
}

#[test]
fn content_is_checked_without_a_disk_cache() {
    let fixture = Fixture::new();
    for (expected, is_same) in [(content(0), true), (content(1), false)] {
        let mut options = fixture.options(&expected);
        options.cache = None;
        // Less memory than the image.
        options.memory_bytes = 4 * UNIT as u64;
        assert_eq!(fixture.open(&options).is_ok(), is_same);
    }
}

#[test]
fn unit_of_a_pack_does_not_replace_content_that_was_checked() {
    let fixture = Fixture::new();
    let unit = 90;
    // The pack has other content, but belongs to the same version.
    let forged = HttpServer::of_object(Object::new(content(1), "one"), Link::default());
    let url = ImageUrl::parse(&forged.url("disk.img")).unwrap();
    let (profile, pack) = (fixture.path("profile"), fixture.path("pack"));
    let recorder = Arc::new(Recorder::create(&profile).unwrap());
    let mut options = RemoteOptions::default();
    options.recorder = Some(Arc::clone(&recorder));
    let device = RemoteDevice::open(&url, &options).unwrap();
    device.read_at(&mut [0], (unit * UNIT) as u64).unwrap();
    recorder.finish().unwrap();
    options.recorder = None;
    options.profile = Some(Location::File(profile));
    let device = RemoteDevice::open(&url, &options).unwrap();
    device.write_pack(&pack, &mut |_, _| ()).unwrap();

    // The content is checked, but the cache has no room for units.
    let mut checked = fixture.options(&content(0));
    let cache = checked.cache.as_mut().unwrap();
    let max_bytes = std::mem::replace(&mut cache.max_bytes, 1);
    drop(fixture.open(&checked).unwrap());
    checked.cache.as_mut().unwrap().max_bytes = max_bytes;
    let mut packed = checked.clone();
    packed.sha256 = None;
    packed.profile = Some(Location::File(pack));
    let device = fixture.open(&packed).unwrap();
    while device.server_counts().unwrap().profile_bytes < UNIT as u64 {
        std::thread::yield_now();
    }
    drop(device);
    assert!(read_all(&fixture.open(&checked).unwrap()) == content(0));
}

#[test]
fn pack_and_image_without_a_strong_etag_are_refused() {
    let fixture = Fixture::new();
    let mut options = fixture.options(&content(0));
    let (profile, pack) = (fixture.path("profile"), fixture.path("pack"));
    let recorder = Arc::new(Recorder::create(&profile).unwrap());
    options.recorder = Some(Arc::clone(&recorder));
    let device = fixture.open(&options).unwrap();
    drop(read_all(&device));
    recorder.finish().unwrap();
    drop(device);
    options.recorder = None;
    options.profile = Some(Location::File(profile));
    let device = fixture.open(&options).unwrap();
    device.write_pack(&pack, &mut |_, _| ()).unwrap();
    drop(device);
    options.profile = Some(Location::File(pack));
    let refused = |options: &RemoteOptions| fixture.open(options).unwrap_err().to_string();
    assert!(refused(&options).contains("pack"));
    options.profile = None;
    options.allow_unversioned = true;
    let mut object = Object::new(content(0), "one");
    object.etag = None;
    fixture.server.replace(object);
    assert!(refused(&options).contains("strong ETag"));
}
