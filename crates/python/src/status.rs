//! The results of `stat` and `statvfs`, as the module `os` defines them.

use larder::{Metadata, Statfs, Timestamp};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

/// The maximum length of a name in bytes.
const MAX_NAME_BYTES: u32 = 255;
/// The flag of a file system that is read-only, for statvfs(3).
const ST_RDONLY: u32 = 1;
/// The number of bits of a mode below the file type.
const KIND_SHIFT: u32 = 12;

/// Returns the `os.stat_result` for `metadata`.
pub(crate) fn stat_result<'py>(
    py: Python<'py>,
    metadata: &Metadata,
    block_bytes: u32,
) -> PyResult<Bound<'py, PyAny>> {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let mode = (metadata.kind as u32) << KIND_SHIFT | u32::from(metadata.permissions);
    let times = [metadata.accessed, metadata.modified, metadata.changed];
    let required = (
        mode,
        metadata.ino.0,
        0,
        metadata.links,
        metadata.uid,
        metadata.gid,
        metadata.size_bytes,
        times[0].seconds,
        times[1].seconds,
        times[2].seconds,
    );
    let optional = PyDict::new(py);
    for (name, time) in ["st_atime", "st_mtime", "st_ctime"].into_iter().zip(times) {
        optional.set_item(name, seconds(time))?;
        optional.set_item(format!("{name}_ns"), nanoseconds(time))?;
    }
    optional.set_item("st_blksize", block_bytes)?;
    optional.set_item("st_blocks", metadata.blocks_512)?;
    let rdev = device_number(metadata.rdev_major.into(), metadata.rdev_minor.into());
    optional.set_item("st_rdev", rdev)?;
    TYPE.import(py, "os", "stat_result")?
        .call1((required, optional))
}

/// Returns the `os.statvfs_result` for `free`.
pub(crate) fn statvfs_result<'py>(
    py: Python<'py>,
    free: &Statfs,
    is_read_only: bool,
) -> PyResult<Bound<'py, PyAny>> {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let flags = if is_read_only { ST_RDONLY } else { 0 };
    let values = (
        free.block_size_bytes,
        free.block_size_bytes,
        free.blocks,
        free.free_blocks,
        free.available_blocks,
        free.files,
        free.free_files,
        free.free_files,
        flags,
        MAX_NAME_BYTES,
    );
    TYPE.import(py, "os", "statvfs_result")?.call1((values,))
}

/// Returns the number that makedev(3) returns.
fn device_number(major: u64, minor: u64) -> u64 {
    (major & 0xffff_f000) << 32 | (major & 0xfff) << 8 | (minor & 0xffff_ff00) << 12 | minor & 0xff
}

fn nanoseconds(time: Timestamp) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "os.stat_result has the same loss"
)]
fn seconds(time: Timestamp) -> f64 {
    time.seconds as f64 + f64::from(time.nanoseconds) * 1e-9
}
