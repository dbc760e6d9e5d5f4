//! Generates a C program with known output. Its main file passes a number to modules that each modify it.

use crate::workload::chance::generator;
use rand::Rng;
use std::fmt::Write as _;

/// Number of modules of a program.
const MODULES: usize = 12;
/// Number of a program's own headers.
const OWN_HEADERS: usize = 16;
/// Number of headers that all users share.
pub(super) const SHARED_HEADERS: usize = 48;
/// Number of functions of a module. Each function calls the previous one.
const FUNCTIONS: usize = 6;
/// Numbers of own and shared headers that a module includes.
const INCLUDED: [usize; 2] = [4, 8];
/// Number of the first shared header in the directory that the compiler searches last.
const FIRST_SYSTEM_HEADER: usize = SHARED_HEADERS / 2;

/// A file: its path and its content.
pub(super) type TextFile = (String, String);

/// A modification of the number.
#[derive(Debug)]
enum Statement {
    Multiply(u32),
    AddHeader(String, u32),
    XorShift(u32),
    AddFromTable(usize),
}

/// The content of one module.
#[derive(Debug)]
struct Module {
    number: usize,
    includes: Vec<String>,
    table: [u32; 16],
    functions: Vec<Vec<Statement>>,
}

/// The program of one user.
#[derive(Debug)]
pub(super) struct Program {
    modules: Vec<Module>,
    own_headers: Vec<TextFile>,
    /// The numbers that the main file passes to the modules: initially, and after each edit.
    starts: [u32; 3],
}

impl Program {
    pub(super) fn new(seed: u64, user: u32) -> Self {
        let mut chance = generator(seed, 1 + u64::from(user));
        let own: Vec<_> = (0..OWN_HEADERS)
            .map(|number| (format!("own{number:02}.h"), chance.random()))
            .collect();
        let shared: Vec<_> = (0..SHARED_HEADERS)
            .map(|number| (shared_name(number), shared_value(seed, number)))
            .collect();
        let modules = (0..MODULES).map(|number| Module::new(number, [&own, &shared], &mut chance));
        Self {
            modules: modules.collect(),
            own_headers: own
                .iter()
                .map(|(name, value)| (format!("include/{name}"), header(name, *value)))
                .collect(),
            starts: chance.random(),
        }
    }

    /// Returns all files except [`Program::main_file`].
    pub(super) fn files(&self) -> Vec<TextFile> {
        let modules = self.modules.iter().map(Module::file);
        modules.chain(self.own_headers.iter().cloned()).collect()
    }

    /// Returns the names of the modules, without the `.c` suffix.
    pub(super) fn modules(&self) -> impl Iterator<Item = String> {
        self.modules.iter().map(Module::name)
    }

    /// Returns `main.c` after `edits` edits.
    pub(super) fn main_file(&self, edits: usize) -> String {
        let mut text = String::from("int printf(const char *format, ...);\n\n");
        for name in self.modules() {
            // Writing to a string does not fail.
            let _ = writeln!(text, "unsigned {name}(unsigned x);");
        }
        let _ = write!(text, "\n#define START {}u\n\n", self.starts[edits]);
        text.push_str("int main(void)\n{\n\tunsigned x = START;\n\n");
        for name in self.modules() {
            let _ = writeln!(text, "\tx = {name}(x);");
        }
        text.push_str("\tprintf(\"%08x\\n\", x);\n\treturn 0;\n}\n");
        text
    }

    /// Returns the input of `ed` for edit number `edit`, from 1.
    pub(super) fn edit(&self, edit: usize) -> String {
        let [from, to] = [self.starts[edit - 1], self.starts[edit]];
        format!("/define START/s/{from}/{to}/\nw\nq\n")
    }

    /// Returns the program's output after `edits` edits.
    pub(super) fn output(&self, edits: usize) -> String {
        let modules = self.modules.iter();
        let end = modules.fold(self.starts[edits], |x, module| module.run(x));
        format!("{end:08x}\n")
    }
}

