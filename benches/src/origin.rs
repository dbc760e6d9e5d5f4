//! The time, the commit and the machine of a run, and the files of its results.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use larder_lab::reproduce::program::processor_name;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The start time of a run, and the commit and the machine at that time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Origin {
    /// The date and time in UTC.
    pub date: String,
    /// The commit that was checked out, if any, with the suffix `-dirty` if tracked files were changed.
    pub commit: Option<String>,
    /// `uname -r`.
    pub kernel: String,
    /// The processor's name.
    pub processor: String,
    /// The number of processors.
    pub processors: usize,
}

impl Origin {
    /// Returns the current time and state of this machine.
    #[must_use]
    pub fn now() -> Self {
        let date = jiff::Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string();
        let uname = rustix::system::uname();
        Self {
            date,
            commit: commit(),
            kernel: uname.release().to_string_lossy().into_owned(),
            processor: processor_name().unwrap_or_else(|| "unknown".to_owned()),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
        }
    }

    /// Returns the commit, as it is printed.
    #[must_use]
    pub fn commit(&self) -> &str {
        self.commit.as_deref().unwrap_or("unknown")
    }

    /// Writes `results` to a file in `folder` that is named by the date, the commit and `part`. Returns
    /// its path. Each sample has its own line: an object is a sample if its first field is `field`.
    pub fn save_samples(
        &self,
        results: &impl Serialize,
        folder: &Path,
        part: &str,
        field: &str,
    ) -> Result<PathBuf> {
        let start = format!("{{\"{field}\"");
        let json = serde_json::to_string(results)?.replace(&start, &format!("\n{start}"));
        self.save(json, folder, &format!("-{part}"))
    }

    /// Writes `json` to a file in `folder` that is named by the date, the commit and `part`. Returns its
    /// path.
    pub(crate) fn save(&self, mut json: String, folder: &Path, part: &str) -> Result<PathBuf> {
        fs::create_dir_all(folder)?;
        let date = self.date.replace(':', "");
        let path = folder.join(format!("{date}-{}{part}.json", self.commit()));
        json.push('\n');
        fs::write(&path, json).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }
}

/// Reads the newest results of one kind in `folder` for which `is_wanted` returns true, and returns them with the path
/// of their file. `part` is the end of the file's name before `.json`: empty for `make bench`, or for example `-xattr`.
pub fn newest<R: DeserializeOwned>(
    folder: &Path,
    part: &str,
    is_wanted: impl Fn(&R) -> bool,
) -> Result<(PathBuf, R)> {
    let kinds = [
        "-create",
        "-newcomer",
        "-python",
        "-readahead",
        "-remote",
        "-tables",
        "-xattr",
    ];
    let is_of_kind = |name: &str| match part {
        "" => !kinds.iter().any(|kind| name.ends_with(kind)),
        part => name.ends_with(part),
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if path.extension().is_some_and(|ext| ext == "json") && is_of_kind(&name) {
            paths.push(path);
        }
    }
    // Names begin with the date.
    paths.sort();
    for path in paths.into_iter().rev() {
        let json = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        let results =
            serde_json::from_slice(&json).with_context(|| format!("parse {}", path.display()))?;
        if is_wanted(&results) {
            return Ok((path, results));
        }
    }
    let folder = folder.display();
    bail!("no file '*{part}.json' in {folder} has these measures; run the bench first")
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let day = self.date.split('T').next().unwrap_or_default();
        let plural = if self.processors == 1 { "" } else { "s" };
        write!(
            f,
            "{} processor{plural} ({}), Linux {}, {day}, commit {}",
            self.processors,
            self.processor,
            self.kernel,
            self.commit()
        )
    }
}

fn commit() -> Option<String> {
    let git = |args: &[&str]| first_line(Command::new("git").args(args));
    let hash = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some();
    Some(if changed {
        format!("{hash}-dirty")
    } else {
        hash
    })
}

/// Returns the first line of a program's output, if the program succeeds and the line is not empty. If
/// standard output is empty, the output is standard error.
pub(crate) fn first_line(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let text = if output.stdout.is_empty() {
        output.stderr
    } else {
        output.stdout
    };
    let text = String::from_utf8_lossy(&text).into_owned();
    text.lines()
        .next()
        .filter(|line| !line.is_empty() && output.status.success())
        .map(str::to_owned)
}
