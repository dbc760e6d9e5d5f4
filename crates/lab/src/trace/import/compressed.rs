//! Decompresses files that gzip or zstd compressed, recognized by their first bytes.

use super::detect::head;
use crc32fast::Hasher;
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, BufReader, Read};

/// The first bytes of a file that gzip compressed with deflate.
const GZIP: &[u8] = b"\x1f\x8b\x08";
/// The first bytes of a zstd frame.
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
/// The bytes after the first one of a skippable zstd frame. The first byte is 0x50 to 0x5f.
const SKIPPABLE: &[u8] = b"\x2a\x4d\x18";

/// Size of a read of decompressed bytes.
const BUFFER_BYTES: usize = 1 << 18;

/// Returns a reader of the decompressed content of `reader`; `reader` itself, if its content is not compressed
/// with gzip or zstd.
///
/// # Errors
/// Returns the errors of `reader`, and an error if the header of the compressed content is damaged. Damage after
/// that is an error of the returned reader.
pub fn decompressed<'r>(mut reader: impl BufRead + 'r) -> io::Result<Box<dyn BufRead + 'r>> {
    let head = head(&mut reader)?;
    let decoder: Box<dyn Read + 'r> = if head.starts_with(GZIP) {
        Box::new(Gzip::new(reader)?)
    } else if head.starts_with(ZSTD) || is_skippable(&head) {
        Box::new(Zstd::new(reader)?)
    } else {
        return Ok(Box::new(reader));
    };
    Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, decoder)))
}

fn damaged(reason: impl std::fmt::Display) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the compressed file is damaged: {reason}"),
    )
}

fn is_skippable(head: &[u8]) -> bool {
    head.first().is_some_and(|first| first & 0xf0 == 0x50) && head[1..].starts_with(SKIPPABLE)
}

/// One zstd frame after the other (RFC 8878).
struct Zstd<R: BufRead> {
    reader: R,
    frame: FrameDecoder,
    /// Whether the last frame has ended.
    has_ended: bool,
}

impl<R: BufRead> Zstd<R> {
    fn new(reader: R) -> io::Result<Self> {
        let mut frames = Self {
            reader,
            frame: FrameDecoder::new(),
            has_ended: false,
        };
        frames.start_frame()?;
        Ok(frames)
    }

    /// Reads the header of the next frame, and skips the skippable frames before it.
    fn start_frame(&mut self) -> io::Result<()> {
        while !self.reader.fill_buf()?.is_empty() {
            match self.frame.init(&mut self.reader) {
                Ok(()) => return Ok(()),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    let mut content = self.reader.by_ref().take(length);
                    if io::copy(&mut content, &mut io::sink())? < length {
                        return Err(damaged("it is cut short"));
                    }
                }
                Err(error) => return Err(damaged(error)),
            }
        }
        self.has_ended = true;
        Ok(())
    }

    /// Verifies the checksum of a frame, if it has one.
    fn verify(&self) -> io::Result<()> {
        match self.frame.get_checksum_from_data() {
            Some(sum) if self.frame.get_calculated_checksum() != Some(sum) => {
                Err(damaged("wrong checksum"))
            }
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        const ONE: BlockDecodingStrategy = BlockDecodingStrategy::UptoBlocks(1);
        while !self.has_ended {
            let len = self.frame.read(buf).map_err(damaged)?;
            if len > 0 || buf.is_empty() {
                return Ok(len);
            }
            if self.frame.is_finished() {
                self.verify()?;
                self.start_frame()?;
            } else {
                let decoded = self.frame.decode_blocks(&mut self.reader, ONE);
                decoded.map_err(damaged)?;
            }
        }
        Ok(0)
    }
}

/// One gzip member after the other (RFC 1952).
struct Gzip<R: BufRead> {
    reader: R,
    state: Box<InflateState>,
    sum: Hasher,
    /// Whether the last member has ended.
    has_ended: bool,
}

impl<R: BufRead> Gzip<R> {
    fn new(mut reader: R) -> io::Result<Self> {
        skip_header(&mut reader)?;
        Ok(Self {
            reader,
            state: InflateState::new_boxed(DataFormat::Raw),
            sum: Hasher::new(),
            has_ended: false,
        })
    }

