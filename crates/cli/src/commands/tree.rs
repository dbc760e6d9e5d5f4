//! The command `larder tree`: shows directory trees of an image.

use super::expand::{NamedFile, NamedFiles};
use super::reading::{Failures, open};
use crate::args::TreeArgs;
use crate::failure::{of_cause, of_path};
use crate::{json, mode};
use larder::fs::{DirEntry, Step, Walk};
use larder::{FileKind, Fs, Ino};
use larder_console::name::Names;
use larder_console::{Result, write_json};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::ExitCode;

/// The branch before the name of an entry: if others follow in its directory, and if it is the last one.
const BRANCHES: [&str; 2] = ["├── ", "└── "];
/// What precedes the entries of a directory: if other entries follow the directory, and if it is the last one.
const TRUNKS: [&str; 2] = ["│   ", "    "];

/// A file of a tree.
struct Node {
    path: Vec<u8>,
    /// The length of the name at the end of the path. The name of a file of the command line is its path.
    name_len: usize,
    /// The number of directories of the tree above the file.
    depth: usize,
    /// Whether no other entry of its directory follows.
    is_last: bool,
    /// `None` if the type cannot be read.
    kind: Option<FileKind>,
    /// The target, if the file is a symbolic link.
    target: Option<Vec<u8>>,
}

/// The files of all trees. Each directory precedes its entries.
struct Nodes<'a> {
    fs: &'a Fs,
    args: &'a TreeArgs,
    failures: &'a Failures,
    /// The files of the command line that are not returned yet.
    roots: NamedFiles<'a>,
    /// The walk through the root that was returned last.
    walk: Option<Walk>,
    /// The number of directories in which the walk is.
    depth: usize,
}

pub(super) fn run(args: &TreeArgs) -> Result<ExitCode> {
    let (fs, paths) = open(&args.files)?;
    let failures = Failures::new(1);
    let nodes = Nodes {
        fs: &fs,
        args,
        failures: &failures,
        roots: NamedFiles::new(&fs, &paths, true, &failures),
        walk: None,
        depth: 0,
    };
    if args.json {
        let entries = nodes.map(JsonNode::from);
        write_json(&BTreeMap::from([("entries", json::Stream::new(entries))]))?;
    } else {
        print_text(nodes)?;
    }
    Ok(failures.exit_code())
}

impl Nodes<'_> {
    /// Begins the walk through `root`, and returns it.
    fn begin(&mut self, root: NamedFile) -> Node {
        let NamedFile { path, metadata } = root;
        self.depth = 1;
        if metadata.is_dir() {
            match self.fs.walk(OsStr::from_bytes(&path)) {
                Ok(walk) => self.walk = Some(walk.sorted()),
                Err(error) => self.failures.report_path(&of_cause(&path, &error)),
            }
        }
        Node {
            name_len: path.len(),
            depth: 0,
            is_last: true,
            kind: Some(metadata.kind),
            target: self.target(&path, metadata.ino, Some(metadata.kind)),
            path,
        }
    }

    fn is_shown(&self, entry: &DirEntry) -> bool {
        self.args.all || !entry.file_name().as_bytes().starts_with(b".")
    }

    fn node(&self, entry: &DirEntry, is_last: bool) -> Node {
        let path = entry.path().into_os_string().into_vec();
        // If the type cannot be read, the walk reports the error.
        let kind = entry.kind().ok();
        Node {
            name_len: entry.file_name().len(),
            depth: self.depth,
            is_last,
            kind,
            target: self.target(&path, entry.ino(), kind),
            path,
        }
    }

    /// Returns the target of a symbolic link.
    fn target(&self, path: &[u8], ino: Ino, kind: Option<FileKind>) -> Option<Vec<u8>> {
        if kind != Some(FileKind::Symlink) {
            return None;
        }
        let target = self.fs.volume().read_link(ino);
        let report = |error: larder::Error| self.failures.report(&of_path(path, &error));
        target.map_err(report).ok()
    }
}

impl Iterator for Nodes<'_> {
    type Item = Node;

    fn next(&mut self) -> Option<Node> {
        loop {
            let Some(mut walk) = self.walk.take() else {
                let root = self.roots.next()?;
                return Some(self.begin(root));
            };
            let Some(step) = walk.step() else {
                continue;
            };
            let mut node = None;
            match step {
                Ok(Step::Entry(entry)) if self.is_shown(&entry) => {
                    let is_last = !walk.rest().any(|entry| self.is_shown(entry));
                    node = Some(self.node(&entry, is_last));
                }
                Ok(Step::Entry(_)) => walk.skip_directory(),
                Ok(Step::Entered) => self.depth += 1,
                Ok(Step::Left) => self.depth -= 1,
                Err(error) => self.failures.report(&of_cause(b"", &error)),
            }
            self.walk = Some(walk);
            if node.is_some() {
                return node;
            }
        }
    }
}

/// Prints the trees, and then the numbers of directories and files. The directories of the command line are not counted.
fn print_text(nodes: Nodes<'_>) -> Result<()> {
    let names = Names::for_stdout();
    let mut out = BufWriter::new(io::stdout().lock());
    let (mut directories, mut files) = (0, 0);
    // For each level of the present path, whether its entry is the last one of its directory.
    let mut are_last: Vec<bool> = Vec::new();
    for node in nodes {
        if let Some(above) = node.depth.checked_sub(1) {
            are_last.truncate(above);
            for &is_last in &are_last {
                out.write_all(TRUNKS[usize::from(is_last)].as_bytes())?;
            }
            out.write_all(BRANCHES[usize::from(node.is_last)].as_bytes())?;
            are_last.push(node.is_last);
        }
        names.write(&mut out, &node.path[node.path.len() - node.name_len..])?;
        if let Some(target) = node.target {
            out.write_all(b" -> ")?;
            names.write(&mut out, &target)?;
        }
        out.write_all(b"\n")?;
        match node.kind {
            Some(FileKind::Directory) if node.depth == 0 => {}
            Some(FileKind::Directory) => directories += 1,
            _ => files += 1,
        }
    }
    let directories = counted(directories, "directory", "directories");
    let files = counted(files, "file", "files");
    writeln!(out, "\n{directories}, {files}")?;
    Ok(out.flush()?)
}

/// Returns a number with the word for what it counts.
fn counted(count: u64, one: &str, several: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        count => format!("{count} {several}"),
    }
}

#[derive(Serialize)]
struct JsonNode {
    #[serde(flatten)]
    path: json::FilePath,
    depth: usize,
    #[serde(rename = "type")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

impl From<Node> for JsonNode {
    fn from(node: Node) -> Self {
        let text = |target: Vec<u8>| String::from_utf8_lossy(&target).into_owned();
        Self {
            path: json::FilePath::new(&node.path),
            depth: node.depth,
            kind: node.kind.map(mode::word),
            target: node.target.map(text),
        }
    }
}
