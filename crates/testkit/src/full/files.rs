//! The content that the files must have.

use super::promise::Promise;
use super::{FILES, FileNo};
use crate::crash::Layout;
use crate::operation::describe_content;
use larder::Fallocate;
use std::ops::Range;

/// Properties of the image that determine which operations may fail.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The unit of allocation.
    pub cluster_bytes: u64,
    /// Whether files are mapped by extents. If not, ranges can be punched, but not allocated, zeroed or
    /// moved.
    pub extents: bool,
    /// Whether ranges can be moved. This is not possible through FUSE.
    pub moves: bool,
    /// Whether small files are stored in their inodes, so that they need space to grow.
    pub inline_data: bool,
}

impl Limits {
    /// Returns the limits of images with this layout.
    #[must_use]
    pub fn of(layout: &Layout) -> Self {
        Self {
            cluster_bytes: layout.rules.cluster_bytes,
            extents: layout.rules.extents,
            moves: true,
            inline_data: layout.mkfs.contains("inline_data"),
        }
    }
}

/// A file.
#[derive(Clone, Debug, Default)]
struct File {
    bytes: Vec<u8>,
    promise: Promise,
}

/// The content that all files must have, and the parts of them that have space.
#[derive(Clone, Debug)]
pub struct Files {
    files: [File; FILES.len()],
    /// The first offset at which space can be promised: before it, the content may be in the inode.
    first_promised_bytes: u64,
}

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl Files {
    /// Creates empty files.
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            files: Default::default(),
            first_promised_bytes: u64::from(limits.inline_data),
        }
    }

    fn file(&mut self, file: FileNo) -> &mut File {
        &mut self.files[file.index()]
    }

    /// Returns the size of the file.
    #[must_use]
    pub fn size_bytes(&self, file: FileNo) -> u64 {
        self.files[file.index()].bytes.len() as u64
    }

    /// Returns whether a write to the range needs no more space.
    pub(super) fn has_space(&self, file: FileNo, bytes: &Range<u64>) -> bool {
        self.files[file.index()].promise.covers(bytes)
    }

    /// Returns the bytes of a range, which ends before the end of the file.
    pub(super) fn bytes(&self, file: FileNo, bytes: &Range<u64>) -> Vec<u8> {
        self.files[file.index()].bytes[index(bytes.start)..index(bytes.end)].to_vec()
    }

    pub(super) fn write(&mut self, file: FileNo, buf: &[u8], offset_bytes: u64) {
        let end_bytes = offset_bytes + buf.len() as u64;
        self.grow(file, end_bytes);
        self.file(file).bytes[index(offset_bytes)..index(end_bytes)].copy_from_slice(buf);
        self.promise(file, &(offset_bytes..end_bytes));
    }

    fn grow(&mut self, file: FileNo, end_bytes: u64) {
        let bytes = &mut self.file(file).bytes;
        bytes.resize(bytes.len().max(index(end_bytes)), 0);
    }

    fn promise(&mut self, file: FileNo, bytes: &Range<u64>) {
        let first_bytes = self.first_promised_bytes;
        self.file(file).promise.add(bytes, first_bytes);
    }

    pub(super) fn truncate(&mut self, file: FileNo, size_bytes: u64) {
        let file = self.file(file);
        if index(size_bytes) < file.bytes.len() {
            file.promise.remove(&(size_bytes..u64::MAX));
        }
        file.bytes.resize(index(size_bytes), 0);
    }

    pub(super) fn remove(&mut self, file: FileNo) {
        *self.file(file) = File::default();
    }

    /// Returns whether the file is long enough for `mode`. This can be false only if `mode` moves the range.
    pub(super) fn can_move(&self, file: FileNo, mode: Fallocate, bytes: &Range<u64>) -> bool {
        match mode {
            Fallocate::Collapse => bytes.end < self.size_bytes(file),
            Fallocate::Insert => bytes.start < self.size_bytes(file),
            _ => true,
        }
    }

    pub(super) fn range(&mut self, file: FileNo, mode: Fallocate, bytes: &Range<u64>) {
        let (from, to) = (index(bytes.start), index(bytes.end));
        match mode {
            Fallocate::PunchHole => {
                self.zero(file, bytes);
                self.file(file).promise.remove(bytes);
            }
            Fallocate::Allocate { keep_size } | Fallocate::ZeroRange { keep_size } => {
                if mode == (Fallocate::ZeroRange { keep_size }) {
                    self.zero(file, bytes);
                }
                if !keep_size {
                    self.grow(file, bytes.end);
                }
                self.promise(file, bytes);
            }
            Fallocate::Collapse => {
                self.file(file).bytes.drain(from..to);
                self.file(file).promise.remove(&(bytes.start..u64::MAX));
            }
            Fallocate::Insert => {
                let zeros = std::iter::repeat_n(0, to - from);
                self.file(file).bytes.splice(from..from, zeros);
                self.file(file).promise.remove(&(bytes.start..u64::MAX));
            }
        }
    }

    fn zero(&mut self, file: FileNo, bytes: &Range<u64>) {
        let content = &mut self.file(file).bytes;
        let end = index(bytes.end).min(content.len());
        content[index(bytes.start).min(end)..end].fill(0);
    }

    /// Checks that `found` is the content that the file must have.
    ///
    /// # Errors
    /// Returns the first difference.
    pub fn expect(&self, file: FileNo, found: &[u8]) -> Result<(), String> {
        let expected = &self.files[file.index()].bytes;
        if expected.len() != found.len() {
            let (is, must_be) = (found.len(), expected.len());
            return Err(format!(
                "{file:?} has {is} bytes, but must have {must_be}; {}",
                difference(expected, found)
            ));
        }
        if expected == found {
            return Ok(());
        }
        Err(format!("{file:?}: {}", difference(expected, found)))
    }
}

