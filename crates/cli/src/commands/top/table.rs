//! Draws tables whose columns adapt to the width.

use super::palette::{Look, Meaning};
use super::sort::Sort;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub title: &'static str,
    /// The number of characters of a cell; for the column that grows, the minimum.
    pub width: u16,
    pub kind: Kind,
    /// If the table is too wide, the columns with the highest rank are omitted first. Columns of rank 0 always stay.
    pub rank: u8,
}

/// How the cells of a column are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// At the left edge.
    Text,
    /// At the right edge.
    Number,
    /// At the left edge. The column takes the width that the others leave. A text that is too long loses its start,
    /// because the end of a path is its most important part.
    Path,
    /// At the left edge. The column takes the width that the others leave, for example for a graph. The end of a text
    /// that is too long is cut off.
    Rest,
}

impl Column {
    pub(super) const fn text(title: &'static str, width: u16) -> Self {
        Self::of(title, width, Kind::Text)
    }

    pub(super) const fn number(title: &'static str, width: u16) -> Self {
        Self::of(title, width, Kind::Number)
    }

    pub(super) const fn path(title: &'static str, width: u16) -> Self {
        Self::of(title, width, Kind::Path)
    }

    pub(super) const fn rest(title: &'static str, width: u16) -> Self {
        Self::of(title, width, Kind::Rest)
    }

    pub(super) const fn rank(self, rank: u8) -> Self {
        Self { rank, ..self }
    }

    const fn of(title: &'static str, width: u16, kind: Kind) -> Self {
        Self {
            title,
            width,
            kind,
            rank: 0,
        }
    }

    const fn grows(&self) -> bool {
        matches!(self.kind, Kind::Path | Kind::Rest)
    }
}

/// A cell of a table.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub text: String,
    pub style: Style,
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self {
            text,
            style: Style::new(),
        }
    }
}

/// The place of a column on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// The index of the column.
    column: usize,
    x: u16,
    width: u16,
}

/// Returns the width of the column that grows, in a table of `width` columns; 0 if no column grows, or if it is
/// omitted.
pub(super) fn rest_width(columns: &[Column], width: u16) -> u16 {
    let places = places(columns, width);
    let grows = |place: &&Place| columns[place.column].grows();
    places.iter().find(grows).map_or(0, |place| place.width)
}

/// Draws the head and the rows of a table, as many as fit. `sort` marks the column by which the rows are sorted.
pub(super) fn draw(
    look: Look,
    columns: &[Column],
    sort: Option<Sort>,
    rows: impl IntoIterator<Item = Vec<Cell>>,
    area: Rect,
    buffer: &mut Buffer,
) {
    let places = places(columns, area.width);
    let mut lines = area.rows();
    let Some(head) = lines.next() else { return };
    for place in &places {
        let column = &columns[place.column];
        let mark = sort.and_then(|sort| sort.mark(place.column, look.glyphs));
        let title = mark.map_or_else(
            || column.title.to_owned(),
            |it| format!("{it}{}", column.title),
        );
        let style = look.style(Meaning::Heading);
        let cell = Cell { text: title, style };
        put(look, cell, *column, *place, head, buffer);
    }
    for (row, line) in rows.into_iter().zip(lines) {
        let cells: Vec<Cell> = row;
        for place in &places {
            if let Some(cell) = cells.get(place.column) {
                put(
                    look,
                    cell.clone(),
                    columns[place.column],
                    *place,
                    line,
                    buffer,
                );
            }
        }
    }
}

/// The width of the mark of a row, and the blank after it.
const MARK_COLUMNS: u16 = 2;

/// Returns the area of a table without the mark of its rows.
pub(super) fn without_mark(area: Rect) -> Rect {
    let columns = MARK_COLUMNS.min(area.width);
    Rect {
        x: area.x + columns,
        width: area.width - columns,
        ..area
    }
}

/// Draws a table in which one row has the mark `>`. If the marked row would not fit, the first rows are omitted.
pub(super) fn draw_marked(
    look: Look,
    columns: &[Column],
    sort: Option<Sort>,
    rows: Vec<Vec<Cell>>,
    marked: usize,
    area: Rect,
    buffer: &mut Buffer,
) {
    let visible = usize::from(area.height).saturating_sub(1);
    if visible == 0 {
        return;
    }
    let skipped = (marked + 1).saturating_sub(visible);
    let rows = rows.into_iter().skip(skipped);
    draw(look, columns, sort, rows, without_mark(area), buffer);
    if let Some(row) = area.rows().nth(1 + marked - skipped) {
        buffer.set_stringn(row.x, row.y, ">", row.width.into(), Style::new());
        buffer.set_style(row, Style::new().add_modifier(Modifier::BOLD));
    }
}

fn put(look: Look, cell: Cell, column: Column, place: Place, line: Rect, buffer: &mut Buffer) {
    let text = match column.kind {
        Kind::Path => end_of(&cell.text, place.width, look.glyphs.cut),
        _ => start_of(cell.text, place.width, look.glyphs.cut),
    };
    let free = usize::from(place.width).saturating_sub(width_of(&text));
    let indent = if column.kind == Kind::Number { free } else { 0 };
    #[expect(clippy::cast_possible_truncation, reason = "less than the width")]
    let x = line.x + place.x + indent as u16;
    buffer.set_stringn(x, line.y, text, usize::from(place.width), cell.style);
}

