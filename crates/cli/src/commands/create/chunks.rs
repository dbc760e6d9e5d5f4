//! The bytes of an archive, in large buffers (chunks). The content of small files is not copied out of its chunk: the
//! thread that writes it to the image shares the chunk.
//!
//! Invariant: the division of the archive into chunks depends only on the calls. The kind of the file, and the lengths
//! of its reads, which can be short for a pipe, have no effect. Content in the same chunk is written together, so the
//! division into chunks affects the bytes of the image.

use larder::ContentBuffers;
use std::fs::File;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Arc;

/// The size of a chunk, in bytes.
const CHUNK_BYTES: usize = 1 << 20;

/// The maximum number of bytes that [`Chunks::take_part`] returns. At most this many bytes are copied to the next
/// chunk.
pub(super) const MAX_TAKEN_BYTES: usize = CHUNK_BYTES / 4;

/// A part of a chunk.
pub(super) type Part = (Arc<Vec<u8>>, Range<usize>);

/// A file that is read in chunks.
#[derive(Debug)]
pub(super) struct Chunks {
    file: File,
    can_seek: bool,
    chunk: Arc<Vec<u8>>,
    /// The bytes of `chunk` that were read from the file, and are next.
    next: Range<usize>,
    others: ContentBuffers,
}

impl Chunks {
    /// Returns the chunks of `file`, from its present position. If it cannot seek, skipped bytes are read.
    pub(super) fn new(file: File, can_seek: bool) -> Self {
        let mut others = ContentBuffers::new(CHUNK_BYTES);
        Self {
            file,
            can_seek,
            chunk: others.take(),
            next: 0..0,
            others,
        }
    }

    /// Returns the next `len` bytes, at most [`MAX_TAKEN_BYTES`], as a part of a chunk.
    ///
    /// # Errors
    /// `UnexpectedEof`, or an error of the file.
    pub(super) fn take_part(&mut self, len: usize) -> io::Result<Part> {
        if self.next.len() < len {
            self.begin_chunk()?;
        }
        let taken = self.next.start..self.next.start.saturating_add(len);
        if taken.end > self.next.end {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.next.start = taken.end;
        Ok((Arc::clone(&self.chunk), taken))
    }

    /// Skips `bytes`, also past the end of the file.
    pub(super) fn skip(&mut self, bytes: u64) -> io::Result<()> {
        match usize::try_from(bytes) {
            Ok(bytes) if bytes <= self.next.len() => self.next.start += bytes,
            _ => {
                let past_bytes = bytes - self.next.len() as u64;
                self.next = 0..0;
                if self.can_seek {
                    let past_bytes = i64::try_from(past_bytes).map_err(io::Error::other)?;
                    self.file.seek(SeekFrom::Current(past_bytes))?;
                } else {
                    io::copy(&mut (&self.file).take(past_bytes), &mut io::sink())?;
                }
            }
        }
        Ok(())
    }

    /// Copies the next bytes to the start of a chunk that is not shared, and fills its rest from the file.
    fn begin_chunk(&mut self) -> io::Result<()> {
        let next = std::mem::take(&mut self.next);
        if let Some(bytes) = Arc::get_mut(&mut self.chunk) {
            bytes.copy_within(next.clone(), 0);
        } else {
            let mut other = self.others.take();
            let rest = self.chunk.get(next.clone()).unwrap_or_default();
            if let Some(bytes) =
                Arc::get_mut(&mut other).and_then(|bytes| bytes.get_mut(..next.len()))
            {
                bytes.copy_from_slice(rest);
            }
            self.others.keep(std::mem::replace(&mut self.chunk, other));
        }
        self.next = 0..next.len();
        if let Some(left) =
            Arc::get_mut(&mut self.chunk).and_then(|bytes| bytes.get_mut(self.next.end..))
        {
            self.next.end += read_full(&self.file, left)?;
        }
        Ok(())
    }
}

/// Reads until `buffer` is full, or the file ends. Returns the number of bytes.
fn read_full(mut file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while let Some(left) = buffer.get_mut(len..)
        && !left.is_empty()
    {
        match file.read(left) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.next.is_empty() && buffer.len() >= MAX_TAKEN_BYTES {
            return read_full(&self.file, buffer);
        }
        let len = self.fill_buf()?.read(buffer)?;
        self.consume(len);
        Ok(len)
    }
}

impl BufRead for Chunks {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.next.is_empty() {
            self.begin_chunk()?;
        }
        Ok(self.chunk.get(self.next.clone()).unwrap_or_default())
    }

