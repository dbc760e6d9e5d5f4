//! Reads tar archives: the formats of ustar, GNU tar and pax.
//!
//! An archive is hostile. Nothing is allocated by a size that it declares, and every number is checked before it is used.
//! [`mod@super::fill`] checks the paths.
//!
//! The crate `tar` is not used: it reads the holes of sparse files as zeros, so a file of 1 TiB would take hours, and
//! it splits the values of extended attributes at newlines.

use super::chunks::{Chunks, MAX_TAKEN_BYTES, Part};
use super::header::{self, Header};
use super::pax::{Pax, Run};
use crate::commands::tar_attributes;
use crate::commands::tar_header::BLOCK_BYTES;
use larder::{DeviceNumber, FileKind, Timestamp};
use larder_console::{Failure, Result, name};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, Read};

/// The maximum size of the extensions before an entry, in bytes. The attributes of a file in ext4 are much
/// smaller.
const MAX_EXTENSION_BYTES: u64 = 1 << 20;

/// The maximum length of a path, and of the target of a link, in bytes: `PATH_MAX` of Linux without the final NUL. The
/// directories of a path are created even if the archive has no entries for them: a path of 1 MiB would create 500,000
/// directories.
const MAX_PATH_BYTES: usize = 4095;

/// The maximum number of runs of data of a sparse file.
const MAX_RUNS: usize = 1 << 22;

/// The maximum size of a file, in bytes: that of ext4, with blocks of 4 KiB.
const MAX_FILE_BYTES: u64 = 16 << 40;

/// A file in an archive.
#[derive(Debug)]
pub(super) struct Entry {
    pub path: Vec<u8>,
    pub kind: Kind,
    pub permissions: u16,
    pub uid: u32,
    pub gid: u32,
    pub mtime: Timestamp,
    /// The time of the last access, if the archive has it.
    pub atime: Option<Timestamp>,
    /// The names and values of extended attributes, with the access control lists.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// The type of a file in an archive.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A regular file. [`Archive::data`] returns its content.
    File {
        size_bytes: u64,
        /// The runs of data, in order; everything else is a hole.
        runs: Vec<Run>,
    },
    Directory,
    Symlink {
        target: Vec<u8>,
    },
    /// Another name of an earlier file of the archive.
    HardLink {
        path: Vec<u8>,
    },
    /// A device, with its number, or a FIFO.
    Node {
        kind: FileKind,
        device: Option<DeviceNumber>,
    },
}

/// An archive that is read from start to end.
#[derive(Debug)]
pub(super) struct Archive {
    input: Chunks,
    can_seek: bool,
    /// The number of bytes of the archive before the next byte of `input`.
    at_bytes: u64,
    /// The number of bytes of content of the present entry that have not been read.
    left_bytes: u64,
    /// The number of bytes between the content and the next header.
    padding_bytes: u64,
}

impl Archive {
    /// Returns the archive that begins at the present position of `file`. If `can_seek`, content that is not needed is
    /// skipped without a read.
    pub(super) fn new(file: File, can_seek: bool) -> Self {
        Self {
            input: Chunks::new(file, can_seek),
            can_seek,
            at_bytes: 0,
            left_bytes: 0,
            padding_bytes: 0,
        }
    }

    /// Returns the number of bytes that were read or skipped.
    pub(super) fn at_bytes(&self) -> u64 {
        self.at_bytes
    }

