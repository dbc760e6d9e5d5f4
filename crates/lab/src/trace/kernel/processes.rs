//! The threads of processes and of their descendants.

use super::error::Error;
use crate::trace::procfs::numbers_in;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;

/// Returns the threads of this process.
pub(super) fn own_threads() -> Vec<u32> {
    threads(std::process::id())
}

/// Returns the threads of `roots` and of their live descendants.
///
/// # Errors
/// Returns [`Error::NoProcess`] if one of `roots` does not exist.
pub(super) fn of_trees(roots: &[u32]) -> Result<BTreeSet<u32>, Error> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for pid in numbers_in(Path::new("/proc")).unwrap_or_default() {
        if let Some(parent) = parent(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut all = BTreeSet::new();
    let mut open = roots.to_vec();
    while let Some(pid) = open.pop() {
        let threads = threads(pid);
        if threads.is_empty() && roots.contains(&pid) {
            return Err(Error::NoProcess(pid));
        }
        all.extend(threads);
        open.extend(children.remove(&pid).unwrap_or_default());
    }
    Ok(all)
}

fn threads(pid: u32) -> Vec<u32> {
    numbers_in(&Path::new("/proc").join(pid.to_string()).join("task")).unwrap_or_default()
}

/// Returns the parent of `pid`: the second field after the name, which is in parentheses and may
/// contain parentheses.
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_tree_contains_all_threads() {
        let threads = of_trees(&[std::process::id()]).unwrap();
        assert!(threads.contains(&std::process::id()));
        assert!(threads.contains(&rustix::thread::gettid().as_raw_pid().cast_unsigned()));
    }

    #[test]
    fn missing_process_is_an_error() {
        assert!(matches!(
            of_trees(&[u32::MAX]),
            Err(Error::NoProcess(u32::MAX))
        ));
    }
}
