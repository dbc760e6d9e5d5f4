//! The order of the rows of a table.

use super::glyphs::Glyphs;
use std::cmp::Ordering;

/// The column by which a table is sorted. The largest value is first, unless the order is reversed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sort {
    pub column: usize,
    pub is_reversed: bool,
}

impl Sort {
    pub(super) const fn new(column: usize) -> Self {
        Self {
            column,
            is_reversed: false,
        }
    }

    /// Chooses the column that is `step` columns to the right. The first of `columns` follows the last.
    pub(super) fn choose_next(&mut self, step: usize, columns: usize) {
        self.column = (self.column + step) % columns.max(1);
    }

    /// Returns the mark of a column, if the table is sorted by it.
    pub(super) fn mark(self, column: usize, glyphs: &Glyphs) -> Option<char> {
        (column == self.column).then_some(if self.is_reversed {
            glyphs.ascending
        } else {
            glyphs.descending
        })
    }

    /// Sorts rows by the value that `value` returns for a row and the column. Rows with equal values keep their
    /// order.
    pub(super) fn apply<T>(self, rows: &mut [T], value: impl Fn(&T, usize) -> Value) {
        rows.sort_by(|a, b| {
            let order = value(b, self.column).cmp(&value(a, self.column));
            if self.is_reversed {
                order.reverse()
            } else {
                order
            }
        });
    }
}

/// A value by which rows are sorted.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// A figure. Unknown figures are smaller than all others.
    Figure(Option<f64>),
    /// A text. Texts are sorted from A to Z, because this is the usual order of names.
    Text(String),
}

impl Value {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Figure(Some(a)), Self::Figure(Some(b))) => a.total_cmp(b),
            (Self::Figure(a), Self::Figure(b)) => a.is_some().cmp(&b.is_some()),
            (Self::Text(a), Self::Text(b)) => b.cmp(a),
            (Self::Figure(_), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Figure(_)) => Ordering::Greater,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Row = (&'static str, Option<f64>);

    fn sorted(sort: Sort) -> Vec<&'static str> {
        let mut rows: [Row; 4] = [
            ("cat", Some(2.0)),
            ("tar", None),
            ("du", Some(10.0)),
            ("awk", Some(2.0)),
        ];
        sort.apply(&mut rows, |row, column| match column {
            0 => Value::Text(row.0.to_owned()),
            _ => Value::Figure(row.1),
        });
        rows.map(|row| row.0).to_vec()
    }

    #[test]
    fn largest_figure_and_first_name_lead() {
        assert_eq!(sorted(Sort::new(1)), ["du", "cat", "awk", "tar"]);
        assert_eq!(sorted(Sort::new(0)), ["awk", "cat", "du", "tar"]);
        let reversed = |column| Sort {
            column,
            is_reversed: true,
        };
        assert_eq!(sorted(reversed(1)), ["tar", "cat", "awk", "du"]);
        assert_eq!(sorted(reversed(0)), ["tar", "du", "cat", "awk"]);
    }

    #[test]
    fn next_column_follows_and_wraps() {
        let mut sort = Sort::new(0);
        sort.choose_next(1, 3);
        assert_eq!(sort.column, 1);
        sort.choose_next(2, 3);
        assert_eq!(sort.column, 0);
        sort.choose_next(1, 0);
        assert_eq!(sort.column, 0);
    }
}
