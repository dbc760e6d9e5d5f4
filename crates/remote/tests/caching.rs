//! Images whose units are cached on disk.

use larder_block::{BlockDevice, Error as DeviceError};
use larder_remote::disk_cache::CacheDir;
use larder_remote::{CacheOptions, Error, ImageUrl, RemoteDevice, RemoteOptions};
use larder_testkit::http::{HttpServer, Link, Object, Request};
use std::path::Path;
use tempfile::TempDir;

const UNIT: usize = 64 << 10;
const SIZE: usize = 64 * UNIT + 99;

fn content(salt: u8) -> Vec<u8> {
    let byte = |at: usize| (at.wrapping_mul(40_503) >> 7).to_le_bytes()[0] ^ salt;
    (0..SIZE).map(byte).collect()
}

fn server() -> HttpServer {
    HttpServer::of_object(Object::new(content(0), "one"), Link::default())
}

/// Returns a directory for the cache, a server, and the URL of an image on it.
fn fixture() -> (TempDir, HttpServer, ImageUrl) {
    let server = server();
    let url = ImageUrl::parse(&server.url("disk.img")).unwrap();
    (tempfile::tempdir().unwrap(), server, url)
}

fn options(directory: &Path) -> RemoteOptions {
    let mut options = RemoteOptions::default();
    options.cache = Some(CacheOptions {
        directory: directory.join("cache"),
        max_bytes: 1 << 30,
    });
    options
}

fn read(device: &RemoteDevice, offset: usize, len: usize) -> Result<Vec<u8>, DeviceError> {
    let mut buf = vec![0; len];
    device.read_at(&mut buf, offset as u64).map(|()| buf)
}

/// Opens the image, reads all of it, and closes it.
fn fill(url: &ImageUrl, folder: &TempDir) {
    let device = RemoteDevice::open(url, &options(folder.path())).unwrap();
    assert_eq!(read(&device, 0, SIZE).unwrap(), content(0));
}

#[test]
fn cached_image_costs_one_request_for_one_byte() {
    let (folder, server, url) = fixture();
    fill(&url, &folder);
    drop(server.take_requests());
    let device = RemoteDevice::open(&url, &options(folder.path())).unwrap();
    assert_eq!(read(&device, 0, SIZE).unwrap(), content(0));
    let ranges: Vec<_> = server.take_requests().iter().map(Request::range).collect();
    assert_eq!(ranges, [Some((0, 0))]);
    assert_eq!(device.server_counts().unwrap().disk_bytes, SIZE as u64);
}

#[test]
fn replaced_object_is_read_anew() {
    let (folder, server, url) = fixture();
    fill(&url, &folder);
    server.replace(Object::new(content(1), "two"));
    let device = RemoteDevice::open(&url, &options(folder.path())).unwrap();
    assert_eq!(read(&device, 0, SIZE).unwrap(), content(1));
    assert_eq!(device.server_counts().unwrap().disk_bytes, 0);
}

#[test]
fn cached_image_can_be_read_offline() {
    let (folder, server, url) = fixture();
    let mut offline = options(folder.path());
    offline.offline = true;
    assert_eq!(
        RemoteDevice::open(&url, &offline).unwrap_err(),
        Error::NotCached
    );
    {
        let device = RemoteDevice::open(&url, &options(folder.path())).unwrap();
        assert_eq!(
            read(&device, 0, 40 * UNIT).unwrap(),
            content(0)[..40 * UNIT]
        );
    }
    drop(server);
    let device = RemoteDevice::open(&url, &offline).unwrap();
    assert_eq!(
        read(&device, 0, 40 * UNIT).unwrap(),
        content(0)[..40 * UNIT]
    );
    assert!(read(&device, 50 * UNIT, 1).is_err());
}

#[test]
fn nothing_of_a_removed_image_is_left() {
    let (folder, _server, url) = fixture();
    fill(&url, &folder);
    let directory = folder.path().join("cache");
    let cache = CacheDir::open(&directory, 1 << 30).unwrap();
    assert_eq!(cache.list().unwrap().len(), 1);
    assert_eq!(cache.clear().unwrap().files, 1);
    let files = std::fs::read_dir(&directory).unwrap();
    let names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names, ["lock"]);
    let mut offline = options(folder.path());
    offline.offline = true;
    let opened = RemoteDevice::open(&url, &offline);
    assert_eq!(opened.unwrap_err(), Error::NotCached);
}

#[test]
fn version_that_was_confirmed_last_is_read_offline() {
    let (folder, server, url) = fixture();
    fill(&url, &folder);
    let old = RemoteDevice::open(&url, &options(folder.path())).unwrap();
    server.replace(Object::new(content(1), "two"));
    drop(RemoteDevice::open(&url, &options(folder.path())).unwrap());
    // The file of the old version is now the one that was used last.
    drop(old);
    let mut offline = options(folder.path());
    offline.offline = true;
    let device = RemoteDevice::open(&url, &offline).unwrap();
    assert_eq!(device.version().etag.as_deref(), Some("\"two\""));
}

#[test]
fn query_is_part_of_the_object_except_for_signatures() {
    let folder = tempfile::tempdir().unwrap();
    let server = server();
    let url = |query: &str| ImageUrl::parse(&server.url(&format!("get?{query}"))).unwrap();
    fill(&url("id=a&X-Amz-Signature=one"), &folder);
    let read_from_disk = |query: &str| {
        let device = RemoteDevice::open(&url(query), &options(folder.path())).unwrap();
        assert_eq!(read(&device, 0, SIZE).unwrap(), content(0));
        device.server_counts().unwrap().disk_bytes
    };
    assert_eq!(read_from_disk("id=a&X-Amz-Signature=two"), SIZE as u64);
    assert_eq!(read_from_disk("id=b&X-Amz-Signature=two"), 0);
}

#[test]
fn damaged_unit_is_fetched_again() {
    let (folder, _server, url) = fixture();
    fill(&url, &folder);
    let files = std::fs::read_dir(folder.path().join("cache")).unwrap();
    let largest = files.map(|file| file.unwrap().path());
    let largest = largest
        .max_by_key(|path| path.metadata().unwrap().len())
        .unwrap();
    let mut bytes = std::fs::read(&largest).unwrap();
    let end = bytes.len();
    // Damage one of the last units of the object.
    bytes[end - 2 * UNIT] ^= 1;
    std::fs::write(&largest, &bytes).unwrap();
    let device = RemoteDevice::open(&url, &options(folder.path())).unwrap();
    assert_eq!(read(&device, 0, SIZE).unwrap(), content(0));
    assert_eq!(
        device.server_counts().unwrap().fetched_bytes,
        1 + UNIT as u64
    );
    // The unit was stored again.
    drop(device);
    let device = RemoteDevice::open(&url, &options(folder.path())).unwrap();
    assert_eq!(read(&device, 0, SIZE).unwrap(), content(0));
    assert_eq!(device.server_counts().unwrap().fetched_bytes, 1);
}