    /// Returns the next entry, or `None` at the end of the archive.
    pub(super) fn next_entry(&mut self) -> Result<Option<Entry>> {
        let mut pax = Pax::default();
        let mut extension_bytes = 0_u64;
        loop {
            self.skip_content()?;
            let start_bytes = self.at_bytes;
            let Some(header) = self.header()? else {
                return Ok(None);
            };
            let at =
                |what: &str| Failure::new(format!("the archive, at byte {start_bytes}: {what}"));
            let size_bytes = header.size_bytes().map_err(at)?;
            if !header.is_extension() {
                return self.entry(&header, size_bytes, pax).map(Some);
            }
            self.set_content(size_bytes);
            // The label of the archive and global pax headers, in which git archive stores a comment, are ignored.
            if matches!(header.kind(), b'V' | b'g') {
                continue;
            }
            extension_bytes = extension_bytes.saturating_add(size_bytes);
            if extension_bytes > MAX_EXTENSION_BYTES {
                return Err(at("the paths and pax headers of a file are too long"));
            }
            let bytes = self.content()?;
            match header.kind() {
                b'L' => pax.path = Some(header::text(&bytes).to_vec()),
                b'K' => pax.link = Some(header::text(&bytes).to_vec()),
                _ => pax.add(&bytes).map_err(|error| at(&error))?,
            }
            let mut paths = [&pax.path, &pax.sparse_path, &pax.link]
                .into_iter()
                .flatten();
            if paths.any(|path| path.len() > MAX_PATH_BYTES) {
                return Err(at(&format!(
                    "a path or the target of a link is longer than {MAX_PATH_BYTES} bytes"
                )));
            }
        }
    }

    /// Fills `buffer` with the next content of the present entry. Returns the number of bytes, which is smaller than
    /// `buffer` only if the content ends.
    pub(super) fn data(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let len = usize::try_from(self.left_bytes).map_or(buffer.len(), |n| n.min(buffer.len()));
        let part = buffer.get_mut(..len).unwrap_or_default();
        self.input
            .read_exact(part)
            .map_err(|error| failed(&error))?;
        self.left_bytes -= len as u64;
        self.at_bytes += len as u64;
        Ok(len)
    }

    /// Returns all content of the present entry, as a part of a shared buffer. Returns `None` if the content is
    /// too long.
    pub(super) fn small_content(&mut self) -> Result<Option<Part>> {
        let len = usize::try_from(self.left_bytes).unwrap_or(usize::MAX);
        if len > MAX_TAKEN_BYTES {
            return Ok(None);
        }
        let content = self.input.take_part(len).map_err(|error| failed(&error))?;
        self.left_bytes = 0;
        self.at_bytes += len as u64;
        Ok(Some(content))
    }

    /// Reads the rest of the input, so that a program that writes to a pipe does not fail.
    pub(super) fn drain(&mut self) -> Result<()> {
        if !self.can_seek {
            io::copy(&mut self.input, &mut io::sink())?;
        }
        Ok(())
    }

    /// Reads a header; `None` at the end of the archive.
    fn header(&mut self) -> Result<Option<Header>> {
        let is_first = self.at_bytes == 0;
        let mut block = [0; BLOCK_BYTES];
        if is_first {
            self.check_compression()?;
        }
        self.read_block(&mut block)?;
        if is_zeros(&block) {
            // An image of a file system also begins with zeros.
            if is_first && !is_zeros(self.input.fill_buf().map_err(|error| failed(&error))?) {
                return Err(not_an_archive());
            }
            return Ok(None);
        }
        match Header::new(&block) {
            Some(header) => Ok(Some(header)),
            None if is_first => Err(not_an_archive()),
            None => Err(Failure::new(format!(
                "the archive is damaged at byte {}: wrong checksum of a header",
                self.at_bytes - BLOCK_BYTES as u64
            ))),
        }
    }

    /// Fails if the archive is compressed.
    fn check_compression(&mut self) -> Result<()> {
        let start = self.input.fill_buf().map_err(|error| failed(&error))?;
        let programs: [(&[u8], &str); 4] = [
            (b"\x1f\x8b", "gzip"),
            (b"\xfd7zXZ\0", "xz"),
            (b"\x28\xb5\x2f\xfd", "zstd"),
            (b"BZh", "bzip2"),
        ];
        match programs.iter().find(|(magic, _)| start.starts_with(magic)) {
            None => Ok(()),
            Some((_, program)) => Err(Failure::with_hint(
                format!("the archive is compressed by {program}"),
                format!("decompress it: {program} -dc ARCHIVE | larder create disk.img --from -"),
            )),
        }
    }

