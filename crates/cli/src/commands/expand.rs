//! Expands patterns in paths inside an image. A shell cannot do this, because it does not see the files of the image.
//!
//! Model: glob(3). An image can be hostile: a directory is not searched below itself, unless a symbolic link leads to it,
//! and the number of paths is limited.
//!
//! Cost: for each pattern in a path, the matching names of one directory.

use super::reading::Failures;
use crate::failure::{cause, of_cause, of_path};
use crate::pattern::{Pattern, is_pattern};
use larder::{Errno, Ext4Error, Fs, Ino, Metadata, Place};
use larder_console::{Failure, name};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::slice;

/// The maximum number of paths that the expansion of one path examines.
const MAX_EXAMINED: usize = 1_000_000;

/// A file that is named on the command line.
#[derive(Debug)]
pub(super) struct NamedFile {
    pub path: Vec<u8>,
    pub metadata: Metadata,
}

/// An iterator over the files that paths of the command line name. Patterns are expanded. Paths that do not exist or cannot
/// be read are reported.
#[derive(Debug)]
pub(super) struct NamedFiles<'a> {
    fs: &'a Fs,
    follows_links: bool,
    failures: &'a Failures,
    /// The paths that are not expanded yet.
    paths: slice::Iter<'a, OsString>,
    /// The expansion of the present path.
    expansion: Option<Expansion<'a>>,
}

impl<'a> NamedFiles<'a> {
    /// Returns an iterator over the files that `paths` name.
    ///
    /// With `follows_links`, the file of a symbolic link is its target or, if the target does not exist, the link
    /// itself. Without `follows_links`, it is the link itself. If the path ends in a slash, it is always the target.
    pub(super) fn new(
        fs: &'a Fs,
        paths: &'a [OsString],
        follows_links: bool,
        failures: &'a Failures,
    ) -> Self {
        Self {
            fs,
            follows_links,
            failures,
            paths: paths.iter(),
            expansion: None,
        }
    }
}

impl Iterator for NamedFiles<'_> {
    type Item = NamedFile;

    fn next(&mut self) -> Option<NamedFile> {
        loop {
            let Some(path) = self.expansion.as_mut().and_then(Iterator::next) else {
                let path = self.paths.next()?.as_bytes();
                self.expansion = Some(Expansion::new(self.fs, path, self.failures));
                continue;
            };
            match metadata(self.fs, &path, self.follows_links) {
                Ok(metadata) => return Some(NamedFile { path, metadata }),
                Err(error) => self.failures.report_path(&of_path(&path, &error)),
            }
        }
    }
}

/// Returns whether `paths` name at most one file.
pub(super) fn is_one_file(paths: &[OsString]) -> bool {
    matches!(paths, [path] if !is_pattern(path.as_bytes()))
}

fn metadata(fs: &Fs, path: &[u8], follows_links: bool) -> larder::Result<Metadata> {
    let volume = fs.volume();
    let must_be_directory = path.ends_with(b"/");
    let ino = if must_be_directory || follows_links {
        match volume.resolve(path) {
            Err(error) if !must_be_directory && error.errno() == Errno::NOENT => {
                volume.resolve_no_follow(path).map_err(|_| error)?
            }
            found => found?,
        }
    } else {
        volume.resolve_no_follow(path)?
    };
    let metadata = volume.metadata(ino)?;
    if must_be_directory && !metadata.is_dir() {
        return Err(Ext4Error::NotDirectory(ino).into());
    }
    Ok(metadata)
}

/// The expansion of one path, as in glob(7). A path without a pattern is returned unchanged.
///
/// If a directory has a file with the literal name of a component, the component is not treated as a pattern in this
/// directory. The paths are in the order of their names. If nothing matches, this is reported.
#[derive(Debug)]
struct Expansion<'a> {
    fs: &'a Fs,
    path: &'a [u8],
    failures: &'a Failures,
    /// The components of the path, or none if it has no pattern.
    components: Vec<&'a [u8]>,
    /// The paths that are not examined yet. The last one is examined next.
    pending: Vec<Partial>,
    examined: usize,
    max_examined: usize,
    /// Whether no path was found, and no failure was reported.
    has_no_result: bool,
}

/// A path that matches the first components.
#[derive(Debug)]
struct Partial {
    path: Vec<u8>,
    /// The number of components that match.
    matched: usize,
    /// The directories above, back to the last symbolic link or component without a pattern.
    above: Rc<[Ino]>,
}

impl<'a> Expansion<'a> {
    fn new(fs: &'a Fs, path: &'a [u8], failures: &'a Failures) -> Self {
        let mut components = Vec::new();
        let mut start = path;
        if is_pattern(path) {
            let all = path.split(|&byte| byte == b'/');
            components.extend(all.filter(|component| !component.is_empty()));
            start = if path.starts_with(b"/") { b"/" } else { b"" };
        }
        Self {
            fs,
            path,
            failures,
            has_no_result: !components.is_empty(),
            components,
            pending: vec![Partial {
                path: start.to_vec(),
                matched: 0,
                above: Rc::default(),
            }],
            examined: 0,
            max_examined: MAX_EXAMINED,
        }
    }

