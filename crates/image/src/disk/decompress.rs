//! Decompresses units into memory of their exact size.

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_PARSE_ZLIB_HEADER, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::Read;

/// The largest window of zstd, in bytes. RFC 8878 recommends that decoders support 8 MiB. zstd needs more only with
/// `--ultra` or `--long`.
const MAX_WINDOW_BYTES: u64 = 32 << 20;

/// The number of bytes that are decompressed before they are moved from the window to the unit.
const STEP_BYTES: usize = 128 << 10;

/// Fills `unit` with the content of `stored`, a deflate stream (RFC 1951). Other bytes may follow the stream.
pub(crate) fn deflate(stored: &[u8], unit: &mut [u8]) -> Result<(), &'static str> {
    inflate(stored, unit, 0)
}

/// Fills `unit` with the content of `stored`, a zlib stream (RFC 1950). Other bytes may follow the stream.
pub(crate) fn zlib(stored: &[u8], unit: &mut [u8]) -> Result<(), &'static str> {
    inflate(stored, unit, TINFL_FLAG_PARSE_ZLIB_HEADER)
}

fn inflate(stored: &[u8], unit: &mut [u8], flags: u32) -> Result<(), &'static str> {
    let mut state = Box::<DecompressorOxide>::default();
    let flags = flags | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
    let (status, _, written) = decompress(&mut state, stored, unit, 0, flags);
    // The stream of the last unit can be longer than the disk.
    let is_good = matches!(status, TINFLStatus::Done | TINFLStatus::HasMoreOutput);
    if is_good && written == unit.len() {
        Ok(())
    } else {
        Err("a unit cannot be decompressed by deflate")
    }
}

/// Fills `unit` with the content of `stored`, a zstd frame (RFC 8878). The content must have the length of `unit`, and the
/// checksum of the frame, if it has one. Other bytes may follow the frame.
pub(crate) fn zstd(stored: &[u8], unit: &mut [u8]) -> Result<(), &'static str> {
    const INVALID: &str = "a unit cannot be decompressed by zstd";
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(MAX_WINDOW_BYTES);
    let mut rest = stored;
    decoder.reset(&mut rest).map_err(|_| INVALID)?;
    let mut done = 0;
    while !decoder.is_finished() {
        let step = BlockDecodingStrategy::UptoBytes(STEP_BYTES);
        decoder
            .decode_blocks(&mut rest, step)
            .map_err(|_| INVALID)?;
        while decoder.can_collect() > 0 {
            let len = decoder.read(&mut unit[done..]).map_err(|_| INVALID)?;
            if len == 0 {
                return Err("a unit has too much content");
            }
            done += len;
        }
    }
    if done < unit.len() {
        return Err("a unit has too little content");
    }
    match decoder.get_checksum_from_data() {
        Some(checksum) if decoder.get_calculated_checksum() != Some(checksum) => {
            Err("the checksum of a unit is wrong")
        }
        _ => Ok(()),
    }
}
