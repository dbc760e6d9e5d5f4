//! The comparison of two sources.

use super::{Entry, Fields, Source, Stat};
use crate::error::Result;
use larder::FileKind;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

/// The maximum number of differences that are described. The others are only counted.
const SHOWN: usize = 20;
/// Content is read in pieces of this size.
const PIECE_BYTES: usize = 1 << 20;
/// The number of bytes that are read at the start and at the end of a hole to check for zeros.
const HOLE_SAMPLE_BYTES: u64 = 4096;

/// The scope of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<'a> {
    /// The fields in which both sides must agree.
    pub fields: Fields,
    /// Directories that are compared but not entered, by path from the root.
    pub closed: &'a [&'a str],
}

/// The outcome of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Names that both sides have.
    pub entries: u64,
    /// Bytes of content compared.
    pub bytes: u64,
    /// Attributes compared.
    pub attributes: u64,
    /// The first differences.
    pub differences: Vec<String>,
    /// All differences.
    pub difference_count: u64,
}

impl Report {
    /// Fails the test if the sides differ, and prints the differences.
    ///
    /// # Panics
    /// Panics if they differ.
    pub fn assert_same(&self, what: &str) {
        assert!(self.difference_count == 0, "{what}: {self}");
    }

    fn add(&mut self, path: &[u8], difference: impl fmt::Display) {
        self.difference_count += 1;
        if self.differences.len() < SHOWN {
            let path = path.escape_ascii();
            self.differences.push(format!("/{path}: {difference}"));
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} names, {} attributes, {} bytes compared, {} differences",
            self.entries, self.attributes, self.bytes, self.difference_count
        )?;
        for difference in &self.differences {
            writeln!(f, "  {difference}")?;
        }
        let shown = self.differences.len() as u64;
        if shown < self.difference_count {
            writeln!(f, "  and {} more", self.difference_count - shown)?;
        }
        Ok(())
    }
}

/// Walks both sources in parallel and reports every difference, on either side.
pub fn compare<A: Source, B: Source>(left: &A, right: &B, comparison: &Comparison<'_>) -> Report {
    let mut walk = Walk {
        left,
        right,
        comparison,
        report: Report::default(),
        seen: HashSet::new(),
        buffers: (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]),
    };
    let mut pending = vec![(Vec::new(), left.root(), right.root())];
    while let Some((path, a, b)) = pending.pop() {
        walk.node(&path, &a, &b, &mut pending);
    }
    walk.report
}

type Pending<A, B> = Vec<(Vec<u8>, <A as Source>::Node, <B as Source>::Node)>;

struct Walk<'a, A: Source, B: Source> {
    left: &'a A,
    right: &'a B,
    comparison: &'a Comparison<'a>,
    report: Report,
    /// Inodes with several links whose content was already compared.
    seen: HashSet<(u64, u64)>,
    buffers: (Vec<u8>, Vec<u8>),
}

