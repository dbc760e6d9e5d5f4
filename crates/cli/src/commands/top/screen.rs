//! The screen of `larder top`: the title, the tabs, a notice, a page, and the line of keys.

use super::change::as_f64;
use super::format::{counted, short};
use super::help;
use super::pages;
use super::palette::{Level, Meaning};
use super::pane::{lines, stacked};
use super::scene::Scene;
use crate::args::top::Page;
use larder::RecordingStats;
use larder_console::name;
use ratatui::buffer::Buffer;
use ratatui::layout::Constraint::{Fill, Length};
use ratatui::layout::{Rect, Size};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Widget, Wrap};
use std::os::unix::ffi::OsStrExt;

/// The smallest terminal, in columns and rows, into which the screen fits.
pub(super) const SMALLEST: Size = Size::new(80, 24);
/// The width from which there are blanks within and between the tabs.
const WIDE_TABS: u16 = 110;

/// Draws the screen.
pub(super) fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    if area.width < SMALLEST.width || area.height < SMALLEST.height {
        return draw_too_small(area, buffer);
    }
    let notice = notice(scene);
    let notice_rows = u16::from(notice.is_some());
    let key_rows = u16::from(scene.has_keys);
    let rows = [
        Length(1),
        Length(key_rows),
        Length(notice_rows),
        Fill(1),
        Length(key_rows),
    ];
    let [title, tabs, problem, page, keys] = stacked(area, rows);
    draw_title(scene, title, buffer);
    lines(notice, problem, buffer);
    if scene.has_keys {
        draw_tabs(scene, tabs, buffer);
        lines([keys_line(scene)], keys, buffer);
    }
    if scene.state.shows_help {
        help::draw(scene.look, page, buffer);
    } else {
        pages::draw(scene, scene.state.page, page, buffer);
    }
}

fn draw_too_small(area: Rect, buffer: &mut Buffer) {
    let Size {
        width: columns,
        height: rows,
    } = SMALLEST;
    let Rect { width, height, .. } = area;
    let text = format!(
        "larder top needs {columns} columns and {rows} rows; the terminal has {width} and {height}. Enlarge it, or \
         press q and use --once."
    );
    Paragraph::new(text)
        .wrap(Wrap { trim: true })
        .render(area, buffer);
}

fn draw_title(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let mountpoint = name::escaped(scene.mountpoint.as_os_str().as_bytes());
    let title = Line::styled(
        format!("larder top  {mountpoint}"),
        Style::new().add_modifier(Modifier::BOLD),
    );
    (&title).render(area, buffer);
    let tables = scene.stats().tables.to_string();
    let base = tables.split('+').next().unwrap_or_default();
    let state = scene.state;
    let (interval, style) = if state.is_paused {
        (
            "PAUSED".to_owned(),
            scene.look.style(Meaning::Judged(Level::Fair)),
        )
    } else {
        (
            format!("every {} s", state.interval.as_secs_f64()),
            Style::new(),
        )
    };
    // The mount point is always shown, because it identifies this view. The tables and the interval are shown only if
    // they fit.
    let available = usize::from(area.width).saturating_sub(title.width() + 2);
    let texts = [
        format!("tables {tables}, "),
        format!("tables {base}+..., "),
        String::new(),
    ];
    let fits = |text: &String| text.len() + interval.len() <= available;
    if let Some(text) = texts.into_iter().find(fits) {
        Line::from(vec![Span::raw(text), Span::styled(interval, style)])
            .right_aligned()
            .render(area, buffer);
    }
}

fn draw_tabs(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let look = scene.look;
    let (within, between) = if area.width >= WIDE_TABS {
        (" ", "   ")
    } else {
        ("", " ")
    };
    let mut spans = Vec::new();
    for page in Page::ALL {
        let is_chosen = page == scene.state.page;
        let (key, name) = if is_chosen {
            (look.style(Meaning::Chosen), look.style(Meaning::Chosen))
        } else {
            (look.style(Meaning::Key), Style::new())
        };
        spans.extend([
            Span::styled(format!("{}{within}", page.key()), key),
            Span::styled(page.name(), name),
            Span::raw(between),
        ]);
    }
    lines([Line::from(spans)], area, buffer);
}

/// Returns the line that shows a problem of the query, the volume or the recording, or the progress of a recording.
fn notice(scene: &Scene<'_>) -> Option<Line<'static>> {
    let stats = scene.stats();
    let writing = stats.writing.as_ref();
    let read_only = writing.and_then(|writing| writing.read_only_because.as_deref());
    let recording = stats.recording.as_ref();
    let failure = recording.and_then(|recording| recording.failure.as_deref());
    let escaped = |why: &str| name::escaped(why.as_bytes());
    let text = match (scene.notice, read_only, failure) {
        (Some(notice), ..) => notice.to_owned(),
        (None, Some(why), _) => format!("turned read-only: {}", escaped(why)),
        (None, None, Some(why)) => format!("recording ended: {}", escaped(why)),
        (None, None, None) => return recording.map(|recording| Line::raw(progress(recording))),
    };
    let alarm = scene.look.style(Meaning::Judged(Level::Poor));
    Some(Line::styled(text, alarm))
}

/// Returns the progress of a recording. The name of its file is last, because a long name may be cut off.
fn progress(recording: &RecordingStats) -> String {
    format!(
        "recording {}, {} lost, to {}",
        counted(as_f64(recording.events), "event"),
        short(as_f64(recording.lost)),
        name::escaped(recording.file.as_bytes())
    )
}

/// Returns the line that explains the keys of the page.
fn keys_line(scene: &Scene<'_>) -> Line<'static> {
    let rows = match scene.state.page {
        Page::Overview => &[("up/down", "cache"), ("Enter", "open")][..],
        Page::Cache(_) => &[("up/down", "cache")],
        Page::Fuse | Page::Files | Page::Processes => {
            &[("up/down", "row"), ("s", "sort"), ("i", "invert")]
        }
        Page::Device | Page::Journal => &[],
    };
    let first = [("q", "quit"), ("?", "help"), ("Tab", "page")];
    let last = [("p", "pause"), ("+/-", "interval")];
    let style = scene.look.style(Meaning::Key);
    let keys = first.iter().chain(rows).chain(&last);
    let spans = keys
        .flat_map(|(key, action)| [Span::styled(*key, style), Span::raw(format!(" {action}  "))]);
    Line::from(spans.collect::<Vec<_>>())
}
