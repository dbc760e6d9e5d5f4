//! Overlays on images at URLs: the server is only read.

#[allow(dead_code, reason = "each test uses a part of it")]
mod fixture;
#[allow(dead_code, reason = "each test uses a part of it")]
mod larder;

use fixture::{Fixture, larder_fails, larder_ok, large};
use larder::{Mounted, command};
use larder_testkit::http::{HttpServer, Link, Object};
use std::fs;

#[test]
fn image_at_a_url_is_changed_in_an_overlay() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let overlay = fixture.path("changes.qcow2");
    let overlay = overlay.to_str().unwrap();
    let url = fixture.url();
    let new = format!("{url}:/new");
    larder_ok(["mkdir", "--overlay", overlay, &new]);
    larder_ok(["rm", "--overlay", overlay, &url, "/directory/large"]);
    let names = larder_ok(["ls", "--overlay", overlay, &url, "/"]);
    assert!(String::from_utf8(names).unwrap().contains("new"));
    let differences = larder_ok(["overlay", "diff", overlay, &url]);
    let differences = String::from_utf8(differences).unwrap();
    assert_eq!(differences, "D /directory/large\nA /new/\n");
    assert!(larder_ok(["cat", &url, "/directory/large"]) == large());
    // The URL of the base is recorded without its secrets.
    let bytes = fs::read(overlay).unwrap();
    let secret = fixture::SECRET.as_bytes();
    assert!(!bytes.windows(secret.len()).any(|window| window == secret));
    let message = larder_fails(["overlay", "commit", overlay, &url]);
    assert!(
        message.contains("is never changed in place") && message.contains("--to"),
        "{message}"
    );
    // Without an overlay, the command says how the image can be changed.
    let message = larder_fails(["mkdir", &url, "/other"]);
    assert!(message.contains("--overlay"), "{message}");
}

#[test]
fn overlay_is_refused_if_the_object_was_replaced() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let overlay = fixture.path("changes.qcow2");
    let overlay = overlay.to_str().unwrap();
    let image = fs::read(fixture.path("image")).unwrap();
    let server = |etag: &str| {
        let object = Object::new(image.clone(), etag);
        HttpServer::of_object(object, Link::default())
    };
    let (first, second) = (server("one"), server("two"));
    larder_ok(["mkdir", "--overlay", overlay, &first.url("disk"), "/new"]);
    larder_ok(["ls", "--overlay", overlay, &first.url("disk"), "/new"]);
    let message = larder_fails(["ls", "--overlay", overlay, &second.url("disk"), "/new"]);
    assert!(
        message.contains("does not belong to this state"),
        "{message}"
    );
}

#[test]
fn mount_of_an_image_at_a_url_is_writable_with_an_overlay() {
    let Some(fixture) = Fixture::to_mount() else {
        return;
    };
    let (overlay, mountpoint) = (fixture.path("changes.qcow2"), fixture.path("mnt"));
    for round in 0..2 {
        let mut mount = command();
        mount.args(["mount", "--cache-disk-size", "0", "--overlay"]);
        mount.arg(&overlay).arg(fixture.url()).arg(&mountpoint);
        let output = mount.output().unwrap();
        let messages = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{messages}");
        let _mounted = Mounted(&mountpoint);
        if round == 0 {
            fs::write(mountpoint.join("new"), large()).unwrap();
            fs::write(mountpoint.join("hello"), "changed").unwrap();
        }
        assert!(fs::read(mountpoint.join("new")).unwrap() == large());
        assert_eq!(fs::read(mountpoint.join("hello")).unwrap(), b"changed");
        assert!(fs::read(mountpoint.join("directory/large")).unwrap() == large());
    }
    assert_eq!(larder_ok(["cat", &fixture.url(), "/hello"]), b"hello\n");
}
