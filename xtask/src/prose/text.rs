//! The pieces of text that are checked.

/// A piece of text to check: a paragraph, a comment, a string or a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The line of its first character, starting at 1.
    pub line: usize,
    pub kind: Kind,
    pub content: String,
}

/// The kind of a text, which decides the rules that apply to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Running text: Markdown, comments and documentation.
    Prose,
    /// A string literal, which a user may see.
    Literal,
    /// The name of an item, field or variable.
    Name,
}
