//! A table of text cells, formatted for a terminal or as Markdown.

use std::fmt::Write as _;

/// Alignment of the cells of a column. Numbers are aligned to the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

/// A table whose columns have titles, and whose rows have one cell for each column.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates an empty table. `head` contains the titles, separated by bars. A colon after a title
    /// marks a column of numbers, as in Markdown: `policy | MiB/s: | hit rate:`.
    #[must_use]
    pub fn new(head: &str) -> Self {
        let columns = head.split('|').map(|title| {
            let title = title.trim();
            match title.strip_suffix(':') {
                Some(title) => (title.to_owned(), Align::Right),
                None => (title.to_owned(), Align::Left),
            }
        });
        Self {
            columns: columns.collect(),
            rows: Vec::new(),
        }
    }

    /// Appends a column of numbers for each of `titles`.
    pub(crate) fn with_numbers<T: ToString>(mut self, titles: impl IntoIterator<Item = T>) -> Self {
        let titles = titles.into_iter();
        self.columns
            .extend(titles.map(|title| (title.to_string(), Align::Right)));
        self
    }

    /// Adds a row.
    ///
    /// # Panics
    /// Panics if the number of cells differs from the number of columns.
    pub fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        assert_eq!(
            cells.len(),
            self.columns.len(),
            "a row must have one cell for each column"
        );
        self.rows.push(cells);
    }

    /// Formats the table for a terminal: columns are two blanks apart, and lines have no trailing
    /// blanks.
    #[must_use]
    pub fn to_text(&self) -> String {
        let widths = self.widths();
        let mut text = String::new();
        self.text_line(&mut text, &self.titles(), &widths);
        for row in &self.rows {
            self.text_line(&mut text, row, &widths);
        }
        text
    }

    /// Formats the table as Markdown, with cells padded for reading as plain text.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let widths = self.widths();
        let mut text = String::new();
        self.markdown_line(&mut text, &self.titles(), &widths);
        text.push('|');
        for ((_, align), width) in self.columns.iter().zip(&widths) {
            let (dashes, colon) = match align {
                Align::Left => (width + 2, ""),
                Align::Right => (width + 1, ":"),
            };
            text.extend([&*"-".repeat(dashes), colon, "|"]);
        }
        text.push('\n');
        for row in &self.rows {
            self.markdown_line(&mut text, row, &widths);
        }
        text
    }

    /// Returns the titles of the columns.
    fn titles(&self) -> Vec<String> {
        self.columns
            .iter()
            .map(|(title, _)| title.clone())
            .collect()
    }

    /// Returns the width of each column: that of its widest cell or title.
    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.titles().iter().map(|title| width(title)).collect();
        for row in &self.rows {
            for (column_width, cell) in widths.iter_mut().zip(row) {
                *column_width = width(cell).max(*column_width);
            }
        }
        widths
    }

    /// Appends a line for a terminal to `text`.
    fn text_line(&self, text: &mut String, cells: &[String], widths: &[usize]) {
        let mut line = String::new();
        for (at, (cell, width)) in cells.iter().zip(widths).enumerate() {
            let gap = if at == 0 { "" } else { "  " };
            line.push_str(gap);
            pad(&mut line, cell, *width, self.columns[at].1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }

    /// Appends a line of Markdown to `text`.
    fn markdown_line(&self, text: &mut String, cells: &[String], widths: &[usize]) {
        text.push('|');
        for (at, (cell, width)) in cells.iter().zip(widths).enumerate() {
            text.push(' ');
            pad(text, &escaped(cell), *width, self.columns[at].1);
            text.push_str(" |");
        }
        text.push('\n');
    }
}

/// Appends `cell` to `text`, padded to `width` characters.
fn pad(text: &mut String, cell: &str, width: usize, align: Align) {
    // Writing to a string does not fail.
    let _ = match align {
        Align::Left => write!(text, "{cell:<width$}"),
        Align::Right => write!(text, "{cell:>width$}"),
    };
}

/// Escapes bars, which would end a Markdown cell.
fn escaped(cell: &str) -> String {
    cell.replace('|', "\\|")
}

/// Returns the number of characters that a cell takes in Markdown.
fn width(cell: &str) -> usize {
    escaped(cell).chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("policy | MB/s:");
        table.push(["off".into(), "9.1".into()]);
        table.push(["ondemand".into(), "1234.5".into()]);
        table
    }

    #[test]
    fn text_of_a_table_is_aligned() {
        assert_eq!(
            table().to_text(),
            "policy      MB/s\n\
             off          9.1\n\
             ondemand  1234.5\n"
        );
    }

    #[test]
    fn markdown_of_a_table_is_aligned_with_alignment_markers() {
        assert_eq!(
            table().to_markdown(),
            "| policy   |   MB/s |\n\
             |----------|-------:|\n\
             | off      |    9.1 |\n\
             | ondemand | 1234.5 |\n"
        );
    }

    #[test]
    fn markdown_escapes_a_bar_in_a_cell() {
        let mut table = Table::new("a");
        table.push(["x|y".into()]);
        assert!(table.to_markdown().contains("| x\\|y |"));
    }
}
