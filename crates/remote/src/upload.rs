//! Uploads the content of a device as a new object.
//!
//! # Model
//! The content is sent in parts of equal length, several at once. The last request creates the object. It has a
//! condition: the object must not exist. So an existing object is never replaced, even if it is created during the upload.
//!
//! In S3 and Azure, the last request completes the upload in parts. In Google Cloud Storage, this request cannot have a
//! condition. There, the upload in parts creates a temporary object beside the new one, and the last request copies it.
//! Then the temporary object is deleted, also if the copy fails.
//!
//! If an upload fails, its parts are removed. Azure itself removes them after a week.
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
use tokio::runtime::Runtime;

/// The smallest and the default length of a part in bytes. S3 and Google Cloud Storage require at least 5 MiB.
const PART_BYTES: u64 = 8 << 20;
/// The maximum number of parts of an object in S3 and Google Cloud Storage. It is larger in Azure.
const MAX_PARTS: u64 = 10_000;
/// The maximum number of parts in flight, if they have at most [`IN_FLIGHT_BYTES`].
const PARTS_AT_ONCE: u64 = 8;
/// The maximum length of all parts in flight in bytes, if several are in flight.
const IN_FLIGHT_BYTES: u64 = 256 << 20;
/// The name of the metadata by which an upload recognizes its object. Azure permits no hyphen in it.
const MARK: &str = "larderupload";

/// How a server is accessed.
#[derive(Clone, Copy, Debug)]
pub struct UploadOptions<'o> {
    /// The URL of a server that is compatible with the store. `None` for the store's own.
    pub endpoint: Option<&'o str>,
    /// Whether requests are sent without credentials.
    pub anonymous: bool,
}

/// Uploads the content of `content` to `url`, which must be in an object store. When a part is queued for sending,
/// `progress` is called with its number of bytes.
///
/// # Errors
/// [`Error::Exists`] if the object exists. [`Error::NoUpload`] if `url` is not in an object store.
/// [`Error::Content`] if `content` cannot be read. [`Error::Unconfirmed`] if the object may have been created. Another error
/// if the server refuses the upload or does not answer.
pub fn upload(
    url: &ImageUrl,
    options: UploadOptions<'_>,
    content: &dyn BlockDevice,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let is_copied = match url.with_secrets().scheme() {
        "s3" | "az" => false,
        "gs" => true,
        _ => return Err(Error::NoUpload),
    };
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
    let upload = Upload {
        store: &*store,
        runtime: &runtime,
        mark: format!("{:016x}", RandomState::new().hash_one(SystemTime::now())),
    };
    if is_copied {
        upload.send_and_copy(&object, content, progress)
    } else {
        upload.send(&object, content, progress)
    }
}

/// An upload of one object.
struct Upload<'u> {
    store: &'u dyn ObjectStore,
    runtime: &'u Runtime,
    /// The metadata of the objects of this upload.
    mark: String,
}

impl Upload<'_> {
    /// Sends `content` in parts, and completes the object at `path`.
    fn send(
        &self,
        path: &Path,
        content: &dyn BlockDevice,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let size_bytes = content.size_bytes();
        let part_bytes = size_bytes.div_ceil(MAX_PARTS).next_multiple_of(1 << 20);
        let part_bytes = part_bytes.max(PART_BYTES);
        let marked: Attributes = [(Attribute::Metadata(MARK.into()), self.mark.clone())]
            .into_iter()
            .collect();
        let parts = self.store.put_multipart_opts(path, marked.into());
        let parts = self.runtime.block_on(parts);
        let parts = parts.map_err(|error| refused(&error))?;
        let at_once = (IN_FLIGHT_BYTES / part_bytes).clamp(1, PARTS_AT_ONCE);
        let at_once = usize::try_from(at_once).unwrap_or(1);
        let part_len = usize::try_from(part_bytes).unwrap_or(usize::MAX);
        // The tasks of the writer run on the threads of the runtime.
        let entered = self.runtime.enter();
        let mut writer = WriteMultipart::new_with_chunk_size(parts, part_len);
        let mut send_parts = || {
            let mut at_bytes = 0;
            while at_bytes < size_bytes {
                let len_bytes = part_bytes.min(size_bytes - at_bytes);
                let mut part = vec![0; usize::try_from(len_bytes).unwrap_or(usize::MAX)];
                // The device may use a runtime of its own, so it is not read within this one.
                content
                    .read_at(&mut part, at_bytes)
                    .map_err(|error| Error::Content(error.to_string()))?;
                let capacity = writer.wait_for_capacity(at_once);
                self.runtime
                    .block_on(capacity)
                    .map_err(|error| refused(&error))?;
                writer.put(Bytes::from(part));
                progress(len_bytes);
                at_bytes += len_bytes;
            }
            Ok(())
        };
        let completed = match send_parts() {
            Ok(()) => self.runtime.block_on(async {
                match writer.finish().await {
                    Ok(_) => Ok(()),
                    Err(error) => self.confirm(path, &error).await,
                }
            }),
            Err(error) => {
                // The server removes the parts later if this fails.
                let _ = self.runtime.block_on(writer.abort());
                Err(error)
            }
        };
        drop(entered);
        completed
    }

    /// Uploads `content` to a temporary object, and copies this object to `object`.
    fn send_and_copy(
        &self,
        object: &Path,
        content: &dyn BlockDevice,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let temporary = Path::parse(format!("{object}.larder-upload-{}", self.mark))
            .expect("the suffix has only valid characters");
        let created = match self.send(&temporary, content, progress) {
            Ok(()) => self.runtime.block_on(self.copy(&temporary, object)),
            // The temporary object may exist, but it was not copied.
            Err(Error::Unconfirmed(failure)) => Err(Error::Upload(failure)),
            Err(error) => return Err(error),
        };
        match self.runtime.block_on(self.store.delete(&temporary)) {
            Ok(()) | Err(StoreError::NotFound { .. }) => {}
            Err(error) => {
                let why = Failure::of(&error);
                tracing::warn!("cannot delete the temporary object {temporary}: {why}");
            }
        }
        created
    }

    /// Copies the object at `from` to `to`, where no object may exist.
    async fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        match self.store.copy_if_not_exists(from, to).await {
            Ok(()) => Ok(()),
            Err(error) => self.confirm(to, &error).await,
        }
    }

    /// Checks whether this upload has created the object at `path`, although the request that creates it failed with
    /// `error`.
    ///
    /// # Errors
    /// [`Error::Exists`] if the object is not from this upload. [`Error::Unconfirmed`] if it does not exist, but the
    /// server may still create it, or if the server does not answer. Another error if the server has refused the upload.
    async fn confirm(&self, path: &Path, error: &StoreError) -> Result<()> {
        let options = GetOptions {
            head: true,
            ..GetOptions::default()
        };
        match self.store.get_opts(path, options).await {
            Ok(found) => {
                let own = found.attributes.get(&Attribute::Metadata(MARK.into()));
                let is_own = own.is_some_and(|own| **own == *self.mark);
                is_own.then_some(()).ok_or(Error::Exists)
            }
            Err(StoreError::NotFound { .. }) => Err(match refused(error) {
                // The server may still be completing the upload. If it has no such upload, its parts are no longer there,
                // but the object may be.
                Error::Upload(_) | Error::NotFound => Error::Unconfirmed(Failure::of(error)),
                refused => refused,
            }),
            Err(_) => Err(Error::Unconfirmed(Failure::of(error))),
        }
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