    fn consume(&mut self, len: usize) {
        self.next.start = self.next.end.min(self.next.start.saturating_add(len));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Returns a file with `len` bytes, and its content.
    fn file(len: usize) -> (File, Vec<u8>) {
        let content: Vec<u8> = (0..len).map(|at| (at * 31 / 7).to_le_bytes()[0]).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&content).unwrap();
        file.rewind().unwrap();
        (file, content)
    }

    #[test]
    fn shared_chunks_keep_their_bytes() {
        let (file, content) = file(3 * CHUNK_BYTES + 12_345);
        let mut chunks = Chunks::new(file, true);
        let mut taken = Vec::new();
        let mut at = 0;
        for len in (1..).map(|number| number * 7919 % MAX_TAKEN_BYTES) {
            if at + len + 1 > content.len() {
                break;
            }
            taken.push((at, chunks.take_part(len).unwrap()));
            let mut byte = [0];
            chunks.read_exact(&mut byte).unwrap();
            assert_eq!(byte[0], content[at + len]);
            at += len + 1;
        }
        assert!(taken.len() > 20);
        for (at, (chunk, range)) in taken {
            assert_eq!(chunk[range.clone()], content[at..at + range.len()]);
        }
        let mut rest = Vec::new();
        chunks.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, content[at..]);
        let error = chunks.take_part(1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn bytes_are_skipped_inside_and_after_a_chunk() {
        let (file, content) = file(2 * CHUNK_BYTES);
        let mut chunks = Chunks::new(file, true);
        let mut at = 0;
        for bytes in [0, 5, 1000, CHUNK_BYTES, 17] {
            chunks.skip(bytes as u64).unwrap();
            at += bytes;
            let mut byte = [0];
            chunks.read_exact(&mut byte).unwrap();
            assert_eq!(byte[0], content[at], "{at}");
            at += 1;
        }
        chunks.skip(1 << 40).unwrap();
        assert!(chunks.fill_buf().unwrap().is_empty());
    }

    /// Returns a pipe with `content`, of which each read returns at most a page.
    fn pipe(content: Vec<u8>) -> File {
        let (output, input) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        rustix::pipe::fcntl_setpipe_size(&input, 4096).unwrap();
        let mut input = File::from(input);
        std::thread::spawn(move || {
            let mut rest = &content[..];
            for len in (1..).map(|number| number * 7919 % 4096) {
                let (part, next) = rest.split_at(rest.len().min(len));
                if part.is_empty() || input.write_all(part).is_err() {
                    return;
                }
                rest = next;
            }
        });
        output.into()
    }

    #[test]
    fn chunks_of_a_pipe_are_those_of_a_file() {
        let (file, content) = file(7 * CHUNK_BYTES + 12_345);
        let pipe = pipe(content);
        let parts = |mut chunks: Chunks| {
            let mut parts = Vec::new();
            for number in 0..25 {
                let mut direct = vec![0; number % 4 * 150_000];
                chunks.read_exact(&mut direct).unwrap();
                let (chunk, part) = chunks.take_part(number * 1000 + 1).unwrap();
                parts.push((direct, part.clone(), chunk[part].to_vec()));
                chunks.skip(number as u64 % 3 * 511).unwrap();
            }
            chunks.skip(1 << 40).unwrap();
            assert!(chunks.fill_buf().unwrap().is_empty());
            parts
        };
        let of_file = parts(Chunks::new(file, true));
        assert!(parts(Chunks::new(pipe, false)) == of_file);
    }
}
