//! Which programs measured and judged a reproduction, when, and on which machines.

use jiff::Timestamp;
use rustix::system::uname;
use serde::{Deserialize, Serialize};
use std::{env, fmt, fs, io, thread};

/// The commit from which this program was built. `make reproduce` sets the variable for the compiler.
const COMMIT: Option<&str> = option_env!("LARDER_COMMIT");

/// A program that measures or judges, and the machine on which it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The version of Larder.
    pub version: String,
    /// The commit from which the program was built, with the suffix `-dirty` if tracked files were changed; `None` if
    /// it is unknown.
    pub commit: Option<String>,
    /// CRC-32C of the executable file.
    pub checksum: u32,
    /// When the program began to measure or to judge, in UTC.
    pub date: String,
    /// `uname -r`.
    pub kernel: String,
    /// The processor's name.
    pub processor: String,
    /// Number of processors.
    pub processors: usize,
}

/// The programs that a report is the work of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The program that measured.
    pub measured: Program,
    /// The program that computed the verdicts and wrote the report.
    pub judged: Program,
}

impl Program {
    /// Returns this program, with the current date.
    ///
    /// # Errors
    /// Returns an error if the executable file cannot be read.
    pub fn current() -> io::Result<Self> {
        let executable = fs::read(env::current_exe()?)?;
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: COMMIT
                .filter(|commit| !commit.is_empty())
                .map(str::to_owned),
            checksum: crc32c::crc32c(&executable),
            date: Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            kernel: uname().release().to_string_lossy().into_owned(),
            processor: processor_or_architecture(),
            processors: thread::available_parallelism().map_or(1, usize::from),
        })
    }

    /// Returns whether `other` is the same program on the same machine with the same kernel, at any date.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.checksum == other.checksum
            && self.kernel == other.kernel
            && self.processor == other.processor
            && self.processors == other.processors
    }

    /// Returns whether all texts can be printed in Markdown and HTML as they are. The texts of this machine can; those
    /// of a file may contain anything.
    pub(super) fn is_printable(&self) -> bool {
        let commit = self.commit.as_deref().unwrap_or_default();
        let texts = [&self.version, &self.date, &self.kernel, &self.processor];
        let mut texts = texts.into_iter().map(String::as_str).chain([commit]);
        texts.all(is_plain)
    }
}

#[cfg(test)]
impl Provenance {
    /// Returns an example for tests of reports.
    pub(crate) fn example() -> Self {
        let program = |commit: &str, date: &str| Program {
            version: "0.1.0".to_owned(),
            commit: Some(commit.to_owned()),
            checksum: 0x1a2b,
            date: date.to_owned(),
            kernel: "6.18.0".to_owned(),
            processor: "Example CPU @ 2 GHz".to_owned(),
            processors: 2,
        };
        Self {
            measured: program("981b4829ed61", "2026-12-01T08:17:00Z"),
            judged: program("0e20bced2f98", "2026-12-02T10:00:00Z"),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.processors == 1 { "" } else { "s" };
        write!(
            f,
            "{}, by larder-lab {}, commit {} (executable {:08x}), on {} processor{plural} ({}), Linux {}",
            self.date,
            self.version,
            self.commit.as_deref().unwrap_or("unknown"),
            self.checksum,
            self.processors,
            self.processor,
            self.kernel,
        )
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { measured, judged } = self;
        write!(f, "Measured from {measured}. Judged at {judged}.")
    }
}

/// The maximum length of a plain text, in characters.
const MAX_CHARS: usize = 500;

/// Returns whether `text` can be printed in Markdown and HTML as it is.
pub(super) fn is_plain(text: &str) -> bool {
    text.chars().count() <= MAX_CHARS && text.chars().all(is_allowed)
}

/// Returns the start of `text`, with spaces instead of control characters and markup, so that it is plain.
pub(super) fn plain(text: &str) -> String {
    let chars = text.chars().take(MAX_CHARS);
    chars.map(|c| if is_allowed(c) { c } else { ' ' }).collect()
}

fn is_allowed(c: char) -> bool {
    !c.is_control() && !"<>&|`[]\\".contains(c)
}

/// Returns the processor's name, or its architecture if the system does not report a name.
pub(super) fn processor_or_architecture() -> String {
    processor_name().unwrap_or_else(|| env::consts::ARCH.to_owned())
}

/// Returns the processor's name, if the system reports it.
#[must_use]
pub fn processor_name() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_the_same_at_another_date_but_not_on_another_machine_or_kernel() {
        let program = Program::current().unwrap();
        assert!(program.is_printable(), "{program:?}");
        let mut later = program.clone();
        later.date = "2027-01-01T00:00:00Z".to_owned();
        assert!(program.is_same(&later));
        let mut rebooted = later.clone();
        rebooted.kernel.push_str("-2");
        assert!(!program.is_same(&rebooted));
        later.processor.push_str(" II");
        assert!(!program.is_same(&later));
    }

    #[test]
    fn provenance_names_both_programs_and_the_machine() {
        let text = Provenance::example().to_string();
        for part in [
            "Measured from 2026-12-01T08:17:00Z, by larder-lab 0.1.0, commit 981b4829ed61 (executable 00001a2b)",
            "on 2 processors (Example CPU @ 2 GHz), Linux 6.18.0",
            "Judged at 2026-12-02T10:00:00Z",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn text_with_markup_is_not_printable() {
        let long = "a".repeat(1000);
        for text in ["<script>", "[a](b)", "a\nb", long.as_str()] {
            let mut program = Provenance::example().measured;
            text.clone_into(&mut program.processor);
            assert!(!program.is_printable(), "{text}");
            assert!(is_plain(&plain(text)), "{text}");
        }
        assert_eq!(plain("mount: `a`\n<b>"), "mount:  a   b ");
    }
}
