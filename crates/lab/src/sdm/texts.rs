//! Generates a manual to format and letters to spell-check, with known results.

use super::program::TextFile;
use crate::workload::chance::generator;
use rand::Rng;

/// Words that every English dictionary contains.
const WORDS: [&str; 48] = [
    "about", "after", "again", "all", "answer", "before", "below", "block", "book", "both",
    "bring", "carry", "change", "city", "close", "cold", "count", "cover", "door", "early",
    "earth", "every", "field", "find", "first", "follow", "front", "garden", "great", "green",
    "hand", "house", "large", "letter", "light", "long", "market", "morning", "number", "open",
    "paper", "people", "question", "river", "simple", "table", "under", "water",
];
/// The characters of misspelt words. No English word consists of these characters only.
const CONSONANTS: &[u8] = b"bcdfghjkmnpqrtvwxz";

/// Number of letters (correspondence) of a user.
const LETTERS: usize = 4;
/// Number of sections of the manual, each in a file.
const SECTIONS: usize = 6;

/// Returns the macros for the manuals of all users, in the shared directory.
pub(super) fn macros() -> TextFile {
    let text = ".nh\n.na\n.de SH\n.sp\n.in 0\n\\\\$1\n.br\n.in 7\n..\n.de PP\n.sp\n..\n";
    ("macros/manual.roff".to_owned(), text.to_owned())
}

/// The texts of one user.
#[derive(Debug)]
pub(super) struct Texts {
    sections: Vec<Section>,
    letters: Vec<Vec<String>>,
    misspelt: Vec<String>,
}

#[derive(Debug)]
struct Section {
    heading: String,
    paragraphs: Vec<Vec<String>>,
}

impl Texts {
    pub(super) fn new(seed: u64, user: u32) -> Self {
        let mut chance = generator(seed, u64::from(user) << 32);
        let mut misspelt = Vec::new();
        let letters = (0..LETTERS).map(|letter| {
            let mut words = words(800, &mut chance);
            for number in 0..6 {
                let word = misspelling(letter * 6 + number, &mut chance);
                let at = chance.random_range(0..words.len());
                words.insert(at, word.clone());
                misspelt.push(word);
            }
            words
        });
        let letters = letters.collect();
        let sections = (0..SECTIONS).map(|_| Section {
            heading: words(1, &mut chance).concat().to_uppercase(),
            paragraphs: (0..8).map(|_| words(90, &mut chance)).collect(),
        });
        Self {
            letters,
            sections: sections.collect(),
            misspelt,
        }
    }

    /// Returns the files in the user's home.
    pub(super) fn files(&self) -> Vec<TextFile> {
        let mut manual = String::from(".so ../shared/macros/manual.roff\n");
        let mut files = Vec::new();
        for (number, section) in self.sections.iter().enumerate() {
            let name = format!("manual/section{number}.roff");
            manual.extend([".so ", &name, "\n"]);
            files.push((name, section.source()));
        }
        files.push(("manual/manual.roff".to_owned(), manual));
        for (name, words) in self.letter_names().zip(&self.letters) {
            files.push((name, lines(words)));
        }
        files
    }

    /// Returns the names of the letters, in order.
    pub(super) fn letter_names(&self) -> impl Iterator<Item = String> {
        (0..self.letters.len()).map(|number| format!("letters/letter{number}.txt"))
    }

    /// Returns the words of the formatted manual, in order.
    pub(super) fn formatted(&self) -> Vec<String> {
        let of = |section: &Section| {
            let words = section.paragraphs.concat();
            [vec![section.heading.clone()], words].concat()
        };
        self.sections.iter().flat_map(of).collect()
    }

    /// Returns the misspelt words of all letters.
    pub(super) fn misspelt(&self) -> &[String] {
        &self.misspelt
    }
}

impl Section {
    fn source(&self) -> String {
        let mut text = format!(".SH {}\n", self.heading);
        for paragraph in &self.paragraphs {
            text.push_str(".PP\n");
            text.push_str(&lines(paragraph));
        }
        text
    }
}

fn words(count: usize, chance: &mut impl Rng) -> Vec<String> {
    let word = |_| WORDS[chance.random_range(0..WORDS.len())].to_owned();
    (0..count).map(word).collect()
}

/// Returns a misspelt word that is unique for each number.
fn misspelling(number: usize, chance: &mut impl Rng) -> String {
    let mut letter = |_| CONSONANTS[chance.random_range(0..CONSONANTS.len())];
    let mut word: Vec<u8> = (0..6).map(&mut letter).collect();
    word.extend([number / 18, number % 18].map(|digit| CONSONANTS[digit]));
    word.into_iter().map(char::from).collect()
}

fn lines(words: &[String]) -> String {
    words.chunks(11).map(|line| line.join(" ") + "\n").collect()
}
