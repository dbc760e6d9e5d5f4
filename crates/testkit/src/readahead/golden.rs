//! Patterns and the kernel's readahead for them, as text.
//!
//! ```text
//! kernel 6.18.0
//! folios single
//!
//! pattern example
//! file 83000 max 128 io 1280
//! 0 read 0 4096 -> 0+4/3
//! 0 read 4096 4096 -> 4+8/8
//! 0 fault 17 -> 1+20/8 new 12*9
//! 0 advise dontneed 0 0 -> dropped 21
//! 1 mapping random
//! ```
//!
//! A line contains the stream, the action, and the offset and length in bytes (or the page). The outcome
//! follows the arrow. It starts with the windows as `start+size/async`, with `^order` if they are read in
//! large folios. The inserted pages follow after `new`, as `start*count`, or as `start^order*count` for large
//! folios. The number of dropped pages follows after `dropped`. `new` is omitted if exactly the pages of the
//! windows were inserted, one by one. File sizes are in bytes, `max` and `io` in KiB. Lines that begin with
//! `#` are comments.

use super::outcome::{FolioRun, KernelWindow, Outcome};
use super::pattern::{Action, Content, Operation, Pattern};
use larder_readahead::Advice;
use std::fmt::{self, Write as _};

/// The maximum size of folios in the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folios {
    /// One page each: ext4 mounted with `data=journal`.
    Single,
    /// Any size that the kernel chooses: ext4 mounted with its defaults.
    Large,
}

impl Folios {
    /// Returns the name that golden files use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Large => "large",
        }
    }

    pub(super) const fn mount_options(self) -> &'static [&'static str] {
        match self {
            Self::Single => &["data=journal"],
            Self::Large => &[],
        }
    }
}

/// Patterns with a kernel's outcomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Golden {
    /// The kernel's release, as printed by `uname -r`.
    pub kernel: String,
    /// The folios of its page cache.
    pub folios: Folios,
    /// Each pattern, with one outcome for each operation.
    pub recordings: Vec<(Pattern, Vec<Outcome>)>,
}

/// An invalid line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is invalid: {text:?}")]
pub struct GoldenError {
    line: usize,
    text: String,
}

impl fmt::Display for Golden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# What Linux read ahead; `make record-readahead` writes this."
        )?;
        writeln!(f, "kernel {}", self.kernel)?;
        writeln!(f, "folios {}", self.folios.as_str())?;
        for (pattern, outcomes) in &self.recordings {
            writeln!(f, "\npattern {}", pattern.name)?;
            let Pattern {
                file_bytes,
                max_kib,
                io_kib,
                ..
            } = pattern;
            write!(f, "file {file_bytes} max {max_kib} io {io_kib}")?;
            if pattern.content == Content::Blocks {
                f.write_str(" blocks")?;
            }
            f.write_char('\n')?;
            for (operation, outcome) in pattern.operations.iter().zip(outcomes) {
                writeln!(f, "{}{}", Written(operation), Written(outcome))?;
            }
        }
        Ok(())
    }
}

impl std::str::FromStr for Golden {
    type Err = GoldenError;

    fn from_str(text: &str) -> Result<Self, GoldenError> {
        let mut golden = Self {
            kernel: String::new(),
            folios: Folios::Single,
            recordings: Vec::new(),
        };
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                parse_line(&mut golden, line).ok_or_else(|| GoldenError {
                    line: index + 1,
                    text: line.to_owned(),
                })?;
            }
        }
        Ok(golden)
    }
}

fn parse_line(golden: &mut Golden, line: &str) -> Option<()> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["kernel", release] => release.clone_into(&mut golden.kernel),
        ["folios", "single"] => golden.folios = Folios::Single,
        ["folios", "large"] => golden.folios = Folios::Large,
        ["pattern", name] => {
            let pattern = Pattern::new(name, 0);
            golden.recordings.push((pattern, Vec::new()));
        }
        ["file", bytes, "max", max_kib, "io", io_kib, ref rest @ ..] => {
            let pattern = &mut golden.recordings.last_mut()?.0;
            pattern.file_bytes = bytes.parse().ok()?;
            pattern.max_kib = max_kib.parse().ok()?;
            pattern.io_kib = io_kib.parse().ok()?;
            pattern.content = match rest {
                [] => Content::Hole,
                ["blocks"] => Content::Blocks,
                _ => return None,
            };
        }
        [stream, ref rest @ ..] => {
            let arrow = rest.iter().position(|word| *word == "->");
            let (action, outcome) = rest.split_at(arrow.unwrap_or(rest.len()));
            let (pattern, outcomes) = golden.recordings.last_mut()?;
            pattern.push(stream.parse().ok()?, parse_action(action)?);
            outcomes.push(parse_outcome(outcome)?);
        }
        [] => return None,
    }
    Some(())
}

/// Formats a part of a line.
struct Written<'a, T>(&'a T);

impl fmt::Display for Written<'_, Operation> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.0.stream)?;
        match self.0.action {
            Action::Read {
                offset_bytes,
                len_bytes,
            } => write!(f, "read {offset_bytes} {len_bytes}"),
            Action::Fault { page } => write!(f, "fault {page}"),
            Action::Advise {
                advice,
                offset_bytes,
                len_bytes,
            } => {
                let advice = advice_name(advice);
                write!(f, "advise {advice} {offset_bytes} {len_bytes}")
            }
            Action::AdviseMapping(advice) => write!(f, "mapping {}", advice_name(advice)),
        }
    }
}