    /// Checks the checksum and the length after the compressed data of a member, and starts the next member.
    fn end_member(&mut self) -> io::Result<()> {
        let sum = std::mem::take(&mut self.sum);
        if u32::from_le_bytes(array(&mut self.reader)?) != sum.finalize() {
            return Err(damaged("wrong checksum"));
        }
        let _length: [u8; 4] = array(&mut self.reader)?;
        self.has_ended = !self.reader.fill_buf()?.starts_with(&GZIP[..1]);
        if !self.has_ended {
            skip_header(&mut self.reader)?;
            self.state = InflateState::new_boxed(DataFormat::Raw);
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        while !self.has_ended {
            let input = self.reader.fill_buf()?;
            let is_cut_short = input.is_empty();
            let result = inflate(&mut self.state, input, buf, MZFlush::None);
            self.reader.consume(result.bytes_consumed);
            let written = &buf[..result.bytes_written];
            self.sum.update(written);
            match result.status {
                Ok(MZStatus::StreamEnd) => self.end_member()?,
                Ok(_) | Err(MZError::Buf) if !is_cut_short || !written.is_empty() => {}
                Ok(_) | Err(MZError::Buf) => return Err(damaged("it is cut short")),
                Err(_) => return Err(damaged("invalid deflate data")),
            }
            if !written.is_empty() {
                return Ok(written.len());
            }
        }
        Ok(0)
    }
}

fn array<const N: usize>(reader: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    reader
        .read_exact(&mut bytes)
        .map_err(|_| damaged("it is cut short"))?;
    Ok(bytes)
}

/// Reads the header of a gzip member.
fn skip_header(reader: &mut impl BufRead) -> io::Result<()> {
    const HEADER_SUM: u8 = 2;
    const EXTRA: u8 = 4;
    const NAME: u8 = 8;
    const COMMENT: u8 = 16;
    let [magic @ .., flags, _, _, _, _, _, _]: [u8; 10] = array(reader)?;
    if magic != GZIP {
        return Err(damaged("unknown compression method"));
    }
    if flags & EXTRA != 0 {
        let length = u16::from_le_bytes(array(reader)?);
        io::copy(&mut reader.by_ref().take(length.into()), &mut io::sink())?;
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            while array::<1>(reader)? != [0] {}
        }
    }
    if flags & HEADER_SUM != 0 {
        let _sum: [u8; 2] = array(reader)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use miniz_oxide::deflate::compress_to_vec;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec as zstd};

    fn gzip(content: &[u8], flags: u8, header: &[u8]) -> Vec<u8> {
        let mut sum = Hasher::new();
        sum.update(content);
        let length = u32::try_from(content.len()).unwrap();
        [
            &[0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 3][..],
            header,
            &compress_to_vec(content, 6),
            &sum.finalize().to_le_bytes(),
            &length.to_le_bytes(),
        ]
        .concat()
    }

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        // The small buffer splits headers and trailers.
        let reader = BufReader::with_capacity(7, bytes);
        decompressed(reader)?.read_to_end(&mut content)?;
        Ok(content)
    }

    fn content() -> Vec<u8> {
        (0..40_000_u32)
            .flat_map(|n| (n * n % 977).to_string().into_bytes())
            .collect()
    }

    #[test]
    fn content_of_every_compression_is_read() {
        let content = content();
        let name = b"\x05\0extraname\0comment\0ab";
        for (what, bytes) in [
            ("plain", content.clone()),
            ("gzip", gzip(&content, 0, b"")),
            ("gzip with all headers", gzip(&content, 30, name)),
            ("zstd", zstd(&*content, CompressionLevel::Fastest)),
        ] {
            assert!(read(&bytes).unwrap() == content, "{what}");
        }
    }

    #[test]
    fn members_and_frames_are_concatenated() {
        let members = [
            gzip(b"one", 0, b""),
            gzip(b"", 0, b""),
            gzip(b"two", 0, b""),
        ];
        assert_eq!(read(&members.concat()).unwrap(), b"onetwo");
        let frames = [b"one", b"two"].map(|part| zstd(&part[..], CompressionLevel::Fastest));
        assert_eq!(read(&frames.concat()).unwrap(), b"onetwo");
    }

    #[test]
    fn skippable_frames_are_skipped_anywhere() {
        let skippable = |first: u8, content: &[u8]| {
            let length = u32::try_from(content.len()).unwrap();
            let magic = [first, 0x2a, 0x4d, 0x18];
            [&magic[..], &length.to_le_bytes(), content].concat()
        };
        let frame = |content: &[u8]| zstd(content, CompressionLevel::Fastest);
        let frames = [
            skippable(0x50, b""),
            skippable(0x5f, b"metadata of some length"),
            frame(b"one"),
            skippable(0x5a, b"between"),
            frame(b"two"),
            skippable(0x51, b"last"),
        ];
        assert_eq!(read(&frames.concat()).unwrap(), b"onetwo");
        assert_eq!(read(&skippable(0x50, b"alone")).unwrap(), b"");
        let cut = skippable(0x50, b"content");
        let error = read(&cut[..cut.len() - 1]).unwrap_err().to_string();
        assert_eq!(error, "the compressed file is damaged: it is cut short");
    }

    #[test]
    fn cut_or_damaged_content_is_an_error() {
        let content = content();
        for bytes in [
            gzip(&content, 0, b""),
            zstd(&*content, CompressionLevel::Fastest),
        ] {
            for end in [5, bytes.len() / 2, bytes.len() - 5] {
                assert!(read(&bytes[..end]).is_err(), "{end} of {}", bytes.len());
            }
        }
        let mut wrong = gzip(&content, 0, b"");
        let sum = wrong.len() - 6;
        wrong[sum] ^= 1;
        let error = read(&wrong).unwrap_err().to_string();
        assert_eq!(error, "the compressed file is damaged: wrong checksum");
        // The encoder appends a checksum of the content.
        for after in [&b""[..], &zstd(&b"next"[..], CompressionLevel::Fastest)] {
            let mut wrong = zstd(&*content, CompressionLevel::Fastest);
            let sum = wrong.len() - 4;
            wrong[sum] ^= 1;
            let error = read(&[&wrong, after].concat()).unwrap_err().to_string();
            assert_eq!(error, "the compressed file is damaged: wrong checksum");
        }
    }
}
