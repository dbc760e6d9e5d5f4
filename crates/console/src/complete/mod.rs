//! Completion of command lines, for the shells.
//!
//! # Model
//! The completion scripts call the program with the hidden subcommand [`COMMAND`] and the command line up to the
//! cursor. The program finds the argument at the cursor in the definition of its command line, and prints what can
//! be inserted. The scripts only pass this to the shell.
//!
//! Arguments of [`COMMAND`]:
//!
//! - `bash LINE BREAKS`: the command line, and the characters in `COMP_WORDBREAKS`;
//! - `words WORD...`: the words without quotes. The last one is the word at the cursor, up to the cursor.
//!
//! Output: strings that each end with a NUL. The first one is the kind: `files` or `directories` (the shell lists the
//! files of the machine), `values`, or `paths` (inside an image). With `words`, the second string is the beginning of
//! the word that the completion does not change, such as `--log=`. Each candidate follows as two strings: the
//! text after this beginning, and a description, which can be empty. With `bash`, only the texts follow. Each is
//! quoted, and replaces the part of the word that readline replaces. zsh and fish quote what they insert.
//!
//! Nothing is printed if there is no completion, and nothing but this output is printed to standard output.

mod arguments;
mod completion;
mod line;

pub use arguments::Cursor;
pub use completion::{Candidate, Completion, Kind};

use clap::Command;
use line::Line;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// The hidden subcommand that the completion scripts call.
pub const COMMAND: &str = "complete";

/// A request of a completion script.
#[derive(Debug)]
pub struct Request {
    line: Line,
    is_bash: bool,
}

impl Request {
    /// Returns the request with the arguments `args` of [`COMMAND`], or `None` if they are invalid.
    #[must_use]
    pub fn parse(args: &[OsString]) -> Option<Self> {
        match args {
            [shell, line, breaks] if shell == "bash" => Some(Self {
                line: Line::parse(line.as_bytes(), breaks.as_bytes()),
                is_bash: true,
            }),
            [shell, words @ ..] if shell == "words" && !words.is_empty() => Some(Self {
                line: Line::of_words(words),
                is_bash: false,
            }),
            _ => None,
        }
    }

    /// Returns the words up to the cursor. The first one is the name of the program.
    #[must_use]
    pub fn words(&self) -> &[OsString] {
        &self.line.words
    }

    /// Returns what the script expects on standard output. `words` are the words of the request, possibly without the
    /// first ones. The first of `words` is the name of the program `command`. `values` returns the completion of a
    /// value, or `None` for the default: the possible values, or files.
    #[must_use]
    pub fn answer(
        &self,
        mut command: Command,
        words: &[OsString],
        values: impl Fn(&Cursor<'_>) -> Option<Completion>,
    ) -> Vec<u8> {
        command.build();
        let found = arguments::complete(&command, words, values);
        let is_list = matches!(found.kind, Kind::Values | Kind::Paths);
        if is_list && found.candidates.is_empty() {
            return Vec::new();
        }
        let word = words.last().map_or(b"".as_slice(), |word| word.as_bytes());
        let kept = word.get(..found.kept_bytes).unwrap_or(word);
        let mut answer = Vec::new();
        let mut add = |text: &[u8]| {
            answer.extend_from_slice(text);
            answer.push(0);
        };
        add(found.kind.as_str().as_bytes());
        if !self.is_bash {
            add(kept);
        }
        for candidate in &found.candidates {
            if self.is_bash {
                add(&self.line.replacement(&[kept, &candidate.text].concat()));
            } else {
                add(&candidate.text);
                add(candidate.description.as_bytes());
            }
        }
        answer
    }
}

/// Returns the arguments of [`COMMAND`], if a completion script has called the program with `args`.
#[must_use]
pub fn request(args: &[OsString]) -> Option<&[OsString]> {
    match args {
        [_, first, rest @ ..] if first == OsStr::new(COMMAND) => Some(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(args: &[&str]) -> String {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let command = Command::new("program").arg(
            clap::Arg::new("mode")
                .long("mode")
                .help("How it runs")
                .value_parser(["fast", "safe:/x"]),
        );
        let request = Request::parse(&args).unwrap();
        let answer = request.answer(command, request.words(), |_| None);
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn answer_for_words_has_the_kept_part_and_descriptions() {
        assert_eq!(
            answer(&["words", "program", "--mo"]),
            "values\0\0--mode\0How it runs\0"
        );
        assert_eq!(
            answer(&["words", "program", "--mode=f"]),
            "values\0--mode=\0fast\0\0"
        );
    }

    #[test]
    fn answer_for_bash_replaces_the_part_after_the_last_break() {
        let breaks = " \t\n\"'><=;|&(:";
        assert_eq!(
            answer(&["bash", "program --mode=f", breaks]),
            "values\0fast\0"
        );
        assert_eq!(
            answer(&["bash", "program --mode=safe:/", breaks]),
            "values\0/x\0"
        );
        assert_eq!(
            answer(&["bash", "program --mode=f", " "]),
            "values\0--mode=fast\0"
        );
    }

    #[test]
    fn answer_without_candidates_is_empty() {
        assert_eq!(answer(&["words", "program", "--mode", "x"]), "");
        assert_eq!(answer(&["words", "program", "x", ""]), "");
    }

    #[test]
    fn invalid_requests_are_refused() {
        for args in [
            &[] as &[&str],
            &["bash"],
            &["bash", "a"],
            &["words"],
            &["other", "a"],
        ] {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            assert!(Request::parse(&args).is_none(), "{args:?}");
        }
    }
}
