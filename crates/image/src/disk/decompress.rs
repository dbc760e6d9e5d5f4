//! Decompresses units. The content of a unit has a known length: more is not decompressed.

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_PARSE_ZLIB_HEADER, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The start of a zstd frame.
const ZSTD_MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
/// Bits of the descriptor of a zstd frame.
const DICTIONARY: u8 = 0b11;
const HAS_CHECKSUM: u8 = 1 << 2;
const IS_SINGLE_SEGMENT: u8 = 1 << 5;
/// The descriptor of a frame whose header has the length of the content in 4 bytes.
const CONTENT_LEN_OF_4_BYTES: u8 = 2 << 6;

/// The approximate memory of the zstd decoder for the literals, sequences and tables of a block, in bytes.
const ZSTD_BLOCK_BYTES: u64 = 2 << 20;

/// Returns the approximate memory, in bytes, that is used to decompress a unit of `len` bytes by deflate. The compressed
/// unit is not included.
pub(crate) fn inflate_memory_bytes(len: usize) -> u64 {
    (len + size_of::<DecompressorOxide>()) as u64
}

/// Returns the approximate memory, in bytes, that is used to decompress a unit of `len` bytes by zstd. The compressed unit
/// is not included.
pub(crate) fn zstd_memory_bytes(len: usize) -> u64 {
    let len_bytes = len as u64;
    // The size of the decoder's window is a power of two.
    len_bytes + len_bytes.next_power_of_two() + ZSTD_BLOCK_BYTES
}

/// Returns the content of `stored`, a deflate stream (RFC 1951), which has at most `max_len` bytes. Other bytes may follow
/// the stream.
pub(crate) fn deflate(stored: &[u8], max_len: usize) -> Result<Vec<u8>, &'static str> {
    inflate(stored, max_len, 0)
}

/// Returns the content of `stored`, a zlib stream (RFC 1950), which has at most `max_len` bytes. Other bytes may follow the
/// stream.
pub(crate) fn zlib(stored: &[u8], max_len: usize) -> Result<Vec<u8>, &'static str> {
    inflate(stored, max_len, TINFL_FLAG_PARSE_ZLIB_HEADER)
}

fn inflate(stored: &[u8], max_len: usize, flags: u32) -> Result<Vec<u8>, &'static str> {
    let mut state = Box::<DecompressorOxide>::default();
    let mut content = vec![0; max_len];
    let flags = flags | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
    match decompress(&mut state, stored, &mut content, 0, flags) {
        (TINFLStatus::Done, _, len) => {
            content.truncate(len);
            Ok(content)
        }
        (TINFLStatus::HasMoreOutput, ..) => Err("a unit has too much content"),
        _ => Err("a unit cannot be decompressed by deflate"),
    }
}

/// Returns the content of `stored`, a zstd frame (RFC 8878). The content must have `len` bytes, and the checksum of the
/// frame, if it has one. Other bytes may follow the frame.
pub(crate) fn zstd(stored: &[u8], len: usize) -> Result<Vec<u8>, &'static str> {
    const INVALID: &str = "a unit cannot be decompressed by zstd";
    let (header, mut blocks) = with_window(stored, len).ok_or(INVALID)?;
    let mut decoder = FrameDecoder::new();
    // The first call creates the state of the decoder. The second one allocates the window, which then need not grow.
    for _ in 0..2 {
        decoder.reset(&header[..]).map_err(|_| INVALID)?;
    }
    // The decoder returns content of an unfinished frame only if it has more than the window, which is the whole unit.
    while !decoder.is_finished() && decoder.can_collect() == 0 {
        decoder
            .decode_blocks(&mut blocks, BlockDecodingStrategy::UptoBlocks(1))
            .map_err(|_| INVALID)?;
    }
    if !decoder.is_finished() || decoder.can_collect() > len {
        return Err("a unit has too much content");
    }
    let content = decoder.collect().unwrap_or_default();
    if content.len() < len {
        return Err("a unit has too little content");
    }
    match decoder.get_checksum_from_data() {
        Some(checksum) if decoder.get_calculated_checksum() != Some(checksum) => {
            Err("the checksum of a unit is wrong")
        }
        _ => Ok(content),
    }
}

