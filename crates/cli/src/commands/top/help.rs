//! The help of `larder top`: the keys, and the meaning of figures and marks.

use super::palette::{Look, Meaning};
use super::pane::{beside, lines, stacked, titled};
use ratatui::buffer::Buffer;
use ratatui::layout::Constraint::{Fill, Length};
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

/// The width of a column of the help.
pub(super) const COLUMNS: u16 = 80;
/// The width of the keys and terms.
const TERM_COLUMNS: usize = 15;

/// The rows of the keys and their title.
const KEY_ROWS: u16 = 9;

type Entry = (&'static str, &'static str);

const KEYS: [Entry; 8] = [
    (
        "1 to 9, 0",
        "show a page (left: previous; right or Tab: next)",
    ),
    (
        "up, down",
        "choose a cache or a row; also Page Up, Page Down, Home, End",
    ),
    (
        "Enter",
        "on the overview: show the page of the marked cache",
    ),
    (
        "s, S, i",
        "sort by the next column, by the previous one; invert the order",
    ),
    ("p, Space", "pause, and continue"),
    ("+, -", "longer and shorter interval"),
    ("r", "clear the graphs"),
    ("q, Ctrl-C", "quit; ? and Esc close this help"),
];

const FIGURES: [Entry; 11] = [
    (
        "colours",
        "green: good; yellow and !: look at it; red and !!: a problem",
    ),
    (
        "graphs",
        "one column for each refresh, the newest at the right edge",
    ),
    (
        "hits now",
        "share of lookups that hit; judged only if the cache is full",
    ),
    (
        "links/hit",
        "chain entries or tree nodes visited: at least 1.00 for each hit",
    ),
    (
        "longest",
        "longest chain or deepest tree; can be some refreshes old",
    ),
    (
        "chains",
        "# buckets with a chain of that length, | if random (Poisson)",
    ),
    (
        "",
        ": fills the space up to | if the random number is larger",
    ),
    (
        "p50, p99",
        "half, and 99%, of the requests took at most this time",
    ),
    (
        "waiting",
        "requests or changes without an answer yet; -: not known",
    ),
    (
        "wasted",
        "pages read ahead that were evicted before they were used",
    ),
    (
        "files",
        "and processes: estimates; moving averages of the last seconds",
    ),
];

/// Draws the help. On a wide screen, its parts are beside each other.
pub(super) fn draw(look: Look, area: Rect, buffer: &mut Buffer) {
    let [keys, figures] = if area.width > 2 * COLUMNS {
        beside(area, [Length(COLUMNS), Fill(1)])
    } else {
        stacked(area, [Length(KEY_ROWS), Fill(1)])
    };
    draw_part(look, "Keys", &KEYS, keys, buffer);
    draw_part(look, "Figures", &FIGURES, figures, buffer);
}

fn draw_part(look: Look, title: &str, entries: &[Entry], area: Rect, buffer: &mut Buffer) {
    let area = titled(look, title, "", area, buffer);
    let line = |(term, text): &Entry| {
        let term = Span::styled(format!("{term:TERM_COLUMNS$}"), look.style(Meaning::Key));
        Line::from(vec![term, Span::raw(*text)])
    };
    lines(entries.iter().map(line), area, buffer);
}

#[cfg(test)]
mod tests {
    use super::super::screen::SMALLEST;
    use super::*;

    #[test]
    fn help_fits_the_smallest_screen() {
        for (_, text) in KEYS.iter().chain(&FIGURES) {
            assert!(TERM_COLUMNS + text.len() <= COLUMNS.into(), "{text}");
        }
        // The title, the tabs and the keys of the screen, and the titles of the parts.
        let rows = 3 + 2 + KEYS.len() + FIGURES.len();
        assert!(rows <= SMALLEST.height.into());
    }
}
