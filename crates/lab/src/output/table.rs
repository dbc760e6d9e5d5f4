//! A table of text cells, written aligned for a terminal or as Markdown.

use std::fmt::Write as _;

/// On which side a column's cells stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// A table: titled columns, and rows of as many cells.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these columns.
    #[must_use]
    pub fn new<T: Into<String>>(columns: impl IntoIterator<Item = (T, Align)>) -> Self {
        Self {
            columns: columns
                .into_iter()
                .map(|(title, align)| (title.into(), align))
                .collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// Where there are not as many cells as columns.
    pub fn push(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "one cell a column");
        self.rows.push(cells);
    }

    /// The table for a terminal: columns two blanks apart, no blanks at the ends of lines.
    #[must_use]
    pub fn to_text(&self) -> String {
        let widths = self.widths();
        let mut text = String::new();
        let titles: Vec<&str> = self.columns.iter().map(|(title, _)| &**title).collect();
        self.text_line(&mut text, &titles, &widths);
        for row in &self.rows {
            let cells: Vec<&str> = row.iter().map(String::as_str).collect();
            self.text_line(&mut text, &cells, &widths);
        }
        text
    }

    /// The table as Markdown, padded so that its source reads as a table too.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let widths = self.widths();
        let mut text = String::new();
        let titles: Vec<String> = self.columns.iter().map(|(t, _)| t.clone()).collect();
        self.markdown_line(&mut text, &titles, &widths);
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

    fn widths(&self) -> Vec<usize> {
        let titles = self.columns.iter().map(|(title, _)| shown(title));
        titles
            .enumerate()
            .map(|(column, title)| {
                let cells = self.rows.iter().map(|row| shown(&row[column]));
                cells.fold(title, usize::max)
            })
            .collect()
    }

    fn text_line(&self, text: &mut String, cells: &[&str], widths: &[usize]) {
        let mut line = String::new();
        for (at, (cell, width)) in cells.iter().zip(widths).enumerate() {
            let gap = if at == 0 { "" } else { "  " };
            line.push_str(gap);
            pad(&mut line, cell, *width, self.columns[at].1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }

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

fn pad(text: &mut String, cell: &str, width: usize, align: Align) {
    // Writing to a string does not fail.
    let _ = match align {
        Align::Left => write!(text, "{cell:<width$}"),
        Align::Right => write!(text, "{cell:>width$}"),
    };
}

/// A bar would end a Markdown cell.
fn escaped(cell: &str) -> String {
    cell.replace('|', "\\|")
}

fn shown(cell: &str) -> usize {
    escaped(cell).chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new([("policy", Align::Left), ("MB/s", Align::Right)]);
        table.push(vec!["off".into(), "9.1".into()]);
        table.push(vec!["ondemand".into(), "1234.5".into()]);
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
    fn markdown_of_a_table_is_aligned_and_says_which_side() {
        assert_eq!(
            table().to_markdown(),
            "| policy   |   MB/s |\n\
             |----------|-------:|\n\
             | off      |    9.1 |\n\
             | ondemand | 1234.5 |\n"
        );
    }

    #[test]
    fn markdown_of_a_cell_with_a_bar_stays_one_cell() {
        let mut table = Table::new([("a", Align::Left)]);
        table.push(vec!["x|y".into()]);
        assert!(table.to_markdown().contains("| x\\|y |"));
    }
}