impl Module {
    fn new(number: usize, headers: [&[(String, u32)]; 2], chance: &mut impl Rng) -> Self {
        let mut included = Vec::new();
        for (headers, count) in headers.into_iter().zip(INCLUDED) {
            for _ in 0..count {
                included.push(headers[chance.random_range(0..headers.len())].clone());
            }
        }
        let functions = (0..FUNCTIONS).map(|_| {
            let statements =
                (0..chance.random_range(4..12)).map(|_| Statement::new(&included, chance));
            statements.collect()
        });
        let functions = functions.collect();
        included.sort_unstable();
        included.dedup();
        Self {
            number,
            includes: included.into_iter().map(|(name, _)| name).collect(),
            table: chance.random(),
            functions,
        }
    }

    fn name(&self) -> String {
        format!("module{:02}", self.number)
    }

    fn file(&self) -> TextFile {
        let name = self.name();
        let mut text = String::new();
        for header in &self.includes {
            // Writing to a string does not fail.
            let _ = writeln!(text, "#include <{header}>");
        }
        let numbers: Vec<_> = self
            .table
            .iter()
            .map(|number| format!("{number}u"))
            .collect();
        let _ = writeln!(
            text,
            "\nstatic const unsigned table[16] = {{\n\t{}\n}};",
            numbers.join(",\n\t")
        );
        for (at, statements) in self.functions.iter().enumerate() {
            let _ = writeln!(text, "\nstatic unsigned step{at}(unsigned x)\n{{");
            for statement in statements {
                let _ = writeln!(text, "\t{};", statement.code());
            }
            text.push_str("\treturn x;\n}\n");
        }
        let _ = writeln!(text, "\nunsigned {name}(unsigned x)\n{{");
        for at in 0..self.functions.len() {
            let _ = writeln!(text, "\tx = step{at}(x);");
        }
        text.push_str("\treturn x;\n}\n");
        (format!("{name}.c"), text)
    }

    fn run(&self, x: u32) -> u32 {
        let statements = self.functions.iter().flatten();
        statements.fold(x, |x, statement| statement.run(x, &self.table))
    }
}

impl Statement {
    fn new(included: &[(String, u32)], chance: &mut impl Rng) -> Self {
        match chance.random_range(0..4) {
            0 => Self::Multiply(chance.random::<u32>() | 1),
            1 => {
                let (name, value) = &included[chance.random_range(0..included.len())];
                Self::AddHeader(macro_of(name), *value)
            }
            2 => Self::XorShift(chance.random_range(1..32)),
            _ => Self::AddFromTable(chance.random_range(0..28)),
        }
    }

    fn code(&self) -> String {
        match self {
            Self::Multiply(factor) => format!("x *= {factor}u"),
            Self::AddHeader(name, _) => format!("x += {name}"),
            Self::XorShift(by) => format!("x ^= x >> {by}"),
            Self::AddFromTable(shift) => format!("x += table[(x >> {shift}) & 15]"),
        }
    }

    fn run(&self, x: u32, table: &[u32; 16]) -> u32 {
        match self {
            Self::Multiply(factor) => x.wrapping_mul(*factor),
            Self::AddHeader(_, value) => x.wrapping_add(*value),
            Self::XorShift(by) => x ^ x >> by,
            Self::AddFromTable(shift) => x.wrapping_add(table[((x >> shift) & 15) as usize]),
        }
    }
}

/// Returns the headers that all users share, in two directories.
pub(super) fn shared_headers(seed: u64) -> impl Iterator<Item = TextFile> {
    (0..SHARED_HEADERS).map(move |number| {
        let name = shared_name(number);
        let folder = if number < FIRST_SYSTEM_HEADER {
            ""
        } else {
            "system/"
        };
        let text = header(&name, shared_value(seed, number));
        (format!("include/{folder}{name}"), text)
    })
}

fn shared_name(number: usize) -> String {
    format!("shared{number:02}.h")
}

fn shared_value(seed: u64, number: usize) -> u32 {
    generator(seed ^ number as u64, 0).random()
}

fn macro_of(header: &str) -> String {
    header.trim_end_matches(".h").to_uppercase()
}

/// Returns a header as long as a typical library header. It contains one macro that the program uses, and
/// declarations that it does not use.
fn header(name: &str, value: u32) -> String {
    let own = macro_of(name);
    let mut text = format!("#ifndef {own}_H\n#define {own}_H\n\n#define {own} {value}u\n\n");
    for number in 0..12 + value % 60 {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "extern int {}_{number}(const char *name, unsigned size);",
            own.to_lowercase()
        );
    }
    text.push_str("\n#endif\n");
    text
}
