//! Expands patterns in paths inside an image. A shell cannot do this, because it does not see the files of the image.

use crate::failure::{cause, of_cause, of_path};
use crate::pattern::{Pattern, is_pattern};
use larder::{Errno, FileKind, Fs, Metadata};
use larder_console::Failure;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;

/// A file that is named on the command line.
#[derive(Debug)]
pub(super) struct NamedFile {
    pub path: Vec<u8>,
    pub metadata: Metadata,
}

/// Returns the files that `paths` name. Patterns are expanded. `report` is called for each path that does not exist or
/// cannot be read.
///
/// With `follows_links`, the file of a symbolic link is its target, unless the link leads nowhere. Otherwise, it is the link
/// itself, unless the path ends in a slash.
pub(super) fn named_files(
    fs: &Fs,
    paths: &[OsString],
    follows_links: bool,
    mut report: impl FnMut(&Failure),
) -> Vec<NamedFile> {
    let mut files = Vec::new();
    for path in paths {
        let expansion = expand(fs, path.as_bytes());
        expansion.failures.iter().for_each(&mut report);
        for path in expansion.paths {
            match metadata(fs, &path, follows_links) {
                Ok(metadata) => files.push(NamedFile { path, metadata }),
                Err(error) => report(&of_path(&path, &error)),
            }
        }
    }
    files
}

fn metadata(fs: &Fs, path: &[u8], follows_links: bool) -> larder::Result<Metadata> {
    let volume = fs.volume();
    let itself = || volume.resolve_no_follow(path);
    let ino = if path.ends_with(b"/") {
        volume.resolve(path)
    } else if follows_links {
        let target = volume.resolve(path);
        target.or_else(|error| itself().map_err(|_| error))
    } else {
        itself()
    };
    volume.metadata(ino?)
}

/// The expansion of one path.
#[derive(Debug, Default)]
struct Expansion {
    /// The paths, in the order of their names.
    paths: Vec<Vec<u8>>,
    /// Why directories could not be searched.
    failures: Vec<Failure>,
}

/// Returns the paths that `path` matches, as in glob(7). A path without a pattern is returned unchanged.
///
/// If a directory has a file with the literal name of a component, the component is not treated as a pattern in this
/// directory. If nothing matches, there is at least one failure.
fn expand(fs: &Fs, path: &[u8]) -> Expansion {
    let mut expansion = Expansion::default();
    if !is_pattern(path) {
        expansion.paths.push(path.to_vec());
        return expansion;
    }
    let root: &[u8] = if path.starts_with(b"/") { b"/" } else { b"" };
    let mut paths = vec![root.to_vec()];
    for component in path.split(|&byte| byte == b'/') {
        if component.is_empty() {
            continue;
        }
        if is_pattern(component) {
            paths = expansion.matches(fs, &paths, component);
        } else {
            paths.iter_mut().for_each(|path| push(path, component));
        }
    }
    for found in paths {
        expansion.add_existing(fs, found, path.ends_with(b"/"));
    }
    if expansion.paths.is_empty() && expansion.failures.is_empty() {
        let missing = larder::Error::NotFound(String::new());
        expansion.failures.push(of_path(path, &missing));
    }
    expansion
}

impl Expansion {
    /// Returns the paths of the entries of `directories` that `component` matches.
    fn matches(&mut self, fs: &Fs, directories: &[Vec<u8>], component: &[u8]) -> Vec<Vec<u8>> {
        let pattern = Pattern::new(component);
        let mut paths = Vec::new();
        for directory in directories {
            let mut names = self.names(fs, directory, |name| {
                name == component || pattern.matches_file(name)
            });
            if names.iter().any(|name| name == component) {
                names = vec![component.to_vec()];
            }
            names.sort_unstable();
            paths.extend(names.iter().map(|name| {
                let mut path = directory.clone();
                push(&mut path, name);
                path
            }));
        }
        paths
    }

    /// Returns the names in `directory` for which `is_wanted` returns true. There are none if `directory` does not exist or
    /// is not a directory.
    fn names(
        &mut self,
        fs: &Fs,
        directory: &[u8],
        is_wanted: impl Fn(&[u8]) -> bool,
    ) -> Vec<Vec<u8>> {
        // A path without a slash at the beginning also begins at the root.
        let listed: &[u8] = if directory.is_empty() { b"/" } else { directory };
        let mut names = Vec::new();
        match fs.read_dir(OsStr::from_bytes(listed)) {
            Ok(entries) => {
                for entry in entries {
                    match entry {
                        Ok(entry) => {
                            let name = entry.file_name().as_bytes();
                            if is_wanted(name) {
                                names.push(name.to_vec());
                            }
                        }
                        Err(error) => self.failures.push(of_cause(listed, &error)),
                    }
                }
            }
            Err(error) if is_missing(&error) => {}
            Err(error) => self.failures.push(of_cause(listed, &error)),
        }
        names
    }

    /// Adds `path` if it exists and, if `must_be_directory`, leads to a directory.
    fn add_existing(&mut self, fs: &Fs, mut path: Vec<u8>, must_be_directory: bool) {
        let volume = fs.volume();
        let found = if must_be_directory {
            let metadata = volume.resolve(&path).and_then(|ino| volume.metadata(ino));
            metadata.map(|metadata| metadata.kind == FileKind::Directory)
        } else {
            volume.resolve_no_follow(&path).map(|_| true)
        };
        match found {
            Ok(true) => {
                if must_be_directory {
                    push(&mut path, b"");
                }
                self.paths.push(path);
            }
            Ok(false) => {}
            Err(error) if is_missing_errno(error.errno()) => {}
            Err(error) => self.failures.push(of_path(&path, &error)),
        }
    }
}

/// Adds a component to a path.
fn push(path: &mut Vec<u8>, component: &[u8]) {
    if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(component);
}

/// Returns whether `error` means that there is no directory with the path.
fn is_missing(error: &io::Error) -> bool {
    cause(error).is_some_and(|error| is_missing_errno(error.errno()))
}

fn is_missing_errno(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG)
}
