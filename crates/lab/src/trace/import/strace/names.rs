//! The tree of directories and names that calls used. Each gets a number that represents its inode.

use larder_cache::dentry::name_hash;
use std::collections::HashMap;

/// The root directory, as on ext4.
pub(super) const ROOT: u64 = 2;
/// The first inode number that is assigned. On ext4, smaller numbers are reserved for the file system.
const FIRST_INODE: u64 = 12;

/// Directories in the root whose files have no pages, because they are not on a device.
const VIRTUAL: [&[u8]; 3] = [b"proc", b"sys", b"dev"];

/// The tree.
#[derive(Debug)]
pub(super) struct Names {
    directories: HashMap<u64, Directory>,
    next_inode: u64,
}

/// A directory, or another intermediate component of a path.
#[derive(Debug)]
struct Directory {
    parent: u64,
    is_virtual: bool,
    names: HashMap<Box<[u8]>, u64>,
}

/// A lookup during a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A name.
    Dentry {
        /// The directory.
        parent: u64,
        /// The name's hash.
        name_hash: u64,
    },
    /// An inode that did not occur before.
    Inode(u64),
}

/// The end of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place<'p> {
    /// The directory of the last name.
    pub parent: u64,
    /// The last name; empty if the path ends in a directory that was entered: `/`, `..`.
    pub name: &'p [u8],
    /// The target; `None` if it does not exist.
    pub inode: Option<u64>,
}

impl Names {
    pub(super) fn new() -> Self {
        Self {
            directories: HashMap::from([(ROOT, Directory::in_root())]),
            next_inode: FIRST_INODE,
        }
    }

    /// Walks `path` from `start`. Unknown intermediate components are added to the tree. If `exists`, an
    /// unknown last component is added too.
    pub(super) fn walk<'p>(
        &mut self,
        start: u64,
        path: &'p [u8],
        exists: bool,
        step: &mut dyn FnMut(Step),
    ) -> Place<'p> {
        let mut inode = if path.starts_with(b"/") { ROOT } else { start };
        let mut place = Place {
            parent: self.parent(inode),
            name: b"",
            inode: Some(inode),
        };
        let parts = path.split(|&byte| byte == b'/');
        let mut parts = parts.filter(|part| !matches!(*part, b"" | b".")).peekable();
        while let Some(name) = parts.next() {
            if name == b".." {
                inode = self.parent(inode);
                place = Place {
                    parent: self.parent(inode),
                    name: b"",
                    inode: Some(inode),
                };
                continue;
            }
            step(Step::Dentry {
                parent: inode,
                name_hash: name_hash(name).into(),
            });
            let known = self.get(inode, name);
            let may_be_missing = parts.peek().is_none() && !exists;
            place = Place {
                parent: inode,
                name,
                inode: known.filter(|_| !may_be_missing),
            };
            if may_be_missing {
                break;
            }
            inode = known.unwrap_or_else(|| {
                let new = self.create(inode, name);
                step(Step::Inode(new));
                new
            });
            place.inode = Some(inode);
        }
        place
    }

    /// Makes `name` in `parent` refer to `inode`.
    pub(super) fn set(&mut self, parent: u64, name: &[u8], inode: u64) {
        self.directory(parent).names.insert(name.into(), inode);
        if let Some(moved) = self.directories.get_mut(&inode) {
            moved.parent = parent;
        }
    }

    /// Removes `name` from `parent`.
    pub(super) fn remove(&mut self, parent: u64, name: &[u8]) {
        self.directory(parent).names.remove(name);
    }

    /// Assigns a new number to `name` in `parent`.
    pub(super) fn create(&mut self, parent: u64, name: &[u8]) -> u64 {
        let inode = self.next_inode;
        self.next_inode += 1;
        let is_virtual = self.directory(parent).is_virtual;
        let child = Directory {
            parent,
            is_virtual: is_virtual || parent == ROOT && VIRTUAL.contains(&name),
            names: HashMap::new(),
        };
        self.directories.insert(inode, child);
        self.set(parent, name, inode);
        inode
    }

    /// Returns whether `inode` has pages.
    pub(super) fn has_pages(&self, inode: u64) -> bool {
        let directory = self.directories.get(&inode);
        directory.is_some_and(|directory| !directory.is_virtual)
    }

    fn get(&self, parent: u64, name: &[u8]) -> Option<u64> {
        self.directories.get(&parent)?.names.get(name).copied()
    }

    fn parent(&self, inode: u64) -> u64 {
        let directory = self.directories.get(&inode);
        directory.map_or(ROOT, |directory| directory.parent)
    }

    fn directory(&mut self, inode: u64) -> &mut Directory {
        let directories = &mut self.directories;
        directories.entry(inode).or_insert_with(Directory::in_root)
    }
}

impl Directory {
    fn in_root() -> Self {
        Self {
            parent: ROOT,
            is_virtual: false,
            names: HashMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(names: &mut Names, path: &'static str, exists: bool) -> (Option<u64>, usize) {
        let mut steps = 0;
        let place = names.walk(ROOT, path.as_bytes(), exists, &mut |_| steps += 1);
        (place.inode, steps)
    }

    #[test]
    fn known_path_gives_the_same_inode_and_looks_up_only_names() {
        let mut names = Names::new();
        assert_eq!(walk(&mut names, "/a/b", true), (Some(13), 4));
        assert_eq!(walk(&mut names, "/a//./b", true), (Some(13), 2));
        assert_eq!(walk(&mut names, "/a/b/../b", true), (Some(13), 3));
        assert_eq!(walk(&mut names, "/../a", true), (Some(12), 1));
        assert_eq!(walk(&mut names, "/", true), (Some(ROOT), 0));
    }

    #[test]
    fn missing_name_is_looked_up_without_an_inode() {
        let mut names = Names::new();
        assert_eq!(walk(&mut names, "/a/b", false), (None, 3));
        assert_eq!(walk(&mut names, "/a/c", true), (Some(13), 3));
    }

    #[test]
    fn renamed_directory_keeps_its_names() {
        let mut names = Names::new();
        let (inode, _) = walk(&mut names, "/a/b", true);
        let (directory, _) = walk(&mut names, "/a", true);
        names.remove(ROOT, b"a");
        names.set(ROOT, b"c", directory.unwrap());
        assert_eq!(walk(&mut names, "/c/b", true), (inode, 2));
        assert_ne!(walk(&mut names, "/a/b", true).0, inode);
    }

    #[test]
    fn files_of_virtual_file_systems_have_no_pages() {
        let mut names = Names::new();
        for (path, expected) in [
            ("/proc/self/maps", false),
            ("/dev/null", false),
            ("/a/proc/b", true),
        ] {
            let (inode, _) = walk(&mut names, path, true);
            assert_eq!(names.has_pages(inode.unwrap()), expected, "{path}");
        }
    }
}
