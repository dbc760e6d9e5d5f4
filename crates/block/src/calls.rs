//! Blocking system calls on the file of a device.

use crate::buffers::{gathered_bytes, total_bytes};
use crate::engine::Calls;
use crate::error::truncated;
use crate::lock::{LockableFile, SECTOR_BYTES};
use crate::request::Request;
use crate::retry::retry;
use crate::{Error, Result};
use rustix::io::{Errno, ReadWriteFlags};
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;

/// The largest number of buffers in one vectored read or write.
pub(crate) const MAX_BUFFERS: usize = 1024;

/// An open file, and where the device starts in it.
#[derive(Debug)]
pub(crate) struct FileCalls {
    pub(crate) fd: Arc<LockableFile>,
    pub(crate) start_bytes: u64,
}

impl FileCalls {
    pub(crate) fn write_exact(&self, mut buf: &[u8], mut offset_bytes: u64) -> Result<()> {
        while !buf.is_empty() {
            let at_bytes = self.position_bytes(offset_bytes);
            let written = retry(|| rustix::io::pwrite(&self.fd, buf, at_bytes))
                .and_then(nonzero)
                .map_err(|errno| write_error(offset_bytes, buf.len() as u64, errno))?;
            buf = &buf[written..];
            offset_bytes += written as u64;
        }
        Ok(())
    }