/// Describes the difference of two contents, up to the end of the shorter one.
fn difference(expected: &[u8], found: &[u8]) -> String {
    let differs = |&at: &usize| expected[at] != found[at];
    let both = expected.len().min(found.len());
    let Some(first) = (0..both).find(differs) else {
        return "the common part is equal".to_owned();
    };
    let count = (first..both).filter(differs).count();
    let last = (first..both).rfind(differs).unwrap_or(first);
    // Content consists of whole words.
    let at = first - first % 8;
    let shown = |bytes: &[u8]| describe_content(&bytes[at..(at + 16).min(bytes.len())]);
    format!(
        "{count} bytes differ in {first}..={last}: is {}, must be {}",
        shown(found),
        shown(expected)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileNo = FILES[0];

    fn files() -> Files {
        let limits = Limits {
            cluster_bytes: 1024,
            extents: true,
            moves: true,
            inline_data: false,
        };
        let mut files = Files::new(limits);
        files.write(FILE, &[1; 4096], 0);
        files
    }

    fn expect(files: &Files, bytes: &[u8]) {
        files.expect(FILE, bytes).unwrap();
    }

    #[test]
    fn ranges_change_the_bytes_that_fallocate_specifies() {
        let keep_size = false;
        let mut files = files();
        files.range(FILE, Fallocate::PunchHole, &(1000..5000));
        expect(&files, &[vec![1; 1000], vec![0; 3096]].concat());
        files.range(FILE, Fallocate::Allocate { keep_size }, &(900..5000));
        expect(&files, &[vec![1; 1000], vec![0; 4000]].concat());
        files.range(FILE, Fallocate::ZeroRange { keep_size }, &(500..6000));
        expect(&files, &[vec![1; 500], vec![0; 5500]].concat());
        files.range(FILE, Fallocate::Collapse, &(100..200));
        expect(&files, &[vec![1; 400], vec![0; 5500]].concat());
        files.range(FILE, Fallocate::Insert, &(10..15));
        expect(
            &files,
            &[vec![1; 10], vec![0; 5], vec![1; 390], vec![0; 5500]].concat(),
        );
    }

    #[test]
    fn space_is_kept_until_it_is_cut_or_punched() {
        let mut files = files();
        assert!(files.has_space(FILE, &(0..4096)));
        files.truncate(FILE, 3000);
        assert!(files.has_space(FILE, &(0..2048)) && !files.has_space(FILE, &(0..3000)));
        let keep_size = true;
        files.range(FILE, Fallocate::Allocate { keep_size }, &(8192..16384));
        assert!(files.has_space(FILE, &(9000..9001)));
        assert_eq!(files.size_bytes(FILE), 3000);
        files.range(FILE, Fallocate::PunchHole, &(8192..9000));
        assert!(!files.has_space(FILE, &(8999..9001)));
        files.remove(FILE);
        expect(&files, &[]);
    }

    #[test]
    fn difference_shows_first_and_last_byte() {
        let files = files();
        let mut found = vec![1; 4096];
        found[70] = 2;
        found[80] = 2;
        let what = files.expect(FILE, &found).unwrap_err();
        assert!(what.contains("2 bytes differ in 70..=80"), "{what}");
        let what = files.expect(FILE, &found[..10]).unwrap_err();
        assert!(what.contains("has 10 bytes"), "{what}");
    }
}
