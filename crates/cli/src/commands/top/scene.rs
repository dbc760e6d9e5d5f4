//! Everything that the view shows, from which pages and panes are drawn.

use super::change::Change;
use super::history::History;
use super::palette::Look;
use super::state::State;
use larder::Stats;
use std::path::Path;

/// The content of the screen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene<'a> {
    pub mountpoint: &'a Path,
    pub state: &'a State,
    pub change: &'a Change<'a>,
    pub history: &'a History,
    /// The reason why the values could not be updated, if the last query failed.
    pub notice: Option<&'a str>,
    /// Whether keys have an effect. If not, the tabs and the line that explains the keys are omitted.
    pub has_keys: bool,
    pub look: Look,
}

impl<'a> Scene<'a> {
    pub(super) fn stats(&self) -> &'a Stats {
        &self.change.now.stats
    }
}
