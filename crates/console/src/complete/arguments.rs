//! Finds the argument at the cursor, and what can be inserted there.

use super::completion::{Candidate, Completion, Kind};
use clap::builder::StyledStr;
use clap::{Arg, Command, ValueHint};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// A value of an argument, at the cursor.
#[derive(Debug)]
pub struct Cursor<'a> {
    /// The program or the subcommand.
    pub command: &'a Command,
    /// The argument that gets the value.
    pub arg: &'a Arg,
    /// The earlier operands: words that are neither options nor their values.
    pub operands: Vec<&'a OsStr>,
    /// All earlier words. The first one is the name of the program.
    pub words: &'a [OsString],
    /// The value up to the cursor.
    pub text: &'a [u8],
}

/// Returns what can be inserted at the end of the last of `words`. `values` completes values.
pub(super) fn complete(
    root: &Command,
    words: &[OsString],
    values: impl Fn(&Cursor<'_>) -> Option<Completion>,
) -> Completion {
    let none = || Completion::after(b"", 0, []);
    let Some((word, words)) = words.split_last() else {
        return none();
    };
    let word = word.as_bytes();
    let earlier = Earlier::of(root, words);
    let command = earlier.command;
    let value = |arg, text: &[u8]| {
        let kept_bytes = word.len() - text.len();
        let cursor = Cursor {
            command,
            arg,
            operands: earlier.operands.clone(),
            words,
            text,
        };
        let mut found = values(&cursor).unwrap_or_else(|| of_argument(arg, text));
        found.kept_bytes += kept_bytes;
        found
    };
    if let Some(arg) = earlier.option {
        return value(arg, word);
    }
    if !earlier.only_operands && word.starts_with(b"-") {
        return match attached(command, word) {
            Attached::Value(arg, text) => value(arg, text),
            Attached::Nothing(_) => Completion::after(word, 0, options(command)),
        };
    }
    if command.has_subcommands() && earlier.operands.is_empty() {
        return Completion::after(word, 0, subcommands(command));
    }
    let positionals = command.get_positionals().filter(|arg| !arg.is_hide_set());
    let positionals: Vec<&Arg> = positionals.collect();
    let at = positionals.get(earlier.operands.len()).copied();
    let last = positionals.last().copied();
    let last = last.filter(|arg| is_repeated(arg));
    match at.or(last) {
        Some(arg) => value(arg, word),
        None => none(),
    }
}

/// What precedes the word at the cursor.
struct Earlier<'a> {
    /// The program or the subcommand.
    command: &'a Command,
    /// The option whose value is the next word.
    option: Option<&'a Arg>,
    operands: Vec<&'a OsStr>,
    /// Whether `--` was found: no word after it is an option.
    only_operands: bool,
}

impl<'a> Earlier<'a> {
    fn of(root: &'a Command, words: &'a [OsString]) -> Self {
        let mut earlier = Self {
            command: root,
            option: None,
            operands: Vec::new(),
            only_operands: false,
        };
        for word in words.iter().skip(1) {
            earlier.add(word);
        }
        earlier
    }

    fn add(&mut self, word: &'a OsStr) {
        let bytes = word.as_bytes();
        if self.option.take().is_some() {
            return;
        }
        if self.only_operands || bytes == b"-" || !bytes.starts_with(b"-") {
            match self.command.find_subcommand(word) {
                Some(subcommand) if self.operands.is_empty() => self.command = subcommand,
                _ => self.operands.push(word),
            }
        } else if bytes == b"--" {
            self.only_operands = true;
        } else if let Attached::Nothing(option) = attached(self.command, bytes) {
            self.option = option;
        }
    }
}

/// What follows the names of options in a word that begins with a hyphen.
enum Attached<'a> {
    /// A value of an option: the text, which can be empty.
    Value(&'a Arg, &'a [u8]),
    /// Nothing. If the last option needs a value, it is the next word.
    Nothing(Option<&'a Arg>),
}

fn attached<'a>(command: &'a Command, word: &'a [u8]) -> Attached<'a> {
    let takes_value = |arg: &&Arg| arg.get_action().takes_values();
    if let Some(long) = word.strip_prefix(b"--") {
        let (name, value) = match long.iter().position(|&byte| byte == b'=') {
            Some(at) => (&long[..at], Some(&long[at + 1..])),
            None => (long, None),
        };
        let mut args = command.get_arguments();
        let arg = args.find(|arg| {
            let names = arg.get_long_and_visible_aliases().unwrap_or_default();
            names.iter().any(|known| known.as_bytes() == name)
        });
        return match (arg.filter(takes_value), value) {
            (Some(arg), Some(value)) => Attached::Value(arg, value),
            (arg, None) => Attached::Nothing(arg),
            (None, Some(_)) => Attached::Nothing(None),
        };
    }
    for (at, &letter) in word.iter().enumerate().skip(1) {
        let mut args = command.get_arguments();
        let arg = args.find(|arg| {
            let letters = arg.get_short_and_visible_aliases().unwrap_or_default();
            letters.contains(&char::from(letter))
        });
        if let Some(arg) = arg.filter(takes_value) {
            let value = word.get(at + 1..).unwrap_or_default();
            return if value.is_empty() {
                Attached::Nothing(Some(arg))
            } else {
                Attached::Value(arg, value)
            };
        }
    }
    Attached::Nothing(None)
}