    fn entry(&mut self, header: &Header, size_bytes: u64, pax: Pax) -> Result<Entry> {
        let path = pax.sparse_path.as_ref().or(pax.path.as_ref());
        let path = path.cloned().unwrap_or_else(|| header.path());
        let at = |what: &str| Failure::new(format!("{}: {what}", name::escaped(&path)));
        let stored_bytes = match header.kind() {
            // Like GNU tar, ignore the sizes of files without content.
            b'1'..=b'6' => 0,
            _ => pax.size_bytes.unwrap_or(size_bytes),
        };
        if stored_bytes > MAX_FILE_BYTES {
            return Err(at("the file is too large"));
        }
        let link = || pax.link.clone().unwrap_or_else(|| header.link());
        let device = |kind| {
            let (major, minor) = header.device().map_err(at)?;
            let device = Some(DeviceNumber { major, minor });
            Ok::<_, Failure>(Kind::Node { kind, device })
        };
        self.set_content(stored_bytes);
        let kind = match header.kind() {
            b'0' | b'\0' | b'7' if !path.ends_with(b"/") => self.file(&pax, stored_bytes, at)?,
            // Before ustar, a directory was a file whose path ends in a slash.
            b'0' | b'\0' | b'7' | b'5' | b'D' => Kind::Directory,
            b'S' => {
                let (real_bytes, runs) = self.gnu_sparse(header).map_err(at)?;
                sparse(real_bytes, runs, stored_bytes).map_err(at)?
            }
            b'1' => Kind::HardLink { path: link() },
            b'2' => Kind::Symlink { target: link() },
            b'3' => device(FileKind::CharDevice)?,
            b'4' => device(FileKind::BlockDevice)?,
            b'6' => Kind::Node {
                kind: FileKind::Fifo,
                device: None,
            },
            other => {
                let kind = char::from(other).escape_default();
                return Err(at(&format!("unknown type '{kind}' of an entry")));
            }
        };
        let id = |of_pax: Option<u32>, of_header: Result<u32, &'static str>| {
            of_pax.map_or(of_header, Ok).map_err(at)
        };
        let mut xattrs = pax.xattrs;
        for (list, text) in pax.access_lists {
            let value = tar_attributes::list_from_text(&text).map_err(at)?;
            xattrs.insert(list.to_vec(), value);
        }
        Ok(Entry {
            kind,
            permissions: header.permissions().map_err(at)?,
            uid: id(pax.uid, header.uid())?,
            gid: id(pax.gid, header.gid())?,
            mtime: match pax.mtime {
                Some(mtime) => mtime,
                None => header.mtime().map_err(at)?,
            },
            atime: pax.atime,
            xattrs,
            path,
        })
    }

    /// Returns the regular file whose content is next.
    fn file(&mut self, pax: &Pax, stored_bytes: u64, at: impl Fn(&str) -> Failure) -> Result<Kind> {
        let Some(real_bytes) = pax.sparse_bytes else {
            let all = Run {
                offset_bytes: 0,
                len_bytes: stored_bytes,
            };
            return Ok(Kind::File {
                size_bytes: stored_bytes,
                runs: vec![all],
            });
        };
        let runs = if pax.has_map_in_content {
            self.map_in_content(&at)?
        } else {
            pax.runs.clone()
        };
        sparse(real_bytes, runs, self.left_bytes).map_err(at)
    }

    /// Reads the map of a sparse file of pax, version 1.0: decimal numbers, each followed by a newline, in whole blocks.
    fn map_in_content(&mut self, at: impl Fn(&str) -> Failure) -> Result<Vec<Run>> {
        let mut block = [0; BLOCK_BYTES];
        let mut position = BLOCK_BYTES;
        let mut number = |archive: &mut Self| -> Result<u64> {
            let mut value = 0_u64;
            loop {
                if position == BLOCK_BYTES {
                    if archive.data(&mut block)? < BLOCK_BYTES {
                        return Err(at("the map of a sparse file is not complete"));
                    }
                    position = 0;
                }
                let byte = block.get(position).copied().unwrap_or_default();
                position += 1;
                let digit = match byte {
                    b'\n' => return Ok(value),
                    b'0'..=b'9' => u64::from(byte - b'0'),
                    _ => return Err(at("the map of a sparse file has no valid number")),
                };
                let next = value
                    .checked_mul(10)
                    .and_then(|value| value.checked_add(digit));
                value =
                    next.ok_or_else(|| at("a number in the map of a sparse file is too large"))?;
            }
        };
        let count = number(self)?;
        if count > MAX_RUNS as u64 {
            return Err(at("the map of a sparse file has too many entries"));
        }
        let mut runs = Vec::new();
        for _ in 0..count {
            runs.push(Run {
                offset_bytes: number(self)?,
                len_bytes: number(self)?,
            });
        }
        Ok(runs)
    }

    /// Returns the size and the runs of a sparse file of GNU tar, which are in the header and in the blocks after it.
    fn gnu_sparse(&mut self, header: &Header) -> Result<(u64, Vec<Run>), &'static str> {
        let (real_bytes, mut runs, mut is_continued) = header.sparse()?;
        while is_continued {
            let mut block = [0; BLOCK_BYTES];
            self.read_block(&mut block)
                .map_err(|_| "the map of a sparse file is not complete")?;
            is_continued = header::add_runs(&block, &mut runs)?;
            if runs.len() > MAX_RUNS {
                return Err("the map of a sparse file has too many entries");
            }
        }
        Ok((real_bytes, runs))
    }

    fn read_block(&mut self, block: &mut [u8; BLOCK_BYTES]) -> Result<()> {
        self.input
            .read_exact(block)
            .map_err(|error| failed(&error))?;
        self.at_bytes += BLOCK_BYTES as u64;
        Ok(())
    }

    /// Begins content of `size_bytes`.
    fn set_content(&mut self, size_bytes: u64) {
        self.left_bytes = size_bytes;
        self.padding_bytes = size_bytes.next_multiple_of(BLOCK_BYTES as u64) - size_bytes;
    }

    /// Returns the whole content of an extension.
    fn content(&mut self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut input = self.input.by_ref().take(self.left_bytes);
        let read = input
            .read_to_end(&mut bytes)
            .map_err(|error| failed(&error))?;
        if (read as u64) < self.left_bytes {
            return Err(failed(&io::ErrorKind::UnexpectedEof.into()));
        }
        self.at_bytes += self.left_bytes;
        self.left_bytes = 0;
        Ok(bytes)
    }

    /// Skips the rest of the present entry.
    fn skip_content(&mut self) -> Result<()> {
        let skip_bytes = self.left_bytes + self.padding_bytes;
        (self.left_bytes, self.padding_bytes) = (0, 0);
        self.at_bytes += skip_bytes;
        // The end of the file is found when the next header is read.
        self.input.skip(skip_bytes).map_err(|error| failed(&error))
    }
}

