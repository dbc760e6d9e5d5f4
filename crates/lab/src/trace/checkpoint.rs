//! Finds the checkpoints of a trace whose footer is missing. A checkpoint is a copy of the metadata of a row
//! group, written after the row group.

use super::Error;
use super::footer::{self, Footer};
use larder_trace::checkpoint::{MARK, TAIL_BYTES};
use larder_trace::footer::MAGIC;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Maximum size of the metadata in a checkpoint, in bytes.
const FOOTER_BYTES: u32 = 1 << 20;
/// Maximum number of marks (byte sequences that end a checkpoint) that the search for the last checkpoint
/// examines. Damage does not create marks. The limit bounds the time for a file that was made to contain many
/// marks.
const MAX_MARKS: usize = 1 << 10;
/// Size of a read in the search for the last checkpoint, in bytes.
const SEARCH_BYTES: usize = 1 << 20;

/// An intact checkpoint.
#[derive(Debug)]
struct Checkpoint {
    /// The metadata of the row group.
    footer: Footer,
    /// Offset of the row group.
    start: u64,
    /// Offset of the end of the checkpoint.
    end: u64,
}

/// Finds the checkpoints of a file up to the last intact checkpoint. Returns them, and the offset of the end
/// of the last one.
pub(super) fn find_all(file: &File) -> Result<(Vec<Footer>, u64), Error> {
    let Some(last) = find_last(file)? else {
        return Err(Error::NothingWhole);
    };
    let end = last.end;
    let mut found = Vec::new();
    let mut at = last;
    loop {
        let start = at.start;
        found.push(at.footer);
        if start <= MAGIC.len() as u64 {
            break;
        }
        at = read(file, start)?
            .ok_or_else(|| Error::damaged(format!("no checkpoint ends at offset {start}")))?;
    }
    found.reverse();
    Ok((found, end))
}

/// Searches for the last intact checkpoint, from the end of the file to its start.
fn find_last(file: &File) -> Result<Option<Checkpoint>, Error> {
    let mut buffer = vec![0; SEARCH_BYTES + MARK.len() - 1];
    let mut end = file.metadata()?.len();
    let mut marks = 0;
    while end > 0 {
        let start = end.saturating_sub(SEARCH_BYTES as u64);
        // Also read the first bytes of the piece after this one, since a mark may extend into it.
        let read_bytes = read_up_to(file, &mut buffer, start)?;
        let piece = &buffer[..read_bytes];
        for at in (0..piece.len()).rev() {
            if !piece[at..].starts_with(MARK) {
                continue;
            }
            if let Some(found) = read(file, start + (at + MARK.len()) as u64)? {
                return Ok(Some(found));
            }
            marks += 1;
            if marks == MAX_MARKS {
                let what = format!("the last {MAX_MARKS} checkpoints are invalid");
                return Err(Error::damaged(what));
            }
        }
        end = start;
    }
    Ok(None)
}

/// Reads the checkpoint that ends at offset `end`; `None` if it is missing or damaged.
fn read(file: &File, end: u64) -> Result<Option<Checkpoint>, Error> {
    let Some(tail_at) = end.checked_sub(TAIL_BYTES as u64) else {
        return Ok(None);
    };
    let mut tail = [0; TAIL_BYTES];
    file.read_exact_at(&mut tail, tail_at)?;
    let Some((start, footer_bytes, sum)) = decode_tail(&tail) else {
        return Ok(None);
    };
    let Some(footer_at) = tail_at.checked_sub(footer_bytes.into()) else {
        return Ok(None);
    };
    if start >= footer_at || footer_bytes > FOOTER_BYTES {
        return Ok(None);
    }
    let mut footer = vec![0; footer_bytes as usize];
    file.read_exact_at(&mut footer, footer_at)?;
    let fields = &tail[..TAIL_BYTES - MARK.len() - size_of_val(&sum)];
    if crc32c::crc32c_append(crc32c::crc32c(&footer), fields) != sum {
        return Ok(None);
    }
    let footer = footer::decode(&footer)?;
    Ok(Some(Checkpoint { footer, start, end }))
}

/// Decodes the fields after the metadata: the start of the row group, the length of the metadata, and the
/// checksum of the metadata and these two fields. Returns `None` if the mark is missing.
fn decode_tail(tail: &[u8; TAIL_BYTES]) -> Option<(u64, u32, u32)> {
    let (start, rest) = tail.split_first_chunk()?;
    let (footer_bytes, rest) = rest.split_first_chunk()?;
    let (sum, mark) = rest.split_first_chunk()?;
    (mark == MARK).then(|| {
        (
            u64::from_le_bytes(*start),
            u32::from_le_bytes(*footer_bytes),
            u32::from_le_bytes(*sum),
        )
    })
}

/// Reads from offset `start` until the buffer is full or the file ends. Returns the number of bytes.
fn read_up_to(file: &File, buffer: &mut [u8], start: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], start + done as u64) {
            Ok(0) => break,
            Ok(bytes) => done += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
