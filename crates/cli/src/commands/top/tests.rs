//! Compares screens of invented values with stored screens.
//!
//! To store the screens again after a change of the layout, run these tests with `LARDER_STORE_SCREENS=1`, and read the
//! differences.

mod pages;
mod samples;
mod screen;

pub(super) use samples::{busy, sample};

use super::change::Change;
use super::glyphs::Glyphs;
use super::history::History;
use super::palette::Look;
use super::poller::Sample;
use super::scene::Scene;
use super::screen as drawing;
use super::state::State;
use super::text::lines;
use crate::args::top::Page;
use larder::CacheKind;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::path::Path;
use std::time::Duration;
use std::{env, fs};

/// Everything that a scene needs.
struct Stage {
    before: Option<Sample>,
    now: Sample,
    state: State,
    history: History,
    notice: Option<&'static str>,
    mountpoint: &'static str,
    look: Look,
}

impl Stage {
    fn new(before: Option<Sample>, now: Sample) -> Self {
        let cache = now.report.cache;
        Self {
            before,
            now,
            state: State::new(Page::Overview, cache, Duration::from_secs(1)),
            history: History::default(),
            notice: None,
            mountpoint: "/mnt/disk",
            look: Look {
                has_colours: false,
                glyphs: Glyphs::BLOCKS,
            },
        }
    }

    /// Returns a stage with two samples that are 2 s apart, and a history.
    fn busy() -> Self {
        Self {
            history: samples::history(90),
            ..Self::new(Some(samples::busy(0)), samples::busy(2))
        }
    }

    fn page(mut self, page: Page) -> Self {
        self.state.page = page;
        self
    }

    fn draw(&self, width: u16, height: u16) -> Buffer {
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        let scene = Scene {
            mountpoint: Path::new(self.mountpoint),
            state: &self.state,
            change: &Change::new(self.before.as_ref(), &self.now),
            history: &self.history,
            notice: self.notice,
            has_keys: true,
            look: self.look,
        };
        drawing::draw(&scene, area, &mut buffer);
        buffer
    }

    fn lines(&self, width: u16, height: u16) -> Vec<String> {
        lines(&self.draw(width, height))
    }

    /// Compares the screen with the stored screen `name`.
    #[track_caller]
    fn assert_shows(&self, width: u16, height: u16, name: &str) {
        let shown = self.lines(width, height).join("\n") + "\n";
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("src/commands/top/golden")
            .join(format!("{name}.txt"));
        if env::var_os("LARDER_STORE_SCREENS").is_some() {
            fs::write(&path, &shown).unwrap();
        }
        let stored = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(shown, stored, "{}\n{shown}", path.display());
    }
}

/// Returns the page of a cache.
const fn page_of(cache: CacheKind) -> Page {
    Page::Cache(cache)
}
