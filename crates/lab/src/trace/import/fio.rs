//! Imports the output of fio's `write_iolog`.
//!
//! The first line contains the version. Each following line contains the name of a file, the operation, and
//! the offset and length of the range, as in `/data/f read 45056 4096`. In version 3, each line begins with a
//! time in microseconds. Version 2 has no times.
//!
//! Each file gets an inode number, in the order in which the files first occur.

use super::event::EventSink;
use super::lines::Line;
use super::pages::{self, Span};
use super::skipped::{FOREIGN, Skipped};
use crate::trace::Error;
use larder_cache::tape::CacheKind;
use std::collections::HashMap;
use std::io::BufRead;

/// The inode number of the first file. On ext4, smaller numbers are reserved for the file system.
const FIRST_INODE: u64 = 12;

/// State from earlier lines: whether lines have times, and the inode numbers of files.
#[derive(Default)]
struct Log {
    has_times: bool,
    inodes: HashMap<Box<[u8]>, u64>,
}

pub(super) fn import(reader: impl BufRead, emit: &mut EventSink<'_>) -> Result<Skipped, Error> {
    let mut log = Log::default();
    pages::import(reader, emit, |line| log.access(line))
}

impl Log {
    fn access(&mut self, line: Line<'_>) -> Result<Span, &'static str> {
        if let Some(version) = line.text.strip_prefix(b"fio version ") {
            self.has_times = version.starts_with(b"3");
            return Err("the version");
        }
        let (time, rest) = if self.has_times {
            let (time, rest) = split(line.text).ok_or(FOREIGN)?;
            (number(time).ok_or(FOREIGN)?, rest)
        } else {
            (0, line.text)
        };
        // Splits from the end, since names may contain spaces.
        let mut words = rest.rsplitn(4, |&byte| byte == b' ');
        let (length, offset) = (words.next(), words.next().and_then(number));
        match (length.and_then(number), offset, words.next(), words.next()) {
            (Some(length), Some(offset), Some(b"read" | b"write"), Some(name)) => Ok(Span {
                time_ns: time.saturating_mul(1000),
                cache: CacheKind::Page,
                object: self.inode(name),
                offset,
                length,
            }),
            (Some(_), Some(_), Some(_), Some(_)) => Err("neither a read nor a write"),
            _ if rest.ends_with(b" add")
                || rest.ends_with(b" open")
                || rest.ends_with(b" close") =>
            {
                Err("the opening or closing of a file")
            }
            _ => Err(FOREIGN),
        }
    }

    fn inode(&mut self, name: &[u8]) -> u64 {
        if let Some(&inode) = self.inodes.get(name) {
            return inode;
        }
        let inode = FIRST_INODE + self.inodes.len() as u64;
        self.inodes.insert(name.into(), inode);
        inode
    }
}

fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|&byte| byte == b' ')?;
    Some((&text[..at], &text[at + 1..]))
}

fn number(text: &[u8]) -> Option<u64> {
    str::from_utf8(text).ok()?.parse().ok()
}
