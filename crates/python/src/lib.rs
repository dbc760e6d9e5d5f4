//! The extension module of the Python package `larder`.
//!
//! Model: the classes here do what needs Rust. The package in `python/larder` adds to them what Python itself
//! provides: buffered files, text, pickling, walks. `larder.Fs` is a subclass of [`BaseFs`](image::BaseFs), and
//! `larder.File` calls a [`BaseFile`](file::BaseFile).
//!
//! # Threads
//! Every method that can wait for the device, or for another thread, releases the GIL. So does the drop of an image. No
//! lock of this crate is held while the GIL is released. A thread that forks holds the GIL, so these locks are free in
//! the child.
//!
//! # Forks
//! A child has a copy of the memory of its parent, but none of its threads. A volume cannot work without its threads,
//! and its locks may be held by threads that do not exist. Therefore a child neither uses nor drops a volume:
//! [`Local`](process::Local) hides the objects of the parent. An image that is open for reading is opened again.
//!
//! # Stable ABI
//! The module is built for the stable ABI of Python 3.11, the first with the buffer protocol. One wheel works with
//! all later versions.

mod buffer;
mod content;
mod entry;
mod error;
mod file;
mod fs;
mod image;
mod opening;
mod path;
mod process;
mod status;

use pyo3::prelude::*;

/// The compiled part of the package `larder`. Its classes are the bases of those of the package.
#[pymodule]
mod _larder {
    #[pymodule_export]
    use crate::entry::DirEntry;
    #[pymodule_export]
    use crate::file::BaseFile;
    #[pymodule_export]
    use crate::image::BaseFs;
    #[pymodule_export]
    use crate::opening::is_url;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        Ok(crate::process::detect_forks()?)
    }
}
