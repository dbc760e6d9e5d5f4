//! Uploads the content of a device as a new object.
//!
//! # Model
//! The content is sent in parts of equal length, several at once. The last request completes the object. It has a
//! condition: the object must not exist. So an existing object is never replaced, even if it is created during the upload.
//! Parts of an upload that fails are removed.
//!
//! Requests are repeated. If the reply to the last one is lost, the object exists when it is repeated, so the condition is
//! not met. Therefore the metadata of the object contains a random text, by which the upload recognizes its own object.

use crate::device::start_runtime;
use crate::error::Failure;
use crate::store::{self, StoreOptions};
use crate::{Error, ImageUrl, Result};
use bytes::Bytes;
use larder_block::BlockDevice;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error as StoreError, GetOptions, ObjectStore, ObjectStoreExt,
    WriteMultipart,
};
use std::hash::{BuildHasher, RandomState};
use std::time::SystemTime;

/// The smallest and the default length of a part in bytes. S3 requires at least 5 MiB.
const PART_BYTES: u64 = 8 << 20;
/// The maximum number of parts of an object in S3.
const MAX_PARTS: u64 = 10_000;
/// The maximum number of parts in flight, if they have at most [`IN_FLIGHT_BYTES`].
const PARTS_AT_ONCE: u64 = 8;
/// The maximum length of all parts in flight in bytes, if several are in flight.
const IN_FLIGHT_BYTES: u64 = 256 << 20;
/// The name of the metadata by which an upload recognizes its object.
const MARK: &str = "larder-upload";

/// How a server is accessed.
#[derive(Clone, Copy, Debug)]
pub struct UploadOptions<'o> {
    /// The URL of a server that is compatible with the store. `None` for the store's own.
    pub endpoint: Option<&'o str>,
    /// Whether requests are sent without credentials.
    pub anonymous: bool,
}

/// Uploads the content of `content` to `url`, which must be in S3: other stores have no condition for uploads in parts,
/// or their client does not support it. When a part is queued for sending, `progress` is called with its number of
/// bytes.
///
/// # Errors
/// [`Error::Exists`] if the object exists. [`Error::NoUpload`] if the server has no conditional uploads.
/// [`Error::Content`] if `content` cannot be read. [`Error::Unconfirmed`] if the object may have been created. Another error
/// if the server refuses the upload or does not answer.
pub fn upload(
    url: &ImageUrl,
    options: UploadOptions<'_>,
    content: &dyn BlockDevice,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    if url.with_secrets().scheme() != "s3" {
        return Err(Error::NoUpload);
    }
    let options = StoreOptions {
        endpoint: options.endpoint,
        anonymous: options.anonymous,
        creates: true,
    };
    let store::Opened {
        store,
        path: object,
        ..
    } = store::open(url, &options)?;
    let runtime = start_runtime()?;
    match runtime.block_on(store.head(&object)) {
        Ok(_) => return Err(Error::Exists),
        Err(StoreError::NotFound { .. }) => {}
        Err(error) => return Err(refused(&error)),
    }
    let size_bytes = content.size_bytes();
    let part_bytes = size_bytes.div_ceil(MAX_PARTS).next_multiple_of(1 << 20);
    let part_bytes = part_bytes.max(PART_BYTES);
    let mark = format!("{:016x}", RandomState::new().hash_one(SystemTime::now()));
    let marked: Attributes = [(Attribute::Metadata(MARK.into()), mark.clone())]
        .into_iter()
        .collect();
    let parts = runtime.block_on(store.put_multipart_opts(&object, marked.into()));
    let parts = parts.map_err(|error| refused(&error))?;
    let at_once = (IN_FLIGHT_BYTES / part_bytes).clamp(1, PARTS_AT_ONCE);
    let at_once = usize::try_from(at_once).unwrap_or(1);
    let part_len = usize::try_from(part_bytes).unwrap_or(usize::MAX);
    // Its tasks run on the threads of the runtime.
    let entered = runtime.enter();
    let mut writer = WriteMultipart::new_with_chunk_size(parts, part_len);
    let mut send = || {
        let mut at_bytes = 0;
        while at_bytes < size_bytes {
            let len_bytes = part_bytes.min(size_bytes - at_bytes);
            let mut part = vec![0; usize::try_from(len_bytes).unwrap_or(usize::MAX)];
            // The device may use a runtime of its own, so it is not read within this one.
            content
                .read_at(&mut part, at_bytes)
                .map_err(|error| Error::Content(error.to_string()))?;
            let capacity = writer.wait_for_capacity(at_once);
            runtime
                .block_on(capacity)
                .map_err(|error| refused(&error))?;
            writer.put(Bytes::from(part));
            progress(len_bytes);
            at_bytes += len_bytes;
        }
        Ok(())
    };
    let completed = match send() {
        Ok(()) => runtime.block_on(async {
            match writer.finish().await {
                Ok(_) => Ok(()),
                Err(error) => confirm(&*store, &object, &mark, &error).await,
            }
        }),
        Err(error) => {
            // The server removes the parts later if this fails.
            let _ = runtime.block_on(writer.abort());
            Err(error)
        }
    };
    drop(entered);
    completed
}

/// Returns whether the upload with this `mark` has created `object`, although the request that completes it failed with
/// `error`.
async fn confirm(
    store: &dyn ObjectStore,
    object: &Path,
    mark: &str,
    error: &StoreError,
) -> Result<()> {
    let options = GetOptions {
        head: true,
        ..GetOptions::default()
    };
    match store.get_opts(object, options).await {
        Ok(found) => {
            let own = found.attributes.get(&Attribute::Metadata(MARK.into()));
            let is_own = own.is_some_and(|own| **own == *mark);
            is_own.then_some(()).ok_or(Error::Exists)
        }
        Err(StoreError::NotFound { .. }) => Err(refused(error)),
        Err(_) => Err(Error::Unconfirmed(Failure::of(error))),
    }
}

/// Returns the error of an upload of which a request failed with `error`.
fn refused(error: &StoreError) -> Error {
    match error {
        StoreError::Precondition { .. } | StoreError::AlreadyExists { .. } => Error::Exists,
        error => match Failure::of(error) {
            Failure::Final(error) => *error,
            failure => Error::Upload(failure),
        },
    }
}
