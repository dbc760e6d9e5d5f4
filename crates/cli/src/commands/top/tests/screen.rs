//! The parts of the screen that are the same on every page.

use super::super::change::Change;
use super::super::poller::Sample;
use super::{Stage, page_of, sample};
use crate::args::top::Page;
use larder::{CacheKind, RecordingStats};
use ratatui::style::{Color, Modifier};
use std::time::Duration;

#[test]
fn help_is_as_stored() {
    let mut stage = Stage::busy();
    stage.state.shows_help = true;
    stage.assert_shows(80, 24, "help");
    stage.assert_shows(200, 50, "help-200x50");
}

#[test]
fn too_small_screen_shows_required_size() {
    let stage = Stage::busy();
    for (width, height) in [(79, 24), (80, 23), (20, 8)] {
        let shown = stage.lines(width, height).join(" ");
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        let expected =
            format!("needs 80 columns and 24 rows; the terminal has {width} and {height}.");
        assert!(shown.contains(&expected), "{shown}");
    }
}

/// A terminal may have any size, including 0. No size may cause a panic, and no page may be blank.
#[test]
fn every_size_is_drawn() {
    let mut stage = Stage::busy();
    for page in Page::ALL {
        stage.state.page = page;
        for width in (0..10).chain([80, 81, 95, 109, 110, 111, 159, 160, 161, 250, 700]) {
            for height in (0..4).chain([24, 25, 27, 31, 60, 120]) {
                let lines = stage.lines(width, height);
                assert!(lines.len() <= usize::from(height));
                if width >= 80 && height >= 24 {
                    assert_eq!(
                        lines.len(),
                        usize::from(height),
                        "{page:?} {width}x{height}"
                    );
                }
            }
        }
    }
}

#[test]
fn title_shows_pause_and_interval() {
    let mut stage = Stage::busy();
    stage.state.interval = Duration::from_millis(200);
    assert!(stage.lines(80, 24)[0].ends_with("every 0.2 s"));
    stage.state.is_paused = true;
    assert!(stage.lines(80, 24)[0].ends_with("PAUSED"));
}

#[test]
fn chosen_page_is_reversed_in_tabs() {
    let stage = Stage::busy().page(page_of(CacheKind::Dentry));
    for width in [80, 120] {
        let buffer = stage.draw(width, 24);
        let reversed = |x: &u16| buffer[(*x, 1)].modifier.contains(Modifier::REVERSED);
        let text = (0..width).filter(reversed).map(|x| buffer[(x, 1)].symbol());
        let text: String = text.collect();
        assert_eq!(text.replace(' ', ""), "9dentry");
        assert!(stage.lines(width, 24)[1].ends_with("inode"));
    }
}

#[test]
fn notice_shows_read_only_reason_and_failed_query() {
    let mut stage = Stage::busy();
    let writing = stage.now.stats.writing.as_mut().unwrap();
    writing.read_only_because = Some("the disk\x1b[2J is full".into());
    assert_eq!(
        stage.lines(80, 24)[2],
        r"turned read-only: the disk\033[2J is full"
    );
    stage.notice = Some("not updated: it is unmounted");
    assert_eq!(stage.lines(80, 24)[2], "not updated: it is unmounted");
}

#[test]
fn notice_shows_recording_and_its_failure() {
    let mut stage = Stage::busy();
    stage.now.stats.recording = Some(RecordingStats {
        file: "/tmp/disk.trace".to_owned(),
        events: 12_300,
        lost: 4,
        failure: None,
    });
    let expected = "recording 12.3k events, 4 lost, to /tmp/disk.trace";
    assert_eq!(stage.lines(80, 24)[2], expected);
    let recording = stage.now.stats.recording.as_mut().unwrap();
    recording.failure = Some("No space left on device".to_owned());
    let expected = "recording ended: No space left on device";
    assert_eq!(stage.lines(80, 24)[2], expected);
}

#[test]
fn colours_do_not_change_text() {
    for page in Page::ALL {
        let mut stage = Stage::busy().page(page);
        let plain = stage.draw(120, 40);
        stage.look.has_colours = true;
        let coloured = stage.draw(120, 40);
        assert!(plain.content.iter().all(|cell| cell.fg == Color::Reset));
        assert!(coloured.content.iter().any(|cell| cell.fg != Color::Reset));
        for (plain, coloured) in plain.content.iter().zip(&coloured.content) {
            assert_eq!(plain.symbol(), coloured.symbol());
            assert_eq!(plain.modifier, coloured.modifier);
            // Text on a background of its own has a colour of its own.
            assert!(coloured.bg == Color::Reset || coloured.fg != Color::Reset);
        }
    }
}

#[test]
fn rates_after_remount_are_not_negative() {
    let (before, now) = (sample(50, "page"), sample(0, "page"));
    let now = Sample {
        at: before.at + Duration::from_secs(1),
        ..now
    };
    let change = Change::new(Some(&before), &now);
    assert_eq!(change.rate(|stats| stats.page.lookups), Some(0.0));
    assert_eq!(change.cache(CacheKind::Page).hit_rate, None);
}
