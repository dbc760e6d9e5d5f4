//! The oracle of an image.

use super::{DirectorySource, Fields};
use crate::e2fsprogs::debugfs_write;
use crate::error::{Context, Error, Result};
use crate::image::{Change, Image, OracleKind, Work, copy_sparse};
use crate::mount::{Access, LoopMount};
use std::path::Path;
use tempfile::TempDir;

/// A view of an image that is correct by definition. The oracle owns the mount that the view needs.
#[derive(Debug)]
pub struct Oracle {
    source: DirectorySource,
    fields: Fields,
    // Fields are dropped in this order: the mount, then the copy on which it is based.
    _mount: Option<LoopMount>,
    _copy: Option<TempDir>,
}

impl Oracle {
    /// Creates the oracle of `image`. The image is not changed.
    pub fn of(image: &Image) -> Result<Self> {
        match image.recipe().oracle {
            OracleKind::Mount => Self::mounted(image.path(), Access::ReadOnly, None),
            OracleKind::MountRecovered => {
                let (copy, path) = copy_of(image)?;
                let mut oracle = Self::mounted(&path, Access::ReadWrite, Some(copy))?;
                // The kernel replays fast commits by creating the names again, which sets the
                // directories' times to the time of the replay.
                let replayed = |change: &Change| {
                    let work = Work::FastCommits;
                    matches!(change, Change::Crash { work: done, .. } if *done == work)
                };
                if image.recipe().after.iter().any(replayed) {
                    oracle.fields.remove(Fields::DIRECTORY_TIMES);
                }
                Ok(oracle)
            }
            OracleKind::MountAfter(requests) => {
                let (copy, path) = copy_of(image)?;
                debugfs_write(&path, requests)?;
                Self::mounted(&path, Access::ReadOnly, Some(copy))
            }
            OracleKind::Source => {
                let folder = image.source().ok_or_else(|| {
                    Error::Inconsistent(format!(
                        "image {} has no source directory",
                        image.recipe().name
                    ))
                })?;
                Ok(Self {
                    source: DirectorySource::new("source", folder),
                    fields: Fields::COPIED,
                    _mount: None,
                    _copy: None,
                })
            }
        }
    }

    /// Returns the kernel's view of any image file.
    pub fn mounted(path: &Path, access: Access, copy: Option<TempDir>) -> Result<Self> {
        let mount = LoopMount::new(path, access, &[])?;
        Ok(Self {
            source: DirectorySource::new("kernel", &mount.path()),
            fields: Fields::all(),
            _mount: Some(mount),
            _copy: copy,
        })
    }

    /// Returns the files.
    #[must_use]
    pub fn source(&self) -> &DirectorySource {
        &self.source
    }

    /// Returns the fields that can be compared with it.
    #[must_use]
    pub fn fields(&self) -> Fields {
        self.fields
    }
}

/// Copies an image to a temporary directory.
fn copy_of(image: &Image) -> Result<(TempDir, std::path::PathBuf)> {
    let folder = image.path().parent().unwrap_or(Path::new("."));
    let copy = tempfile::Builder::new()
        .prefix("copy-")
        .tempdir_in(folder)
        .context("create a directory in", folder)?;
    let path = copy.path().join("copy.img");
    copy_sparse(image.path(), &path)?;
    Ok((copy, path))
}