impl<A: Source, B: Source> Walk<'_, A, B> {
    fn has(&self, field: Fields) -> bool {
        self.comparison.fields.contains(field)
    }

    /// Returns both results. If a side failed, reports its error and returns `None`. It is also a difference
    /// if both sides fail: everything in a test image is readable.
    fn both<T, U>(&mut self, path: &[u8], left: Result<T>, right: Result<U>) -> Option<(T, U)> {
        if let Err(error) = &left {
            self.report
                .add(path, format_args!("{}: {error}", self.left.label()));
        }
        if let Err(error) = &right {
            self.report
                .add(path, format_args!("{}: {error}", self.right.label()));
        }
        Some((left.ok()?, right.ok()?))
    }

    fn unequal(&mut self, path: &[u8], what: &str, left: &dyn fmt::Debug, right: &dyn fmt::Debug) {
        let (a, b) = (self.left.label(), self.right.label());
        self.report
            .add(path, format_args!("{what}: {a} {left:?}, {b} {right:?}"));
    }

    fn node(&mut self, path: &[u8], a: &A::Node, b: &B::Node, pending: &mut Pending<A, B>) {
        let stats = self.both(path, self.left.stat(a), self.right.stat(b));
        let Some((stat_a, stat_b)) = stats else {
            return;
        };
        self.stats(path, &stat_a, &stat_b);
        if stat_a.kind != stat_b.kind {
            return;
        }
        let again = stat_a.kind != FileKind::Directory
            && stat_a.links > 1
            && !self.seen.insert((stat_a.ino, stat_b.ino));
        if again {
            return;
        }
        if self.has(Fields::ATTRIBUTES) {
            self.attributes(path, a, b);
        }
        match stat_a.kind {
            FileKind::Directory => self.directory(path, a, b, pending),
            FileKind::Symlink => {
                let targets = self.both(path, self.left.target(a), self.right.target(b));
                if let Some((target_a, target_b)) = targets.filter(|(a, b)| a != b) {
                    let shown = (target_a.escape_ascii(), target_b.escape_ascii());
                    self.unequal(path, "target", &shown.0, &shown.1);
                }
            }
            FileKind::Regular if stat_a.size_bytes == stat_b.size_bytes => {
                self.content(path, a, b, stat_a.size_bytes);
            }
            _ => {}
        }
    }

    fn stats(&mut self, path: &[u8], a: &Stat, b: &Stat) {
        let fields = self.comparison.fields;
        let directory = a.kind == FileKind::Directory;
        self.same(path, "type", &a.kind, &b.kind);
        self.same(path, "permissions", &a.permissions, &b.permissions);
        self.same(path, "links", &a.links, &b.links);
        self.same(path, "owners", &a.owners, &b.owners);
        self.same(path, "device number", &a.rdev, &b.rdev);
        if !directory || fields.contains(Fields::SPACE) {
            self.same(path, "size", &a.size_bytes, &b.size_bytes);
        }
        if fields.contains(Fields::INODES) {
            self.same(path, "inode", &a.ino, &b.ino);
        }
        if fields.contains(Fields::SPACE) {
            self.same(path, "space", &a.blocks_512, &b.blocks_512);
        }
        let times = if directory {
            Fields::DIRECTORY_TIMES
        } else {
            Fields::TIMES
        };
        if fields.contains(times) {
            self.same(path, "accessed", &a.accessed, &b.accessed);
            self.same(path, "modified", &a.modified, &b.modified);
            self.same(path, "changed", &a.changed, &b.changed);
            if self.has(Fields::CREATED) {
                self.same(path, "created", &a.created, &b.created);
            }
        } else if fields.contains(Fields::MODIFIED) && !directory {
            self.same(path, "modified", &a.modified.0, &b.modified.0);
        }
    }

    fn same<T: PartialEq + fmt::Debug>(&mut self, path: &[u8], what: &str, a: &T, b: &T) {
        if a != b {
            self.unequal(path, what, a, b);
        }
    }

    fn attributes(&mut self, path: &[u8], a: &A::Node, b: &B::Node) {
        let both = self.both(path, self.left.attributes(a), self.right.attributes(b));
        let Some((left, right)) = both else {
            return;
        };
        self.report.attributes += left.len() as u64;
        for (name, value) in &left {
            let what = format!("attribute {}", name.escape_ascii());
            match right.get(name) {
                None => self.unequal(path, &what, &value.len(), &"none"),
                Some(other) if other != value => {
                    let shown = (value.escape_ascii(), other.escape_ascii());
                    self.unequal(path, &what, &shown.0, &shown.1);
                }
                Some(_) => {}
            }
        }
        for (name, value) in right.iter().filter(|(name, _)| !left.contains_key(*name)) {
            let what = format!("attribute {}", name.escape_ascii());
            self.unequal(path, &what, &"none", &value.len());
        }
    }

    fn directory(&mut self, path: &[u8], a: &A::Node, b: &B::Node, pending: &mut Pending<A, B>) {
        let closed = |closed: &&str| closed.as_bytes() == path;
        if self.comparison.closed.iter().any(closed) {
            return;
        }
        let both = self.both(path, self.left.entries(a), self.right.entries(b));
        let Some((mut left, mut right)) = both else {
            return;
        };
        left.sort_by(|a, b| a.name.cmp(&b.name));
        right.sort_by(|a, b| a.name.cmp(&b.name));
        let mut left = left.into_iter().peekable();
        let mut right = right.into_iter().peekable();
        loop {
            let order = match (left.peek(), right.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => a.name.cmp(&b.name),
            };
            let a = if order.is_le() { left.next() } else { None };
            let b = if order.is_ge() { right.next() } else { None };
            match (a, b) {
                (Some(a), Some(b)) => {
                    let path = join(path, &a.name);
                    self.entry(&path, &a, &b);
                    pending.push((path, a.node, b.node));
                }
                (Some(a), None) => self.alone(path, &a.name, self.left.label()),
                (None, Some(b)) => self.alone(path, &b.name, self.right.label()),
                (None, None) => break,
            }
        }
    }

    fn alone(&mut self, folder: &[u8], name: &[u8], label: &str) {
        self.report
            .add(&join(folder, name), format_args!("only in {label}"));
    }

    fn entry(&mut self, path: &[u8], a: &Entry<A::Node>, b: &Entry<B::Node>) {
        self.report.entries += 1;
        if self.has(Fields::INODES) {
            if a.ino != b.ino {
                self.unequal(path, "listed inode", &a.ino, &b.ino);
            }
            if a.kind != b.kind {
                self.unequal(path, "listed type", &a.kind, &b.kind);
            }
        }
    }

    fn content(&mut self, path: &[u8], a: &A::Node, b: &B::Node, size_bytes: u64) {
        let runs = (
            self.left.data_runs(a, size_bytes),
            self.right.data_runs(b, size_bytes),
        );
        let Some((left, right)) = self.both(path, runs.0, runs.1) else {
            return;
        };
        if self.has(Fields::HOLES) && left != right {
            self.unequal(path, "data runs", &Shortened(&left), &Shortened(&right));
        }
        for range in ranges_to_read(&left, &right, size_bytes) {
            if !self.range(path, a, b, &range, size_bytes) {
                return;
            }
        }
    }

    /// Compares a range of the content. Returns `false` after a difference.
    fn range(
        &mut self,
        path: &[u8],
        a: &A::Node,
        b: &B::Node,
        range: &Range<u64>,
        size_bytes: u64,
    ) -> bool {
        let (mut left, mut right) = std::mem::take(&mut self.buffers);
        let mut at = range.start;
        let mut same = true;
        while same && at < range.end {
            let len =
                usize::try_from(range.end - at).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
            let read = (
                self.left.read_at(a, &mut left[..len], at),
                self.right.read_at(b, &mut right[..len], at),
            );
            same = match self.both(path, read.0, read.1) {
                None => false,
                Some((read_a, read_b)) if read_a != len || read_b != len => {
                    let what =
                        format!("bytes read at {at} ({len} requested, file size {size_bytes})");
                    self.unequal(path, &what, &read_a, &read_b);
                    false
                }
                Some(_) => self.piece(path, &left[..len], &right[..len], at),
            };
            self.report.bytes += len as u64;
            at += len as u64;
        }
        self.buffers = (left, right);
        same
    }

    fn piece(&mut self, path: &[u8], left: &[u8], right: &[u8], at: u64) -> bool {
        if left == right {
            return true;
        }
        let first = left.iter().zip(right).take_while(|(a, b)| a == b).count();
        let count = left.iter().zip(right).filter(|(a, b)| a != b).count();
        let what = format!("byte {}, first of {count} that differ", at + first as u64);
        self.unequal(path, &what, &left.get(first), &right.get(first));
        false
    }
}