/// Returns the possible values of `arg` that complete `text`, or requests files.
fn of_argument(arg: &Arg, text: &[u8]) -> Completion {
    let possible = arg.get_possible_values();
    match arg.get_value_hint() {
        _ if !possible.is_empty() => {
            let shown = possible.iter().filter(|value| !value.is_hide_set());
            let candidates = shown.map(|value| Candidate {
                text: value.get_name().into(),
                description: first_line(value.get_help()),
            });
            Completion::of_list(text, candidates)
        }
        ValueHint::AnyPath | ValueHint::FilePath => Completion::files(Kind::Files),
        ValueHint::DirPath => Completion::files(Kind::Directories),
        _ => Completion::after(text, 0, []),
    }
}

fn options(command: &Command) -> impl Iterator<Item = Candidate> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    shown.flat_map(|arg| {
        let short = arg.get_short().map(|letter| format!("-{letter}"));
        let long = arg.get_long().map(|name| format!("--{name}"));
        let names = [short, long].into_iter().flatten();
        names.map(move |name| Candidate {
            text: name.into_bytes(),
            description: first_line(arg.get_help()),
        })
    })
}

fn subcommands(command: &Command) -> impl Iterator<Item = Candidate> {
    let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    shown.map(|subcommand| Candidate {
        text: subcommand.get_name().into(),
        description: first_line(subcommand.get_about()),
    })
}

fn is_repeated(arg: &Arg) -> bool {
    arg.get_num_args()
        .is_some_and(|range| range.max_values() > 1)
        || matches!(arg.get_action(), clap::ArgAction::Append)
}

fn first_line(help: Option<&StyledStr>) -> String {
    let help = help.map(ToString::to_string).unwrap_or_default();
    help.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ArgAction;

    fn program() -> Command {
        let list = Command::new("list")
            .about("List things\n\nAt length.")
            .arg(Arg::new("long").short('l').action(ArgAction::SetTrue))
            .arg(
                Arg::new("kind")
                    .short('k')
                    .long("kind")
                    .value_parser(["red", "rose", "blue"]),
            )
            .arg(Arg::new("log").long("log").value_hint(ValueHint::FilePath))
            .arg(Arg::new("secret").long("secret").hide(true))
            .arg(Arg::new("image").value_hint(ValueHint::DirPath))
            .arg(Arg::new("paths").num_args(1..));
        let mut program = Command::new("program")
            .disable_help_subcommand(true)
            .subcommand(list)
            .subcommand(Command::new("hidden").hide(true));
        program.build();
        program
    }

    /// Returns the completion of the words after the name of the program: its kind, the length of the kept part, and
    /// the candidates. A value that is not predefined has one candidate: the identifier of its argument.
    fn completion(words: &[&str]) -> (Kind, usize, Vec<String>) {
        let words: Vec<OsString> = ["program"].iter().chain(words).map(Into::into).collect();
        let found = complete(&program(), &words, |cursor| {
            (cursor.arg.get_id() == "paths").then(|| {
                let seen = format!("{:?} {:?}", cursor.operands, OsStr::from_bytes(cursor.text));
                Completion {
                    candidates: vec![Candidate::new(seen)],
                    ..Completion::files(Kind::Paths)
                }
            })
        });
        let texts = found.candidates.into_iter();
        let texts = texts.map(|one| String::from_utf8(one.text).unwrap());
        (found.kind, found.kept_bytes, texts.collect())
    }

    fn values(words: &[&str]) -> Vec<String> {
        completion(words).2
    }

    #[test]
    fn subcommands_and_options_are_completed() {
        assert_eq!(values(&[""]), ["list"]);
        assert_eq!(values(&["x"]), [""; 0]);
        assert_eq!(values(&["list", "--"]), ["--kind", "--log", "--help"]);
        assert_eq!(values(&["list", "-k"]), ["-k"]);
        assert_eq!(values(&["list", "--", "--k"]), [""; 0]);
    }

    #[test]
    fn values_are_completed_after_each_form_of_an_option() {
        for (words, kept_bytes) in [
            (&["list", "--kind", "r"] as &[&str], 0),
            (&["list", "-k", "r"], 0),
            (&["list", "-lk", "r"], 0),
            (&["list", "--kind=r"], 7),
            (&["list", "-kr"], 2),
            (&["list", "-lkr"], 3),
            (&["list", "--kind", "blue,r"], 5),
            (&["list", "a", "b", "--kind=blue,r"], 12),
        ] {
            let expected = vec!["red".to_owned(), "rose".to_owned()];
            assert_eq!(completion(words), (Kind::Values, kept_bytes, expected));
        }
        assert_eq!(values(&["list", "--kind="]).len(), 3);
        assert_eq!(completion(&["list", "--log=/x"]), (Kind::Files, 6, vec![]));
    }

    #[test]
    fn operands_are_counted_without_options_and_their_values() {
        assert_eq!(completion(&["list", ""]).0, Kind::Directories);
        assert_eq!(
            completion(&["list", "--log", "f", "-l", ""]).0,
            Kind::Directories
        );
        for (words, expected) in [
            (&["list", "a", "/x"] as &[&str], r#"["a"] "/x""#),
            (&["list", "-k", "red", "a", "b", "c"], r#"["a", "b"] "c""#),
            (&["list", "a", "--log=f", "list", ""], r#"["a", "list"] """#),
            (&["list", "a", "--", "--kind"], r#"["a"] "--kind""#),
        ] {
            assert_eq!(values(words), [expected]);
        }
    }
}