/// Returns the sparse file with these runs.
///
/// # Errors
/// If the runs are not in order, overlap, are not inside the file, or do not add up to `stored_bytes`.
fn sparse(size_bytes: u64, mut runs: Vec<Run>, stored_bytes: u64) -> Result<Kind, &'static str> {
    if size_bytes > MAX_FILE_BYTES {
        return Err("the file is too large");
    }
    let (mut end_bytes, mut sum_bytes) = (0, 0_u64);
    for run in &runs {
        let next_bytes = run.offset_bytes.checked_add(run.len_bytes);
        let next_bytes = next_bytes.filter(|&next| next <= size_bytes);
        let next_bytes = next_bytes.ok_or("a run of the sparse file is past its end")?;
        if run.offset_bytes < end_bytes {
            return Err("the runs of the sparse file overlap, or are not in order");
        }
        end_bytes = next_bytes;
        sum_bytes = sum_bytes.saturating_add(run.len_bytes);
    }
    if sum_bytes != stored_bytes {
        return Err("the runs of the sparse file do not add up to the stored size");
    }
    runs.retain(|run| run.len_bytes > 0);
    Ok(Kind::File { size_bytes, runs })
}

fn is_zeros(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

fn not_an_archive() -> Failure {
    Failure::with_hint(
        "the source is neither a directory nor a tar archive",
        "larder create makes an image from files; larder info shows what an image contains",
    )
}

fn failed(error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return Failure::with_hint(
            "the archive ends before its end marker",
            "it is truncated, or the program that writes it has failed",
        );
    }
    Failure::new(format!("cannot read the archive: {error}"))
}
