//! The panes of a page: a title with a rule, and lines of figures.

use super::palette::{Look, Meaning};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;

/// The width from which a page has panes beside each other that are below each other on a narrow screen.
pub(super) const WIDE: u16 = 110;
/// The number of blank columns between two panes.
const GUTTER: u16 = 2;

/// Draws the title of a pane and a rule, with a note at the right edge if it fits. Returns the area below.
pub(super) fn titled(look: Look, title: &str, note: &str, area: Rect, buffer: &mut Buffer) -> Rect {
    if area.is_empty() {
        return area;
    }
    let heading = look.style(Meaning::Heading);
    let quiet = look.style(Meaning::Quiet);
    let width = usize::from(area.width);
    // The rule starts after the title, because a style of a cell also keeps the modifiers of the style before it.
    let (x, _) = buffer.set_stringn(area.x, area.y, format!("{title} "), width, heading);
    let rest = usize::from(area.right().saturating_sub(x));
    if rest > 0 {
        let rule = String::from(look.glyphs.rule).repeat(rest);
        buffer.set_stringn(x, area.y, rule, rest, quiet);
    }
    let note_width = Line::raw(note).width();
    if !note.is_empty() && title.len() + note_width + 5 <= width {
        #[expect(clippy::cast_possible_truncation, reason = "less than the width")]
        let x = area.right() - note_width as u16 - 1;
        buffer.set_stringn(x, area.y, format!(" {note}"), width, quiet);
    }
    below(area, 1)
}

/// Returns `area` without its first `rows`.
pub(super) fn below(area: Rect, rows: u16) -> Rect {
    let rows = rows.min(area.height);
    Rect {
        y: area.y + rows,
        height: area.height - rows,
        ..area
    }
}

/// Divides an area into columns with a gutter between them.
pub(super) fn beside<const N: usize>(area: Rect, columns: [Constraint; N]) -> [Rect; N] {
    Layout::horizontal(columns).spacing(GUTTER).areas(area)
}

/// Divides an area into rows.
pub(super) fn stacked<const N: usize>(area: Rect, rows: [Constraint; N]) -> [Rect; N] {
    Layout::vertical(rows).areas(area)
}

/// Draws as many of the lines as fit.
pub(super) fn lines<'a>(
    lines: impl IntoIterator<Item = Line<'a>>,
    area: Rect,
    buffer: &mut Buffer,
) {
    for (line, row) in lines.into_iter().zip(area.rows()) {
        buffer.set_line(row.x, row.y, &line, row.width);
    }
}
