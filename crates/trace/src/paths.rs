//! The paths of files, which are built from the names that a volume reports.

use std::collections::HashMap;

/// The longest path that is recorded, in bytes. A longer path keeps its end.
const MAX_BYTES: usize = 4096;
/// The inode number of the root directory in ext2, ext3 and ext4.
const ROOT: u64 = 2;

/// The last known path of each file.
///
/// # Cost
/// About 100 bytes and the length of the path, for each file that was looked up.
#[derive(Debug, Default)]
pub(crate) struct Paths(HashMap<u64, Box<str>>);

impl Paths {
    /// Records that the file `ino` has `name` in `directory`. Returns its path if it differs from the last known path.
    /// The last known paths of the files in a directory that was renamed stay as they are until these files are looked
    /// up again.
    pub(crate) fn add(&mut self, directory: u64, name: &[u8], ino: u64) -> Option<Box<str>> {
        if name == b"." || name == b".." {
            return None;
        }
        let name = String::from_utf8_lossy(name);
        let path = match self.0.get(&directory) {
            Some(directory) => format!("{directory}/{name}"),
            None if directory == ROOT => format!("/{name}"),
            // The directory was opened by its number.
            None => format!("<{directory}>/{name}"),
        };
        let path = Box::from(last_bytes(&path));
        if self.0.get(&ino) == Some(&path) {
            return None;
        }
        self.0.insert(ino, path.clone());
        Some(path)
    }
}

/// Returns the end of `path`, at most [`MAX_BYTES`] long.
fn last_bytes(path: &str) -> &str {
    let from = path.len().saturating_sub(MAX_BYTES);
    (from..=path.len())
        .find_map(|start| path.get(start..))
        .unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_returned_when_it_is_new_or_has_changed() {
        let mut paths = Paths::default();
        let mut add = |directory, name: &[u8], ino| paths.add(directory, name, ino);
        assert_eq!(add(2, b"usr", 12).as_deref(), Some("/usr"));
        assert_eq!(add(12, b"ls", 13).as_deref(), Some("/usr/ls"));
        assert_eq!(add(12, b"ls", 13), None);
        assert_eq!(add(12, b"..", 2), None);
        assert_eq!(add(12, b"cat", 13).as_deref(), Some("/usr/cat"));
        assert_eq!(add(99, b"a\xff", 14).as_deref(), Some("<99>/a\u{fffd}"));
    }

    #[test]
    fn long_path_keeps_its_end_without_splitting_a_character() {
        let long = format!("{}/end", "ä".repeat(MAX_BYTES));
        let end = last_bytes(&long);
        assert!(end.len() <= MAX_BYTES && end.len() > MAX_BYTES - 4);
        assert!(end.ends_with("ä/end"));
        assert_eq!(last_bytes("/usr"), "/usr");
    }
}
