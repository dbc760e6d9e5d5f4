//! Paths of files.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Returns the paths of all files below `folder`.
pub(super) fn below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(below(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

/// Returns `path` without `.` and `..`. A `..` that has no folder before it stays.
pub(super) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if normal.file_name().is_some() => {
                normal.pop();
            }
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_keeps_only_the_steps_out_of_its_first_folder() {
        let cases = [
            ("docs/./guide/../design/a.md", "docs/design/a.md"),
            ("docs/../../a", "../a"),
            ("../../a", "../../a"),
        ];
        for (path, expected) in cases {
            assert_eq!(normal(Path::new(path)), Path::new(expected), "{path}");
        }
    }
}