/// Returns a header that replaces that of `frame`, and the bytes after the original header. The new header has a window of
/// `len` bytes, the length of the content. Programs that compress a stream write the size of the largest window that they
/// use, which can be much larger. Returns `None` if the header is invalid, or if a dictionary
/// is needed.
fn with_window(frame: &[u8], len: usize) -> Option<(Vec<u8>, &[u8])> {
    let (&descriptor, rest) = frame.strip_prefix(&ZSTD_MAGIC)?.split_first()?;
    let is_single_segment = descriptor & IS_SINGLE_SEGMENT != 0;
    let window_len = usize::from(!is_single_segment);
    let content_len_len = match descriptor >> 6 {
        0 => usize::from(is_single_segment),
        power => 1 << power,
    };
    if descriptor & DICTIONARY != 0 {
        return None;
    }
    let blocks = rest.get(window_len + content_len_len..)?;
    let mut header = ZSTD_MAGIC.to_vec();
    header.push(descriptor & HAS_CHECKSUM | IS_SINGLE_SEGMENT | CONTENT_LEN_OF_4_BYTES);
    header.extend(u32::try_from(len).ok()?.to_le_bytes());
    Some((header, blocks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use miniz_oxide::deflate::{compress_to_vec, compress_to_vec_zlib};

    /// Returns a zstd frame without checksum. Its header requires a window of 8 MiB. Each pair of `runs` is a block: a byte
    /// that is repeated.
    fn frame_of_runs(runs: &[(u8, u32)]) -> Vec<u8> {
        let mut frame = ZSTD_MAGIC.to_vec();
        frame.extend([0, 13 << 3]);
        for (index, (byte, len)) in runs.iter().enumerate() {
            let is_last = u32::from(index + 1 == runs.len());
            let header = len << 3 | 1 << 1 | is_last;
            frame.extend(&header.to_le_bytes()[..3]);
            frame.push(*byte);
        }
        frame
    }

    #[test]
    fn window_may_be_larger_than_the_content() {
        let mut frame = frame_of_runs(&[(7, 100), (8, 50)]);
        frame.extend([1, 2, 3]);
        let content = zstd(&frame, 150).unwrap();
        assert!(content[..100] == [7; 100] && content[100..] == [8; 50]);
        assert!(zstd(&frame, 149).unwrap_err().contains("too much"));
        assert!(zstd(&frame, 151).unwrap_err().contains("too little"));
    }

    #[test]
    fn frame_with_much_content_is_not_decompressed_further_than_the_unit() {
        // The last block is invalid: it is larger than 128 KiB. It is not reached.
        let mut runs = vec![(7, 4096); 100];
        runs.push((7, 1 << 20));
        let frame = frame_of_runs(&runs);
        assert!(zstd(&frame, 4096).unwrap_err().contains("too much"));
        let error = zstd(&frame, 101 * 4096).unwrap_err();
        assert!(error.contains("cannot be decompressed"), "{error}");
    }

    #[test]
    fn header_of_a_frame_is_checked() {
        let frame = frame_of_runs(&[(7, 10)]);
        assert!(zstd(&frame, 10).is_ok());
        // A dictionary, another magic number, and a frame that ends too early.
        for (at, value) in [(4, 1), (0, 0)] {
            let mut frame = frame.clone();
            frame[at] = value;
            assert!(zstd(&frame, 10).is_err(), "{at}");
        }
        for len in 0..frame.len() {
            assert!(zstd(&frame[..len], 10).is_err(), "{len}");
        }
    }

    #[test]
    fn stream_of_deflate_must_be_complete() {
        type Inflate = fn(&[u8], usize) -> Result<Vec<u8>, &'static str>;
        let content: Vec<u8> = (0..20_000_u32)
            .map(|at| (at / 9).to_le_bytes()[0])
            .collect();
        let len = content.len();
        for (mut stream, inflate) in [
            (compress_to_vec(&content, 6), deflate as Inflate),
            (compress_to_vec_zlib(&content, 6), zlib as Inflate),
        ] {
            assert!(inflate(&stream, len).unwrap() == content);
            assert!(inflate(&stream, len + 1).unwrap() == content);
            assert!(inflate(&stream, len - 1).unwrap_err().contains("too much"));
            let end = stream.len() - 1;
            assert!(inflate(&stream[..end], len).is_err());
            stream.extend([1, 2, 3]);
            assert!(inflate(&stream, len).unwrap() == content);
        }
    }
}
