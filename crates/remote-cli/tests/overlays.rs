//! Overlays on images at URLs, whose server is only read, and commits of overlays to Azure and Google Cloud Storage.

#[allow(dead_code, reason = "each test uses a part of it")]
mod fixture;
#[allow(dead_code, reason = "each test uses a part of it")]
mod larder;

use fixture::{Fixture, larder_fails, larder_ok, large};
use larder::{Mounted, command};
use larder_testkit::http::{Fault, HttpServer, Link, Object, StoreFault, StoreServer, StoreState};
use std::fs;
use std::process::{Command, Output};

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

/// The path of the uploaded object in requests.
const UPLOADED: &str = "/container/disk";

/// Returns the fixture with an overlay in which the directory `new` was added to the image.
fn changed() -> Option<Fixture> {
    let fixture = Fixture::new()?;
    let mut mkdir = command();
    mkdir.args(["mkdir", "--overlay"]);
    mkdir.arg(fixture.path("changes.qcow2"));
    mkdir.arg(fixture.path("image")).arg("/new");
    assert!(mkdir.status().unwrap().success());
    Some(fixture)
}

/// Returns a store in which `fault` occurs.
fn store(fault: Option<StoreFault>) -> StoreServer {
    StoreServer::start(StoreState {
        fault,
        ..StoreState::default()
    })
}

/// Returns a command that uploads the image of `fixture` with the changes to a store whose URLs begin with `scheme`.
fn commit(fixture: &Fixture, scheme: &str) -> Command {
    let mut commit = command();
    commit.args(["overlay", "commit", "--to"]);
    commit.arg(format!("{scheme}:/{UPLOADED}"));
    commit.arg(fixture.path("changes.qcow2"));
    commit.arg(fixture.path("image"));
    commit.env("AZURE_STORAGE_ACCOUNT_NAME", "account");
    commit
}

/// Uploads to `server`, in the form of Azure, without credentials.
fn commit_anonymously(fixture: &Fixture, server: &StoreServer) -> Output {
    let endpoint = format!("http://{}", server.address());
    let mut commit = commit(fixture, "az");
    commit.args(["--anonymous", "--endpoint", &endpoint]);
    commit.output().unwrap()
}

/// Checks that the image on `server` has the changes.
#[track_caller]
fn assert_committed(fixture: &Fixture, server: &StoreServer, output: &Output) {
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{messages}");
    let state = server.state();
    let copy = fixture.path("copy");
    fs::write(&copy, &state.objects[UPLOADED].content).unwrap();
    let names = larder_ok(["ls", copy.to_str().unwrap(), "/"]);
    assert!(String::from_utf8(names).unwrap().contains("new"));
}

/// Checks that the upload failed with `expected`.
#[track_caller]
fn assert_refused(output: &Output, expected: &str) {
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(messages.contains(expected), "{messages}");
}

#[test]
fn commit_to_azure_is_signed_with_a_key_and_replaces_nothing() {
    let Some(fixture) = changed() else {
        return;
    };
    let server = store(None);
    let upload = || {
        let mut commit = commit(&fixture, "az");
        let endpoint = format!("http://{}", server.address());
        commit.env("AZURE_STORAGE_ENDPOINT", endpoint);
        commit.env("AZURE_STORAGE_ACCOUNT_KEY", "a2V5");
        commit.output().unwrap()
    };
    assert_committed(&fixture, &server, &upload());
    let signatures = server.state().authorizations.clone();
    assert!(!signatures.is_empty());
    for signature in signatures {
        assert!(signature.starts_with("SharedKey account:"), "{signature}");
    }
    assert_refused(&upload(), "the object exists");
}

#[test]
fn commit_to_azure_does_not_replace_an_object_that_is_created_meanwhile() {
    let Some(fixture) = changed() else {
        return;
    };
    let server = store(Some(StoreFault::CreateOther(UPLOADED.to_owned())));
    assert_refused(&commit_anonymously(&fixture, &server), "the object exists");
    assert_eq!(server.state().objects[UPLOADED].content, b"");
}

#[test]
fn commit_to_azure_succeeds_although_the_last_reply_is_lost() {
    let Some(fixture) = changed() else {
        return;
    };
    let server = store(Some(StoreFault::LoseCompletion));
    let output = commit_anonymously(&fixture, &server);
    assert_committed(&fixture, &server, &output);
    assert!(server.state().authorizations.is_empty());
}

#[test]
fn commit_to_azure_with_denied_parts_creates_nothing() {
    let Some(fixture) = changed() else {
        return;
    };
    let server = store(Some(StoreFault::DenyParts));
    let output = commit_anonymously(&fixture, &server);
    assert_refused(&output, "the server denies access");
    assert!(server.state().objects.is_empty());
}

#[test]
fn commit_to_google_continues_after_a_failure_of_the_metadata_service() {
    let Some(fixture) = changed() else {
        return;
    };
    let path = "/computeMetadata/v1/instance/service-accounts/default/token";
    // The token has expired when it arrives, so that it is renewed for each request.
    let token = r#"{"access_token": "T", "expires_in": 0}"#;
    let service = HttpServer::of_pages(&[(path, token)], Link::default());
    service.inject([Fault::None, Fault::Status(503)]);
    let server = store(None);
    let mut commit = commit(&fixture, "gs");
    commit.args(["--endpoint", &format!("http://{}", server.address())]);
    commit.env("HOME", fixture.path("home"));
    commit.env("GCE_METADATA_HOST", service.address().to_string());
    commit.env("GCE_METADATA_IP", "127.0.0.1:9");
    assert_committed(&fixture, &server, &commit.output().unwrap());
}