impl fmt::Display for Written<'_, Outcome> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = self.0;
        if *outcome == Outcome::default() {
            return Ok(());
        }
        f.write_str(" ->")?;
        for window in &outcome.windows {
            let KernelWindow {
                start,
                size,
                async_size,
                order,
            } = window;
            write!(f, " {start}+{size}/{async_size}")?;
            if let Some(order) = order {
                write!(f, "^{order}")?;
            }
        }
        if outcome.added != every_page(&outcome.windows) {
            f.write_str(" new")?;
            for run in &outcome.added {
                write!(f, " {}", Written(run))?;
            }
        }
        if outcome.dropped_pages > 0 {
            write!(f, " dropped {}", outcome.dropped_pages)?;
        }
        Ok(())
    }
}

impl fmt::Display for Written<'_, FolioRun> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FolioRun {
            start,
            order,
            count,
        } = self.0;
        match order {
            0 => write!(f, "{start}*{count}"),
            _ => write!(f, "{start}^{order}*{count}"),
        }
    }
}

/// Returns the pages of windows, one by one.
fn every_page(windows: &[KernelWindow]) -> Vec<FolioRun> {
    let mut outcome = Outcome::default();
    for window in windows {
        outcome.add_pages(window.start, window.size);
    }
    outcome.added
}

fn parse_action(words: &[&str]) -> Option<Action> {
    Some(match words {
        ["read", offset, len] => Action::Read {
            offset_bytes: offset.parse().ok()?,
            len_bytes: len.parse().ok()?,
        },
        ["fault", page] => Action::Fault {
            page: page.parse().ok()?,
        },
        ["advise", advice, offset, len] => Action::Advise {
            advice: advice_of(advice)?,
            offset_bytes: offset.parse().ok()?,
            len_bytes: len.parse().ok()?,
        },
        ["mapping", advice] => Action::AdviseMapping(advice_of(advice)?),
        _ => return None,
    })
}

fn parse_outcome(words: &[&str]) -> Option<Outcome> {
    let mut outcome = Outcome::default();
    let all = !words.contains(&"new");
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        if *word == "dropped" {
            outcome.dropped_pages = words.next()?.parse().ok()?;
        } else if let Some((start, rest)) = word.split_once('+') {
            let (size, rest) = rest.split_once('/')?;
            let (async_size, order) = match rest.split_once('^') {
                Some((async_size, order)) => (async_size, Some(order.parse().ok()?)),
                None => (rest, None),
            };
            outcome.windows.push(KernelWindow {
                start: start.parse().ok()?,
                size: size.parse().ok()?,
                async_size: async_size.parse().ok()?,
                order,
            });
        } else if let Some((start, count)) = word.split_once('*') {
            let (start, order) = start.split_once('^').unwrap_or((start, "0"));
            outcome.added.push(FolioRun {
                start: start.parse().ok()?,
                order: order.parse().ok()?,
                count: count.parse().ok()?,
            });
        } else if *word != "new" {
            return None;
        }
    }
    if all {
        outcome.added = every_page(&outcome.windows);
    }
    Some(outcome)
}

const ADVICE: [(Advice, &str); 5] = [
    (Advice::Normal, "normal"),
    (Advice::Sequential, "sequential"),
    (Advice::Random, "random"),
    (Advice::WillNeed, "willneed"),
    (Advice::DontNeed, "dontneed"),
];

fn advice_name(advice: Advice) -> &'static str {
    let known = ADVICE.iter().find(|(known, _)| *known == advice);
    known.map_or("normal", |(_, name)| name)
}

fn advice_of(name: &str) -> Option<Advice> {
    let known = ADVICE.iter().find(|(_, known)| *known == name);
    known.map(|(advice, _)| *advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "\
# What Linux read ahead; `make record-readahead` writes this.
kernel 6.18.0
folios large

pattern example
file 83000 max 128 io 1280 blocks
0 read 0 4096 -> 0+4/3^0
0 read 4096 4096 -> 4+8/8^2 4+1/0 new 4^2*2
0 read 0 65536 -> 0+16/3 new
0 fault 17
0 advise dontneed 0 0 -> dropped 12
1 mapping random
";

    #[test]
    fn golden_text_is_written_as_it_was_parsed() {
        let golden: Golden = EXAMPLE.parse().unwrap();
        assert_eq!(golden.recordings[0].0.streams(), 2);
        assert_eq!(golden.recordings[0].1[0].added_pages(), 4);
        assert_eq!(golden.recordings[0].1[1].added_pages(), 8);
        assert_eq!(golden.to_string(), EXAMPLE);
    }

    #[test]
    fn invalid_line_is_named() {
        for bad in ["0 read 1", "0 read 0 1 -> 3", "0 read 0 1 -> 3*x", "1"] {
            let text = format!("kernel x\npattern p\n{bad}\n");
            let error = text.parse::<Golden>().unwrap_err();
            assert_eq!((error.line, error.text.as_str()), (3, bad));
        }
    }
}