/// Returns the data of either side, and the edges of what both sides report as holes.
fn ranges_to_read(left: &[Range<u64>], right: &[Range<u64>], size_bytes: u64) -> Vec<Range<u64>> {
    let mut data: Vec<_> = left.iter().chain(right).cloned().collect();
    data.sort_by_key(|range| range.start);
    data.push(size_bytes..size_bytes);
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut at = 0;
    for run in data {
        if run.start > at {
            let hole_end = run.start.min(size_bytes);
            ranges.push(at..hole_end.min(at + HOLE_SAMPLE_BYTES));
            ranges.push(hole_end.saturating_sub(HOLE_SAMPLE_BYTES).max(at)..hole_end);
        }
        ranges.push(run.start.max(at)..run.end.max(at));
        at = at.max(run.end);
    }
    ranges.retain(|range| !range.is_empty());
    ranges
}

fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() {
        return name.to_vec();
    }
    [folder, name].join(&b'/')
}

/// The first elements of a long list.
struct Shortened<'a>(&'a [Range<u64>]);

impl fmt::Debug for Shortened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.len().min(6);
        write!(f, "{} runs {:?}", self.0.len(), &self.0[..shown])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::DirectorySource;
    use std::path::Path;

    const EVERYTHING: Comparison<'_> = Comparison {
        fields: Fields::MODIFIED
            .union(Fields::HOLES)
            .union(Fields::ATTRIBUTES),
        closed: &[],
    };

    fn differences(change: impl Fn(&Path)) -> Report {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        for folder in &folders {
            let inside = folder.path().join("inside");
            std::fs::create_dir(&inside).unwrap();
            std::fs::write(inside.join("file"), [7; 5000]).unwrap();
            std::os::unix::fs::symlink("file", inside.join("link")).unwrap();
        }
        change(folders[1].path());
        let comparison = Comparison {
            fields: EVERYTHING.fields.difference(Fields::MODIFIED),
            closed: &[],
        };
        compare(
            &DirectorySource::new("a", folders[0].path()),
            &DirectorySource::new("b", folders[1].path()),
            &comparison,
        )
    }

    #[test]
    fn equal_folders_have_no_differences() {
        let report = differences(|_| {});
        report.assert_same("equal folders");
        assert_eq!((report.entries, report.bytes), (3, 5000));
    }

    #[test]
    fn name_on_one_side_is_reported() {
        let report = differences(|folder| std::fs::write(folder.join("extra"), "").unwrap());
        assert_eq!(report.differences, ["/extra: only in b"]);
        let report =
            differences(|folder| std::fs::remove_file(folder.join("inside/link")).unwrap());
        assert_eq!(report.differences, ["/inside/link: only in a"]);
    }

    #[test]
    fn changed_byte_is_reported_with_its_offset() {
        let report = differences(|folder| {
            let mut bytes = vec![7; 5000];
            bytes[4321] = 8;
            std::fs::write(folder.join("inside/file"), bytes).unwrap();
        });
        assert_eq!(
            report.differences,
            ["/inside/file: byte 4321, first of 1 that differ: a Some(7), b Some(8)"]
        );
    }

    #[test]
    fn changed_symlink_target_is_reported_with_both_values() {
        let report = differences(|folder| {
            let link = folder.join("inside/link");
            std::fs::remove_file(&link).unwrap();
            std::os::unix::fs::symlink("elsewhere", link).unwrap();
        });
        assert!(
            report
                .differences
                .iter()
                .any(|line| line.contains("target: a")),
            "{report}"
        );
    }

    #[test]
    fn ranges_between_runs_sample_hole_edges() {
        let runs = vec![10_000..20_000, 50_000..50_001];
        let ranges = ranges_to_read(&runs, &runs, 100_000);
        assert_eq!(ranges.first(), Some(&(0..4096)));
        assert!(ranges.contains(&(10_000..20_000)));
        assert_eq!(ranges.last(), Some(&(95_904..100_000)));
    }
}
