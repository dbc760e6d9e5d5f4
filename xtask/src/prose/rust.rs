//! The texts of a Rust source: comments, documentation, string literals and names.
//!
//! The compiler's tokens do not include comments, so a comment is any text between two tokens that
//! is not white space. A documentation comment is a token: the attribute that it is equivalent to.

use super::markdown;
use super::text::{Kind, Text};
use proc_macro2::{Delimiter, Group, LexError, Literal, Span, TokenStream, TokenTree};
use std::ops::Range;
use syn::Lit;

/// The keywords that precede the name in a definition.
const DEFINING: [&str; 11] = [
    "fn", "struct", "enum", "trait", "type", "mod", "const", "static", "let", "union", "for",
];

/// Returns the texts of `source`.
///
/// # Errors
/// `source` cannot be divided into tokens.
pub fn texts(source: &str) -> Result<Vec<Text>, LexError> {
    let mut reader = Reader::default();
    reader.read(source.parse()?, false);
    reader.comments(source);
    let mut texts = joined(reader.comment_lines);
    texts.append(&mut reader.texts);
    texts.sort_by_key(|text| text.line);
    Ok(texts)
}

#[derive(Default)]
struct Reader {
    /// The byte ranges of the tokens, in order.
    tokens: Vec<Range<usize>>,
    /// Lines of comments and of documentation: their numbers and contents.
    comment_lines: Vec<(usize, String)>,
    texts: Vec<Text>,
}

impl Reader {
    /// Reads the tokens of `stream`, which contains the variants of an enumeration if `has_variants` is true.
    fn read(&mut self, stream: TokenStream, has_variants: bool) {
        let mut tokens = stream.into_iter().peekable();
        let mut defines = has_variants;
        // An `enum` whose variants have not been read yet.
        let mut is_enum = false;
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    self.covers(punct.span());
                    if let Some(TokenTree::Punct(bang)) = tokens.peek()
                        && bang.as_char() == '!'
                    {
                        self.covers(bang.span());
                        tokens.next();
                    }
                    if let Some(TokenTree::Group(group)) = tokens.peek()
                        && let Some(line) = documentation(&group.stream())
                    {
                        self.covers(group.span());
                        let first = group.span().start().line;
                        let lines = (first..).zip(line.lines().map(str::to_owned));
                        self.comment_lines.extend(lines);
                        tokens.next();
                    } else if let Some(TokenTree::Group(group)) = tokens.peek() {
                        let group = group.clone();
                        self.group(&group, false);
                        tokens.next();
                    }
                    defines = has_variants;
                }
                TokenTree::Punct(punct) => {
                    self.covers(punct.span());
                    defines = has_variants && punct.as_char() == ',';
                    is_enum &= punct.as_char() != ';';
                }
                TokenTree::Ident(ident) => {
                    self.covers(ident.span());
                    let name = ident.to_string();
                    // A field or an argument is followed by a colon that is not part of a path.
                    let typed = matches!(tokens.peek(), Some(TokenTree::Punct(colon))
                        if colon.as_char() == ':' && colon.spacing() == proc_macro2::Spacing::Alone);
                    if (defines && name != "mut") || typed {
                        self.texts.push(Text {
                            line: ident.span().start().line,
                            kind: Kind::Name,
                            content: name.clone(),
                        });
                    }
                    defines = DEFINING.contains(&name.as_str()) || (defines && name == "mut");
                    is_enum |= name == "enum";
                }
                TokenTree::Literal(literal) => {
                    self.covers(literal.span());
                    self.literal(&literal);
                    defines = false;
                }
                TokenTree::Group(group) => {
                    let is_brace = group.delimiter() == Delimiter::Brace;
                    self.group(&group, is_enum && is_brace);
                    is_enum &= !is_brace;
                    defines = false;
                }
            }
        }
    }

    fn group(&mut self, group: &Group, has_variants: bool) {
        if group.delimiter() != Delimiter::None {
            self.covers(group.span_open());
        }
        self.read(group.stream(), has_variants);
        if group.delimiter() != Delimiter::None {
            self.covers(group.span_close());
        }
    }

    fn covers(&mut self, span: Span) {
        self.tokens.push(span.byte_range());
    }

    fn literal(&mut self, literal: &Literal) {
        let content = match Lit::new(literal.clone()) {
            Lit::Str(text) => text.value(),
            Lit::ByteStr(text) => String::from_utf8_lossy(&text.value()).into_owned(),
            _ => return,
        };
        let line = literal.span().start().line;
        self.texts.push(Text {
            line,
            kind: Kind::Literal,
            content,
        });
    }

    /// Collects the comments of `source`: the text outside all tokens.
    fn comments(&mut self, source: &str) {
        let mut start = 0;
        let mut line = 1;
        let ends = self
            .tokens
            .iter()
            .cloned()
            .chain(std::iter::once(source.len()..source.len()));
        for token in ends.collect::<Vec<_>>() {
            let gap = source.get(start..token.start).unwrap_or_default();
            for (number, content) in (line..).zip(gap.split('\n')) {
                let content = content.trim();
                if let Some(comment) = content.strip_prefix("//") {
                    self.comment_lines.push((number, comment.to_owned()));
                }
            }
            let end = token.end.max(start);
            let passed = source.get(start..end).unwrap_or_default();
            line += passed.matches('\n').count();
            start = end;
        }
    }
}

/// Returns the text of a documentation comment if `attribute` is one.
fn documentation(attribute: &TokenStream) -> Option<String> {
    let mut tokens = attribute.clone().into_iter();
    match (tokens.next()?, tokens.next()?, tokens.next()?) {
        (TokenTree::Ident(name), TokenTree::Punct(_), TokenTree::Literal(text))
            if name == "doc" =>
        {
            match Lit::new(text) {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Returns the paragraphs of comments: consecutive lines are one text.
fn joined(mut lines: Vec<(usize, String)>) -> Vec<Text> {
    lines.sort_by_key(|(number, _)| *number);
    let mut blocks: Vec<(usize, String)> = Vec::new();
    let mut next = 0;
    for (number, content) in lines {
        match blocks.last_mut() {
            Some((_, block)) if number == next => {
                block.push('\n');
                block.push_str(&content);
            }
            _ => blocks.push((number, content)),
        }
        next = number + 1;
    }
    let texts = blocks.into_iter().flat_map(|(first, block)| {
        let texts = markdown::texts(&block).into_iter();
        texts.map(move |text| Text {
            line: first + text.line - 1,
            ..text
        })
    });
    texts.collect()
}
