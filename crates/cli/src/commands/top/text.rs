//! Prints pages of `larder top` as text.

use super::change::Change;
use super::history::History;
use super::pages;
use super::palette::Look;
use super::scene::Scene;
use super::screen::{self, SMALLEST};
use super::state::State;
use crate::args::TopArgs;
use crate::args::top::Page;
use larder_console::Result;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Span;
use std::io::{self, Write};

/// The rows of a page with a list, in addition to those of the list.
const OTHER_ROWS: usize = 14;

/// Prints the page that the user has chosen. Without a choice, prints the overview and the chosen cache.
pub(super) fn print(
    args: &TopArgs,
    state: &State,
    change: &Change<'_>,
    history: &History,
    is_next: bool,
) -> Result<()> {
    let is_summary = args.page.is_none();
    let state = State {
        page: if is_summary {
            Page::Overview
        } else {
            state.page
        },
        ..state.clone()
    };
    let scene = Scene {
        mountpoint: &args.mountpoint,
        state: &state,
        change,
        history,
        notice: None,
        has_keys: false,
        look: Look {
            has_colours: false,
            ..Look::of_environment()
        },
    };
    let mut out = io::stdout().lock();
    if is_next {
        writeln!(out)?;
    }
    let listed = pages::extent(scene.stats(), state.page).rows;
    let rows = SMALLEST
        .height
        .max(u16::try_from(listed + OTHER_ROWS).unwrap_or(u16::MAX));
    write(&mut out, rows, |area, buffer| {
        screen::draw(&scene, area, buffer);
    })?;
    if is_summary {
        let rows = SMALLEST.height;
        write(&mut out, rows, |area, buffer| {
            pages::cache::draw_details(&scene, area, buffer);
        })?;
    }
    Ok(out.flush()?)
}

fn write(out: &mut impl Write, rows: u16, draw: impl Fn(Rect, &mut Buffer)) -> io::Result<()> {
    let area = Rect::new(0, 0, SMALLEST.width, rows);
    let mut buffer = Buffer::empty(area);
    draw(area, &mut buffer);
    for row in lines(&buffer) {
        writeln!(out, "{row}")?;
    }
    Ok(())
}

/// Returns each row of `buffer` as text, without trailing blanks. A character that takes two columns is followed by a
/// cell without a character of its own.
pub(super) fn lines(buffer: &Buffer) -> Vec<String> {
    let row = |y| {
        let mut text = String::new();
        let mut covered = 0;
        for column in buffer.area.columns() {
            let symbol = buffer[(column.x, y)].symbol();
            if covered == 0 {
                text.push_str(symbol);
                covered = Span::raw(symbol).width().saturating_sub(1);
            } else {
                covered -= 1;
            }
        }
        text.trim_end().to_owned()
    };
    let mut rows: Vec<String> = buffer.area.rows().map(|area| row(area.y)).collect();
    while rows.pop_if(|row| row.is_empty()).is_some() {}
    rows
}
