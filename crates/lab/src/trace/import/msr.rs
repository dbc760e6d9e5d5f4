//! Imports the block traces of Microsoft Research, Cambridge (2007).
//!
//! A line is `128166372003061629,hm,1,Read,383496192,32768,413`: the time in units of 100 ns since 1601,
//! host, disk, operation, offset and length in bytes, response time. Hosts are numbered in the order in which
//! they first occur. The disks of a host become devices whose major number is the number of the host.

use super::event::EventSink;
use super::lines::Line;
use super::pages::{self, Span};
use super::skipped::{FOREIGN, Skipped};
use crate::trace::Error;
use larder_cache::tape::CacheKind;
use std::io::BufRead;

/// Maximum number of hosts: the number of possible major numbers. The complete set of traces has 13 hosts.
const HOSTS: usize = 1 << 12;

/// First line of some copies of the traces.
const HEADER: &[u8] = b"Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";

/// The hosts that occurred, and the time of the first request.
#[derive(Default)]
struct Seen {
    hosts: Vec<Box<[u8]>>,
    began: Option<u64>,
}

pub(super) fn import(reader: impl BufRead, emit: &mut EventSink<'_>) -> Result<Skipped, Error> {
    let mut seen = Seen::default();
    pages::import(reader, emit, |line| seen.request(line))
}

impl Seen {
    fn request(&mut self, line: Line<'_>) -> Result<Span, &'static str> {
        if line.text == HEADER {
            return Err("the header");
        }
        let mut fields = line.text.split(|&byte| byte == b',');
        let mut field = || fields.next().ok_or(FOREIGN);
        let (time, host, disk, done) = (field()?, field()?, field()?, field()?);
        let (offset, length, _took) = (field()?, field()?, field()?);
        if !done.eq_ignore_ascii_case(b"Read") && !done.eq_ignore_ascii_case(b"Write") {
            return Err(FOREIGN);
        }
        let number = |text: &[u8]| -> Option<u64> { str::from_utf8(text).ok()?.parse().ok() };
        let time = number(time).ok_or(FOREIGN)?;
        let disk = number(disk).and_then(|disk| u32::try_from(disk).ok());
        let disk = disk.filter(|&disk| disk < 1 << 20).ok_or(FOREIGN)?;
        let device = self.host(host).ok_or("too many hosts")? << 20 | disk;
        Ok(Span {
            time_ns: time
                .saturating_sub(*self.began.get_or_insert(time))
                .saturating_mul(100),
            cache: CacheKind::Buffer,
            object: device.into(),
            offset: number(offset).ok_or(FOREIGN)?,
            length: number(length).ok_or(FOREIGN)?,
        })
    }

    /// Returns the number of `host`.
    fn host(&mut self, host: &[u8]) -> Option<u32> {
        let known = self.hosts.iter().position(|known| **known == *host);
        let number = known.unwrap_or(self.hosts.len());
        if known.is_none() {
            if number == HOSTS {
                return None;
            }
            self.hosts.push(host.into());
        }
        u32::try_from(number).ok()
    }
}
