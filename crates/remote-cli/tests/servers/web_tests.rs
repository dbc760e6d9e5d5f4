//! Images on nginx.

use crate::image::{Local, fails, plain, succeeds};
use crate::nginx::{Nginx, PASSWORD, USER};
use crate::program::installed;
use std::fs;
use std::time::{Duration, SystemTime};

/// An upstream of a server that forwards nothing.
const NONE: &str = "http://127.0.0.1:1";

/// Returns a server with the file `disk.img`, which is the local image.
fn with_image() -> Option<(Nginx, Local)> {
    installed("nginx")?;
    let local = Local::new()?;
    let server = Nginx::start(NONE)?;
    fs::copy(local.image(), server.file("disk.img")).unwrap();
    Some((server, local))
}

/// Replaces the file `disk.img`. nginx makes the `ETag` from the time of modification in seconds, and the length.
fn replace(server: &Nginx, bytes: &[u8]) {
    fs::write(server.file("new"), bytes).unwrap();
    let file = fs::File::options().append(true).open(server.file("new"));
    let later = SystemTime::now() + Duration::from_mins(1);
    file.unwrap().set_modified(later).unwrap();
    fs::rename(server.file("new"), server.file("disk.img")).unwrap();
}

#[test]
fn image_on_nginx_equals_the_local_image() {
    if let Some((server, local)) = with_image() {
        local.assert_same(&server.url("/plain/disk.img"), plain);
    }
}

#[test]
fn redirect_is_followed() {
    if let Some((server, _local)) = with_image() {
        let url = server.url("/moved/disk.img");
        assert_eq!(succeeds(plain("cat").args([&url, "/hello"])), b"hello\n");
    }
}

#[test]
fn protected_image_requires_the_password() {
    let Some((server, _local)) = with_image() else {
        return;
    };
    let url = |password: &str| {
        let url = server.url("/private/disk.img");
        url.replace("http://", &format!("http://{USER}:{password}@"))
    };
    let right = url(&PASSWORD.replace('/', "%2F"));
    assert_eq!(succeeds(plain("cat").args([&right, "/hello"])), b"hello\n");
    let denied = "the server denies access";
    fails(&mut plain("ls"), &url("wrong"), denied);
    fails(&mut plain("ls"), &server.url("/private/disk.img"), denied);
}

#[test]
fn absent_image_and_absent_ranges_are_reported() {
    let Some((server, _local)) = with_image() else {
        return;
    };
    let url = server.url("/plain/absent.img");
    fails(&mut plain("ls"), &url, "the server has no such object");
    let url = server.url("/whole/disk.img");
    fails(
        &mut plain("ls"),
        &url,
        "the server does not answer range requests",
    );
}

#[test]
fn replaced_or_removed_image_is_stale() {
    let Some((server, local)) = with_image() else {
        return;
    };
    let url = server.url("/plain/disk.img");
    local.assert_stale(&url, plain, || replace(&server, &local.other_bytes()));
    let remove = || fs::remove_file(server.file("disk.img")).unwrap();
    local.assert_stale(&url, plain, remove);
}

#[test]
fn image_is_read_through_a_cache() {
    let Some((server, local)) = with_image() else {
        return;
    };
    let cache = Nginx::start(&server.url("/plain")).unwrap();
    let url = cache.url("/cached/disk.img");
    local.assert_same(&url, plain);
    let forwarded = cache.forwarded();
    assert!(forwarded > 0);
    local.assert_same(&url, plain);
    assert_eq!(cache.forwarded(), forwarded);
}

#[test]
fn image_that_is_replaced_at_the_origin_of_a_cache_is_stale() {
    let Some((server, local)) = with_image() else {
        return;
    };
    let cache = Nginx::start(&server.url("/plain")).unwrap();
    let url = cache.url("/cached/disk.img");
    local.assert_stale(&url, plain, || replace(&server, &local.other_bytes()));
}
