//! The Python package beside mounts and other file systems of fsspec.
//!
//! | side | what it is |
//! |---|---|
//! | larder | `larder.open`, and the files of the package |
//! | fsspec-ext4 | the file system of the package for fsspec |
//! | mount | the builtin `open` on `larder mount` over /dev/fuse |
//! | kernel | the builtin `open` on the kernel's ext4 on a loop device |
//! | fsspec-local | the local file system of fsspec on `larder mount` |
//! | fsspec-zip | the zip file system of fsspec on an archive of the same files, which are not compressed |
//!
//! All sides use buffered files. Each measurement is a process of its own, `worker.py`, which runs its workload twice.
//! The first pass is cold: the mount is fresh, and neither the image nor the archive is in the host's page cache. The
//! second pass is warm. The sides take turns, in an order that rotates from round to round.

pub mod plan;
pub mod report;
pub mod results;
pub mod run;
