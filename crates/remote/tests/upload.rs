//! Uploads to stores that are compatible with S3 and Google Cloud Storage, of which the test kit has what an upload needs.
//! The client for Azure needs variables of the environment, so the tests of larder-remote upload to Azure.

use larder_block::MemoryDevice;
use larder_remote::{Error, ImageUrl, Result, UploadOptions, upload};
use larder_testkit::http::{StoreFault, StoreServer, StoreState, StoredObject};
use std::collections::BTreeMap;

/// More than one part.
const LEN: usize = 9 << 20;
/// The path of the new object in requests.
const OBJECT: &str = "/bucket/disk";
const S3: &str = "s3://bucket/disk";
const GOOGLE: &str = "gs://bucket/disk";

fn start(fault: Option<StoreFault>) -> StoreServer {
    StoreServer::start(StoreState {
        fault,
        ..StoreState::default()
    })
}

fn content() -> Vec<u8> {
    (0..LEN).map(|at| (at >> 12).to_le_bytes()[0]).collect()
}

/// Uploads [`content`] to `url` on `server`.
fn upload_to(server: &StoreServer, url: &str) -> Result<()> {
    let url = ImageUrl::parse(url).unwrap();
    let endpoint = format!("http://{}", server.address());
    let options = UploadOptions {
        endpoint: Some(&endpoint),
        anonymous: true,
    };
    let mut sent_bytes = 0;
    let content = MemoryDevice::new(content());
    let uploaded = upload(&url, options, &content, &mut |bytes| sent_bytes += bytes);
    assert!(uploaded.is_err() || sent_bytes == LEN as u64);
    uploaded
}

/// Checks that the store contains only the new object.
#[track_caller]
fn assert_uploaded(server: &StoreServer) {
    let state = server.state();
    let names: Vec<_> = state.objects.keys().collect();
    assert_eq!(names, [OBJECT]);
    assert!(state.objects[OBJECT].content == content());
    assert!(state.parts.is_empty());
}

#[test]
fn new_object_has_the_content_and_no_credentials_are_sent() {
    for url in [S3, GOOGLE] {
        let server = start(None);
        assert_eq!(upload_to(&server, url), Ok(()));
        assert_uploaded(&server);
        assert_eq!(server.state().authorizations, [""; 0]);
    }
}

#[test]
fn object_that_exists_is_not_replaced() {
    for url in [S3, GOOGLE] {
        let server = start(None);
        let other = StoredObject {
            content: b"other".to_vec(),
            ..StoredObject::default()
        };
        let objects = BTreeMap::from([(OBJECT.to_owned(), other)]);
        server.state().objects.clone_from(&objects);
        assert_eq!(upload_to(&server, url), Err(Error::Exists));
        assert_eq!(server.state().objects, objects);
    }
}

#[test]
fn object_that_is_created_during_the_upload_is_not_replaced() {
    for url in [S3, GOOGLE] {
        let server = start(Some(StoreFault::CreateOther(OBJECT.to_owned())));
        assert_eq!(upload_to(&server, url), Err(Error::Exists));
        let objects = BTreeMap::from([(OBJECT.to_owned(), StoredObject::default())]);
        assert_eq!(server.state().objects, objects);
        assert!(server.state().parts.is_empty());
    }
}

#[test]
fn upload_succeeds_although_a_reply_is_lost() {
    for (url, fault) in [
        (S3, StoreFault::LoseCompletion),
        (GOOGLE, StoreFault::LoseCompletion),
        (GOOGLE, StoreFault::LoseCopy),
    ] {
        let server = start(Some(fault));
        assert_eq!(upload_to(&server, url), Ok(()));
        assert_uploaded(&server);
    }
}

#[test]
fn upload_with_denied_parts_leaves_nothing() {
    for url in [S3, GOOGLE] {
        let server = start(Some(StoreFault::DenyParts));
        assert_eq!(upload_to(&server, url), Err(Error::Denied));
        assert!(server.state().objects.is_empty());
        assert!(server.state().parts.is_empty());
    }
}

#[test]
fn upload_that_the_server_does_not_confirm_is_reported_as_such() {
    let server = start(Some(StoreFault::LoseCompletionThenDeny));
    let result = upload_to(&server, S3);
    assert!(matches!(result, Err(Error::Unconfirmed(_))), "{result:?}");
}

#[test]
fn upload_with_an_unconfirmed_temporary_object_has_failed() {
    let server = start(Some(StoreFault::LoseCompletionThenDeny));
    let result = upload_to(&server, GOOGLE);
    assert!(matches!(result, Err(Error::Upload(_))), "{result:?}");
}

#[test]
fn upload_that_the_server_may_still_complete_is_reported_as_such() {
    let server = start(Some(StoreFault::PostponeCompletion));
    let result = upload_to(&server, S3);
    assert!(server.state().objects.is_empty());
    assert!(matches!(result, Err(Error::Unconfirmed(_))), "{result:?}");
}

#[test]
fn web_server_is_refused() {
    let server = start(None);
    let url = format!("http://{}/disk", server.address());
    assert_eq!(upload_to(&server, &url), Err(Error::NoUpload));
}