    /// Adds the next components to a path. Returns the path if it is complete and exists.
    fn examine(&mut self, partial: Partial) -> Option<Vec<u8>> {
        let Partial {
            mut path,
            mut matched,
            mut above,
        } = partial;
        while let Some(component) = self.components.get(matched)
            && !is_pattern(component)
        {
            push(&mut path, component);
            matched += 1;
            above = Rc::default();
        }
        let Some(&component) = self.components.get(matched) else {
            return self.existing(path);
        };
        // A path without a slash at the beginning also begins at the root.
        let directory: &[u8] = if path.is_empty() { b"/" } else { &path };
        let above = self.enter(directory, &above)?;
        let mut names = self.names(directory, component);
        names.sort_unstable_by(|a, b| b.cmp(a));
        self.examined = self.examined.saturating_add(names.len());
        if self.examined > self.max_examined {
            let (path, max) = (name::escaped(self.path), self.max_examined);
            self.report(&Failure::with_hint(
                format!("{path}: more than {max} paths match a part of the pattern"),
                "use larder find, or a pattern that matches fewer paths",
            ));
            self.pending.clear();
            return None;
        }
        for name in names {
            let mut path = path.clone();
            push(&mut path, &name);
            self.pending.push(Partial {
                path,
                matched: matched + 1,
                above: Rc::clone(&above),
            });
        }
        None
    }

    /// Returns the directories above the entries of `directory`: those in `above`, and `directory` itself. Returns
    /// `None` if `directory` must not be searched.
    fn enter(&mut self, directory: &[u8], above: &[Ino]) -> Option<Rc<[Ino]>> {
        let volume = self.fs.volume();
        let inodes = volume
            .resolve_no_follow(directory)
            .and_then(|itself| Ok((itself, volume.resolve(directory)?)));
        match inodes {
            Ok((itself, ino)) => {
                // A symbolic link may lead to a directory above it.
                let above = if itself == ino { above } else { &[] };
                if !above.contains(&ino) {
                    return Some(above.iter().copied().chain([ino]).collect());
                }
                let damage = Place::Inode(ino).corrupt("directory loop").into();
                self.report(&of_path(directory, &damage));
            }
            Err(error) if is_missing(error.errno()) => {}
            Err(error) => self.report(&of_path(directory, &error)),
        }
        None
    }

    /// Returns the names in `directory` that `component` matches. There are none if `directory` is not a directory.
    fn names(&mut self, directory: &[u8], component: &[u8]) -> Vec<Vec<u8>> {
        let pattern = Pattern::new(component);
        let mut names = Vec::new();
        let entries = match self.fs.read_dir(OsStr::from_bytes(directory)) {
            Ok(entries) => entries,
            Err(error) => {
                if cause(&error).is_none_or(|error| !is_missing(error.errno())) {
                    self.report(&of_cause(directory, &error));
                }
                return names;
            }
        };
        for entry in entries {
            match entry {
                Ok(entry) => {
                    let name = entry.file_name().as_bytes();
                    if name == component {
                        return vec![name.to_vec()];
                    }
                    if pattern.matches_file(name) {
                        names.push(name.to_vec());
                    }
                }
                Err(error) => self.report(&of_cause(directory, &error)),
            }
        }
        names
    }

    /// Returns a complete path if it exists and, if the pattern ends in a slash, leads to a directory.
    fn existing(&mut self, mut path: Vec<u8>) -> Option<Vec<u8>> {
        if self.path.ends_with(b"/") {
            push(&mut path, b"");
        }
        match metadata(self.fs, &path, false) {
            Ok(_) => return Some(path),
            Err(error) if is_missing(error.errno()) => {}
            Err(error) => self.report(&of_path(&path, &error)),
        }
        None
    }

    fn report(&mut self, failure: &Failure) {
        self.failures.report_path(failure);
        self.has_no_result = false;
    }
}

impl Iterator for Expansion<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        while let Some(partial) = self.pending.pop() {
            if self.components.is_empty() {
                return Some(partial.path);
            }
            if let Some(path) = self.examine(partial) {
                self.has_no_result = false;
                return Some(path);
            }
        }
        if self.has_no_result {
            let missing = larder::Error::NotFound(String::new());
            self.report(&of_path(self.path, &missing));
        }
        None
    }
}

/// Adds a component to a path.
pub(super) fn push(path: &mut Vec<u8>, component: &[u8]) {
    if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(component);
}

/// Returns whether the error means that no file has the path.
fn is_missing(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::NAMETOOLONG
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_testkit::{Requirement, e2fsprogs, skip};
    use std::process::ExitCode;

    #[test]
    fn expansion_in_a_hostile_image_has_bounded_size() {
        if skip(&[Requirement::Tool("mke2fs")]) {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        e2fsprogs::make_image(&image, "-t ext4", "16M").unwrap();
        let fs = larder::OpenOptions::new()
            .read_write(true)
            .open(&image)
            .unwrap();
        fs.create_dir("/d").unwrap();
        for number in 0..10 {
            fs.symlink(".", format!("/d/{number}")).unwrap();
        }
        let failures = Failures::new(2);
        let mut expansion = Expansion::new(&fs, b"/d/*/*/*/*", &failures);
        expansion.max_examined = 100;
        let mut count = 0;
        while expansion.next().is_some() {
            count += 1;
            // The pending paths are the names of one directory for each pattern.
            assert!(expansion.pending.len() <= 40);
        }
        assert!((1..100).contains(&count), "{count}");
        assert_eq!(failures.exit_code(), ExitCode::from(2));
    }
}
