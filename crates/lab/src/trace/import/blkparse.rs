//! Imports the output of blkparse(1) for the trace of a block device.
//!
//! A line is `8,16 1 42 0.000123456 697 Q RM 223490 + 8 [kjournald]`: device, processor, number, seconds,
//! process, action, type of request, first sector, sectors. Only the action `Q` (a request is queued) is
//! imported, since the later actions concern the same request.

use super::event::EventSink;
use super::lines::Line;
use super::pages::{self, Span};
use super::skipped::{FOREIGN, Skipped};
use super::strace::nanoseconds;
use crate::trace::Error;
use larder_cache::tape::CacheKind;
use std::io::BufRead;

const SECTOR_BYTES: u64 = 512;

/// The first words of lines that do not describe actions: the list of input files, and the summary.
const SUMMARY: [&str; 9] = [
    "CPU",
    "Reads ",
    "Read ",
    "PC ",
    "IO ",
    "Total (",
    "Throughput (",
    "Events (",
    "Skips: ",
];

pub(super) fn import(reader: impl BufRead, emit: &mut EventSink<'_>) -> Result<Skipped, Error> {
    pages::import(reader, emit, request)
}

fn request(line: Line<'_>) -> Result<Span, &'static str> {
    let text = str::from_utf8(line.text).map_err(|_| FOREIGN)?;
    if is_of_summary(text) {
        return Err("a line of the summary");
    }
    let mut fields = text.split_ascii_whitespace();
    let mut field = || fields.next().ok_or(FOREIGN);
    let device = field()?.split_once(',').and_then(device_number);
    let device = device.ok_or(FOREIGN)?;
    let (_processor, _number) = (field()?, field()?);
    let time_ns = nanoseconds(field()?).ok_or(FOREIGN)?;
    let (_process, action, done) = (field()?, field()?, field()?);
    if action != "Q" {
        return Err("an action other than Q");
    }
    if !done.contains(['R', 'W']) {
        return Err("neither a read nor a write");
    }
    let sector = field()?;
    if sector.starts_with('[') {
        return Err("a request without sectors");
    }
    let ("+", sectors) = (field()?, field()?) else {
        return Err(FOREIGN);
    };
    let bytes = |sectors: &str| sectors.parse::<u64>().ok()?.checked_mul(SECTOR_BYTES);
    Ok(Span {
        time_ns,
        cache: CacheKind::Buffer,
        object: device.into(),
        offset: bytes(sector).ok_or(FOREIGN)?,
        length: bytes(sectors).ok_or(FOREIGN)?,
    })
}

fn is_of_summary(text: &str) -> bool {
    let text = text.trim_ascii_start();
    let is_note = text.starts_with("Input file ") && text.ends_with(" added");
    text.is_empty() || is_note || SUMMARY.iter().any(|start| text.starts_with(start))
}

/// Parses the two decimal parts of a device number, and returns it in the kernel's internal form.
pub(in crate::trace) fn device_number((major, minor): (&str, &str)) -> Option<u32> {
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then_some(major << 20 | minor)
}
