//! The script of one user: its commands, and their expected results.

use super::program::{Program, TextFile};
use super::texts::Texts;

/// A command of the script.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The program, by name or by its path in the user's home.
    pub program: &'static str,
    pub arguments: Vec<String>,
    /// File for standard input, in the user's home.
    pub input: Option<&'static str>,
    /// File for standard output, in the user's home.
    pub output: Option<&'static str>,
}

/// The expected state of a file in the user's home at the end of the script.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub path: String,
    pub expected: Expected,
}

/// The expected content of a file.
#[derive(Clone, Debug)]
pub(super) enum Expected {
    Text(String),
    /// These words, in this order.
    Words(Vec<String>),
    /// These words, in any order.
    WordsOfAnyOrder(Vec<String>),
    /// The file must not exist.
    Nothing,
}

impl Expected {
    /// Returns whether `found` matches the expectation.
    pub(super) fn is_met_by(&self, found: Option<&str>) -> bool {
        let words =
            |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        match (self, found) {
            (Self::Nothing, None) => true,
            (Self::Text(text), Some(found)) => text == found,
            (Self::Words(expected), Some(found)) => *expected == words(found),
            (Self::WordsOfAnyOrder(expected), Some(found)) => {
                let (mut expected, mut found) = (expected.clone(), words(found));
                expected.sort_unstable();
                found.sort_unstable();
                expected == found
            }
            _ => false,
        }
    }
}

/// A command that the script needs, and the Debian package that contains it.
pub(super) type Needed = (&'static str, &'static str);

/// All commands that the script needs.
pub(super) const NEEDED: [Needed; 9] = [
    ("gcc", "gcc"),
    ("ed", "ed"),
    ("nroff", "groff"),
    ("spell", "spell"),
    ("mkdir", "coreutils"),
    ("cp", "coreutils"),
    ("ls", "coreutils"),
    ("mv", "coreutils"),
    ("rm", "coreutils"),
];

/// The compiler's search path for headers, relative to a user's home.
const HEADER_FOLDERS: [&str; 3] = ["include", "../shared/include", "../shared/include/system"];

/// The script of one user.
#[derive(Debug)]
pub(super) struct Script {
    /// The user's initial files.
    pub files: Vec<TextFile>,
    pub steps: Vec<Step>,
    pub outcomes: Vec<Outcome>,
}

impl Script {
    pub(super) fn new(seed: u64, user: u32) -> Self {
        let (program, texts) = (Program::new(seed, user), Texts::new(seed, user));
        let mut files = program.files();
        files.extend(texts.files());
        files.push(("main.c".to_owned(), program.main_file(0)));
        for edit in [1, 2] {
            files.push((format!("edit{edit}.ed"), program.edit(edit)));
        }
        Self {
            files,
            steps: steps(&program, &texts),
            outcomes: outcomes(&program, &texts),
        }
    }
}

fn step<'a>(program: &'static str, arguments: impl IntoIterator<Item = &'a str>) -> Step {
    Step {
        program,
        arguments: arguments.into_iter().map(str::to_owned).collect(),
        input: None,
        output: None,
    }
}

impl Step {
    fn reads(self, path: &'static str) -> Self {
        Self {
            input: Some(path),
            ..self
        }
    }

    fn writes(self, path: &'static str) -> Self {
        Self {
            output: Some(path),
            ..self
        }
    }
}

fn steps(program: &Program, texts: &Texts) -> Vec<Step> {
    let names: Vec<String> = program.modules().chain(["main".to_owned()]).collect();
    let objects = names.iter().map(|name| format!("objects/{name}.o"));
    let objects: Vec<String> = objects.collect();
    let objects = || objects.iter().map(String::as_str);
    let letters: Vec<String> = texts.letter_names().collect();
    let letters = || letters.iter().map(String::as_str);
    let link = || step("gcc", ["-o", "program"].into_iter().chain(objects()));
    let mut steps = vec![
        step("mkdir", ["objects", "results", "backup"]),
        step(
            "cp",
            ["--reflink=never", "main.c"]
                .into_iter()
                .chain(letters())
                .chain(["backup"]),
        ),
        step("ed", ["-s", "main.c"]).reads("edit1.ed"),
    ];
    steps.extend(names.iter().map(|name| compile(name)));
    steps.extend([
        link(),
        step("./program", []).writes("results/first"),
        step("ls", ["-1F", "objects"]).writes("results/listing"),
        step("ed", ["-s", "main.c"]).reads("edit2.ed"),
        compile("main"),
        link(),
        step("./program", []).writes("results/second"),
        step("nroff", ["-Tascii", "manual/manual.roff"]).writes("results/manual"),
        step("spell", letters()).writes("results/misspelt"),
        step("mv", ["results/manual", "manual/manual.txt"]),
        step("rm", objects()),
    ]);
    steps
}

fn compile(name: &str) -> Step {
    let mut arguments = vec!["-O".to_owned(), "-c".to_owned(), "-nostdinc".to_owned()];
    arguments.extend(HEADER_FOLDERS.map(|folder| format!("-I{folder}")));
    arguments.extend([
        format!("{name}.c"),
        "-o".to_owned(),
        format!("objects/{name}.o"),
    ]);
    Step {
        arguments,
        ..step("gcc", [])
    }
}

fn outcomes(program: &Program, texts: &Texts) -> Vec<Outcome> {
    let outcome = |path: &str, expected| Outcome {
        path: path.to_owned(),
        expected,
    };
    let names = program.modules().chain(["main".to_owned()]);
    let objects: Vec<String> = names.map(|name| format!("{name}.o")).collect();
    let removed = objects.iter();
    let removed = removed.map(|name| outcome(&format!("objects/{name}"), Expected::Nothing));
    let removed: Vec<Outcome> = removed.collect();
    let copies = texts.files().into_iter().filter_map(|(path, text)| {
        let name = path.strip_prefix("letters/")?;
        Some(outcome(&format!("backup/{name}"), Expected::Text(text)))
    });
    let mut outcomes = vec![
        outcome("backup/main.c", Expected::Text(program.main_file(0))),
        outcome("main.c", Expected::Text(program.main_file(2))),
        outcome("results/first", Expected::Text(program.output(1))),
        outcome("results/second", Expected::Text(program.output(2))),
        outcome("results/listing", Expected::WordsOfAnyOrder(objects)),
        outcome("manual/manual.txt", Expected::Words(texts.formatted())),
        outcome(
            "results/misspelt",
            Expected::WordsOfAnyOrder(texts.misspelt().to_vec()),
        ),
        outcome("results/manual", Expected::Nothing),
    ];
    outcomes.extend(removed.into_iter().chain(copies));
    outcomes
}
