//! The memory of Python objects, such as `bytearray` and `memoryview`, as slices.
//!
//! # Safety
//! An object that exports a buffer neither frees nor moves its memory until the buffer is released. [`Source`] and
//! [`Target`] release the buffer when they are dropped. The length of the memory does not change either: a `bytearray`
//! with an exported buffer cannot be resized.
//!
//! The GIL is released while a slice is used. The program must not access the memory from another thread during this
//! time. The same rule applies to `io.FileIO.readinto`, whose read(2) also writes to the memory without the GIL. A
//! program that breaks the rule has a data race in both cases. No interface of Python can prevent the race without a
//! copy.
#![allow(
    unsafe_code,
    reason = "makes slices of the memory of Python objects, which are not copied"
)]

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use std::slice;

/// The memory of an object, for reading.
pub(crate) struct Source(PyUntypedBuffer);

/// The memory of an object, for writing.
pub(crate) struct Target(PyUntypedBuffer);

impl Source {
    /// Returns the memory of `object`.
    ///
    /// # Errors
    /// `TypeError` if the object has no buffer, `BufferError` if its memory is not contiguous.
    pub(crate) fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        contiguous(object).map(Self)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        let len = self.0.len_bytes();
        if len == 0 {
            return &[];
        }
        // SAFETY: the buffer has `len` contiguous bytes, which stay valid while it is not released. The module
        // documentation states which accesses the program must not make meanwhile.
        unsafe { slice::from_raw_parts(self.0.buf_ptr().cast_const().cast(), len) }
    }
}

impl Target {
    /// Returns the memory of `object`.
    ///
    /// # Errors
    /// `TypeError` if the object has no buffer or only a read-only one, `BufferError` if its memory is not contiguous.
    pub(crate) fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = contiguous(object)?;
        if buffer.readonly() {
            return Err(PyTypeError::new_err("the buffer must be writable"));
        }
        Ok(Self(buffer))
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.0.len_bytes();
        if len == 0 {
            return &mut [];
        }
        // SAFETY: the buffer has `len` contiguous bytes, which are writable, and stay valid while it is not released.
        // The module documentation states which accesses the program must not make meanwhile.
        unsafe { slice::from_raw_parts_mut(self.0.buf_ptr().cast(), len) }
    }
}

fn contiguous(object: &Bound<'_, PyAny>) -> PyResult<PyUntypedBuffer> {
    let buffer = PyUntypedBuffer::get(object)?;
    if buffer.is_c_contiguous() {
        Ok(buffer)
    } else {
        Err(PyBufferError::new_err("the buffer must be contiguous"))
    }
}