/// Chooses the columns that fit into `width`, with one blank column between them.
fn places(columns: &[Column], width: u16) -> Vec<Place> {
    let mut chosen: Vec<usize> = (0..columns.len()).collect();
    let needed = |chosen: &[usize]| {
        let cells: u16 = chosen.iter().map(|at| columns[*at].width + 1).sum();
        cells.saturating_sub(1)
    };
    while needed(&chosen) > width {
        let rank = chosen.iter().map(|at| columns[*at].rank).max();
        match rank {
            Some(rank) if rank > 0 => {
                let last = chosen.iter().rposition(|at| columns[*at].rank == rank);
                chosen.remove(last.unwrap_or(0));
            }
            _ => break,
        }
    }
    let mut free = width.saturating_sub(needed(&chosen));
    let mut x = 0;
    let mut places = Vec::new();
    for column in chosen {
        let grown = if columns[column].grows() {
            std::mem::take(&mut free)
        } else {
            0
        };
        let most = width.saturating_sub(x);
        let width = (columns[column].width + grown).min(most);
        places.push(Place { column, x, width });
        x += width + 1;
    }
    places
}

/// Returns the width of `text` on the screen. A character can take 0, 1 or 2 columns.
fn width_of(text: &str) -> usize {
    Line::raw(text).width()
}

/// Returns `text`, or its start and the mark `cut` if it is wider than `width`.
pub(super) fn start_of(text: String, width: u16, cut: char) -> String {
    if width_of(&text) <= usize::from(width) {
        return text;
    }
    let mut start: String = narrower(symbols(&Span::raw(&*text)), width).collect();
    start.push(cut);
    start
}

/// Returns `text`, or the mark `cut` and the end of `text` if it is wider than `width`.
pub(super) fn end_of(text: &str, width: u16, cut: char) -> String {
    if width_of(text) <= usize::from(width) {
        return text.to_owned();
    }
    let span = Span::raw(text);
    let symbols: Vec<_> = symbols(&span).collect();
    let mut end: Vec<_> = narrower(symbols.into_iter().rev(), width).collect();
    end.reverse();
    format!("{cut}{}", end.concat())
}

/// Returns the characters of a text. One can consist of several code points.
fn symbols<'t>(text: &'t Span<'t>) -> impl Iterator<Item = &'t str> {
    text.styled_graphemes(Style::new()).map(|one| one.symbol)
}

/// Returns the longest beginning of `symbols` that is narrower than `width`.
fn narrower<'t>(
    symbols: impl Iterator<Item = &'t str>,
    width: u16,
) -> impl Iterator<Item = &'t str> {
    let mut taken = 0;
    symbols.take_while(move |symbol| {
        taken += width_of(symbol);
        taken < usize::from(width)
    })
}

#[cfg(test)]
mod tests {
    use super::super::glyphs::Glyphs;
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::path("path", 8),
        Column::number("reads/s", 8),
        Column::number("size", 6).rank(1),
        Column::text("by", 4).rank(2),
    ];

    fn drawn(width: u16, sort: Option<Sort>) -> Vec<String> {
        let look = Look {
            has_colours: false,
            glyphs: Glyphs::BLOCKS,
        };
        let area = Rect::new(0, 0, width, 3);
        let mut buffer = Buffer::empty(area);
        let row = |cells: [&str; 4]| cells.map(|text| Cell::from(text.to_owned())).to_vec();
        let rows = [
            row(["/a/b/long-name", "12", "3.0k", "tar"]),
            row(["/日本語/日本語", "1", "2", "postgres"]),
        ];
        draw(look, &COLUMNS, sort, rows, area, &mut buffer);
        super::super::text::lines(&buffer)
    }

    #[test]
    fn columns_of_high_rank_are_omitted_first() {
        assert_eq!(
            drawn(31, None),
            [
                "path        reads/s   size by",
                "…long-name       12   3.0k tar",
                "…語/日本語        1      2 pos…",
            ]
        );
        assert_eq!(drawn(25, None)[0], "path       reads/s   size");
        assert_eq!(drawn(19, None)[0], "path        reads/s");
        assert_eq!(drawn(0, None), Vec::<String>::new());
    }

    #[test]
    fn sorted_column_is_marked() {
        let mut sort = Sort::new(1);
        assert_eq!(drawn(19, Some(sort))[0], "path       ▼reads/s");
        sort.is_reversed = true;
        assert_eq!(drawn(31, Some(sort))[0], "path       ▲reads/s   size by");
    }

    #[test]
    fn long_texts_are_cut_in_linear_time() {
        // With a quadratic search, this would take hours.
        let long = format!("{}/end", "\u{e9}\u{301}\u{65e5}".repeat(1_000_000));
        assert_eq!(
            end_of(&long, 8, '>'),
            "> \u{65e5}/end".replace(' ', "\u{e9}\u{301}")[..]
        );
        assert_eq!(
            start_of(long, 5, '>'),
            "\u{e9}\u{301}\u{65e5}\u{e9}\u{301}>"
        );
    }

    #[test]
    fn rest_width_is_that_of_the_growing_column() {
        assert_eq!(rest_width(&COLUMNS, 31), 10);
        assert_eq!(rest_width(&COLUMNS[1..], 31), 0);
    }
}