    /// Writes at most [`MAX_BUFFERS`] buffers. After a short write, the rest is written one buffer
    /// at a time.
    pub(crate) fn write_batch(&self, bufs: &[IoSlice<'_>], offset_bytes: u64) -> Result<()> {
        let at_bytes = self.position_bytes(offset_bytes);
        let mut done = retry(|| rustix::io::pwritev(&self.fd, bufs, at_bytes))
            .map_err(|errno| write_error(offset_bytes, gathered_bytes(bufs), errno))?;
        let mut buf_offset_bytes = offset_bytes;
        for buf in bufs {
            let written = done.min(buf.len());
            done -= written;
            self.write_exact(&buf[written..], buf_offset_bytes + written as u64)?;
            buf_offset_bytes += buf.len() as u64;
        }
        Ok(())
    }

    /// Reads `len` bytes at `offset_bytes` into `buf`, starting at index `ahead` of `buf`. To be
    /// aligned, the read covers all of `buf`. Bytes of `buf` that are past the end of the file are
    /// left unchanged.
    pub(crate) fn read_direct(
        &self,
        buf: &mut [u8],
        ahead: usize,
        len: usize,
        offset_bytes: u64,
    ) -> Result<()> {
        let failed = |source| io_error(offset_bytes, len as u64, source);
        let at_bytes = self.position_bytes(offset_bytes) - ahead as u64;
        let mut done = 0;
        while done < ahead + len {
            let read =
                retry(|| rustix::io::pread(&self.fd, &mut buf[done..], at_bytes + done as u64))
                    .map_err(|errno| failed(errno.into()))?;
            // Before the end of the file, a read returns only whole blocks.
            if read == 0 || (done + read < ahead + len && !read.is_multiple_of(SECTOR_BYTES)) {
                return Err(failed(truncated()));
            }
            done += read;
        }
        Ok(())
    }

    /// Writes all of `buf`. The byte at index `ahead` of `buf` is written at `offset_bytes` of the
    /// device.
    pub(crate) fn write_direct(&self, buf: &[u8], ahead: usize, offset_bytes: u64) -> Result<()> {
        let failed = |errno| write_error(offset_bytes, (buf.len() - ahead) as u64, errno);
        let at_bytes = self.position_bytes(offset_bytes) - ahead as u64;
        let mut done = 0;
        while done < buf.len() {
            done += retry(|| rustix::io::pwrite(&self.fd, &buf[done..], at_bytes + done as u64))
                .and_then(nonzero)
                .map_err(failed)?;
        }
        Ok(())
    }

    pub(crate) fn read_exact(&self, mut buf: &mut [u8], mut offset_bytes: u64) -> Result<()> {
        while !buf.is_empty() {
            let len_bytes = buf.len() as u64;
            let at_bytes = self.position_bytes(offset_bytes);
            let read = retry(|| rustix::io::pread(&self.fd, &mut *buf, at_bytes))
                .map_err(|errno| io_error(offset_bytes, len_bytes, errno.into()))?;
            if read == 0 || (read < buf.len() && self.fd.ends_after(read)) {
                return Err(io_error(offset_bytes, len_bytes, truncated()));
            }
            buf = &mut buf[read..];
            offset_bytes += read as u64;
        }
        Ok(())
    }

    /// Reads into at most [`MAX_BUFFERS`] buffers. After a short read, the rest is read one buffer
    /// at a time.
    pub(crate) fn read_batch(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        let (at_bytes, len_bytes) = (self.position_bytes(offset_bytes), total_bytes(bufs));
        let failed = |source| io_error(offset_bytes, len_bytes, source);
        let mut done = retry(|| rustix::io::preadv(&self.fd, bufs, at_bytes))
            .map_err(|errno| failed(errno.into()))?;
        if (done as u64) < len_bytes && self.fd.ends_after(done) {
            return Err(failed(truncated()));
        }
        let mut buf_offset_bytes = offset_bytes;
        for buf in bufs {
            let filled = done.min(buf.len());
            done -= filled;
            self.read_exact(&mut buf[filled..], buf_offset_bytes + filled as u64)?;
            buf_offset_bytes += buf.len() as u64;
        }
        Ok(())
    }

    /// Reads into any number of buffers.
    pub(crate) fn read_vectored(
        &self,
        bufs: &mut [IoSliceMut<'_>],
        offset_bytes: u64,
    ) -> Result<()> {
        let mut at_bytes = offset_bytes;
        for batch in bufs.chunks_mut(MAX_BUFFERS) {
            self.read_batch(batch, at_bytes)?;
            at_bytes += total_bytes(batch);
        }
        Ok(())
    }

    /// Writes any number of buffers.
    pub(crate) fn write_vectored(&self, bufs: &[IoSlice<'_>], offset_bytes: u64) -> Result<()> {
        let mut at_bytes = offset_bytes;
        for batch in bufs.chunks(MAX_BUFFERS) {
            self.write_batch(batch, at_bytes)?;
            at_bytes += gathered_bytes(batch);
        }
        Ok(())
    }
}

impl Calls for FileCalls {
    /// Performs a read if the kernel's page cache contains all of it.
    fn perform_cached(&self, mut request: Request) -> Option<Request> {
        let at_bytes = self.position_bytes(request.offset_bytes());
        let read = |bufs: &mut [IoSliceMut<'_>]| {
            let len_bytes = total_bytes(bufs);
            let read = rustix::io::preadv2(&self.fd, bufs, at_bytes, ReadWriteFlags::NOWAIT);
            read.is_ok_and(|read| read as u64 == len_bytes)
        };
        if !request.is_cancelled() && request.with_slices(read, |_| false) {
            request.complete(Ok(()));
            return None;
        }
        Some(request)
    }

    fn perform(&self, request: Request) {
        request.perform(
            |bufs, offset_bytes| self.read_vectored(bufs, offset_bytes),
            |bufs, offset_bytes| self.write_vectored(bufs, offset_bytes),
        );
    }

    fn position_bytes(&self, offset_bytes: u64) -> u64 {
        self.start_bytes + offset_bytes
    }
}

/// Returns an error if nothing was written. Without this check, a writer that makes no progress
/// would loop forever.
fn nonzero(written: usize) -> rustix::io::Result<usize> {
    if written == 0 {
        Err(Errno::IO)
    } else {
        Ok(written)
    }
}

fn io_error(offset_bytes: u64, len_bytes: u64, source: io::Error) -> Error {
    Error::Io {
        offset_bytes,
        len_bytes,
        source,
    }
}

pub(crate) fn write_error(offset_bytes: u64, len_bytes: u64, errno: Errno) -> Error {
    Error::Write {
        offset_bytes,
        len_bytes,
        source: errno.into(),
    }
}
