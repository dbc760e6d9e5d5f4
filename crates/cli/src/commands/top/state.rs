//! What the user has chosen in the view: the page, the order of its rows, the interval, and whether it is paused.

use super::sort::Sort;
use crate::args::top::Page;
use larder::CacheKind;
use std::time::Duration;

/// The intervals that keys choose, in milliseconds.
const INTERVALS_MS: [u64; 10] = [
    100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 3_600_000,
];

/// The action that a key requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Leave,
    /// Close the help, or leave the view if the help is not shown.
    Close,
    Help,
    Show(Page),
    /// Show the page that is this number of tabs to the right.
    Turn(usize),
    /// Move the mark down by this number of rows, or up if the number is negative.
    Move(isize),
    /// Show the page of the marked cache.
    Enter,
    Pause,
    /// Choose the next longer interval.
    Slower,
    /// Choose the next shorter interval.
    Faster,
    /// Sort by the column that is this number of columns to the right.
    SortNext(isize),
    Reverse,
    /// Forget the history.
    Reset,
}

/// What the view must do after an action, in addition to drawing the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    Leave,
    /// The polling thread must know the new settings.
    Poll,
    Reset,
}

/// The choices of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub page: Page,
    /// The cache that was chosen last, by the mark on the overview or by the page of a cache.
    pub cache: CacheKind,
    /// The marked row of the page.
    pub row: usize,
    pub interval: Duration,
    pub is_paused: bool,
    pub shows_help: bool,
    /// The orders of the tables of operations, files and processes.
    pub operations: Sort,
    pub files: Sort,
    pub processes: Sort,
}

/// The number of rows and columns of the table of a page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extent {
    pub rows: usize,
    pub columns: usize,
}

impl State {
    pub(super) fn new(page: Page, cache: CacheKind, interval: Duration) -> Self {
        Self {
            page,
            cache,
            row: 0,
            interval,
            is_paused: false,
            shows_help: false,
            operations: Sort::new(1),
            files: Sort::new(0),
            processes: Sort::new(0),
        }
    }

    /// Performs an action. `extent` is that of the table of the page.
    pub(super) fn apply(&mut self, action: Action, extent: Extent) -> Effect {
        match action {
            Action::Leave => return Effect::Leave,
            Action::Close if !self.shows_help => return Effect::Leave,
            Action::Close => self.shows_help = false,
            Action::Help => self.shows_help = !self.shows_help,
            Action::Show(page) => return self.show(page),
            Action::Turn(step) => return self.show(self.page.after(step)),
            Action::Enter if self.page == Page::Overview => {
                return self.show(Page::Cache(self.cache));
            }
            Action::Enter => {}
            Action::Move(rows) => return self.move_mark(rows, extent.rows),
            Action::Pause => {
                self.is_paused = !self.is_paused;
                return Effect::Poll;
            }
            Action::Slower => {
                return self
                    .set_interval(INTERVALS_MS.into_iter().find(|ms| *ms > self.interval_ms()));
            }
            Action::Faster => {
                return self.set_interval(
                    INTERVALS_MS
                        .into_iter()
                        .rfind(|ms| *ms < self.interval_ms()),
                );
            }
            Action::SortNext(step) => {
                if let Some(sort) = self.sort() {
                    let columns = extent.columns.max(1);
                    sort.choose_next(wrapped(step, columns), columns);
                }
            }
            Action::Reverse => {
                if let Some(sort) = self.sort() {
                    sort.is_reversed = !sort.is_reversed;
                }
            }
            Action::Reset => return Effect::Reset,
        }
        Effect::None
    }

    /// Shows a page, and closes the help.
    fn show(&mut self, page: Page) -> Effect {
        self.shows_help = false;
        if page != self.page {
            self.page = page;
            self.row = 0;
        }
        match page {
            Page::Cache(cache) => {
                self.cache = cache;
                Effect::Poll
            }
            _ => Effect::None,
        }
    }

    fn move_mark(&mut self, rows: isize, most: usize) -> Effect {
        let next = || {
            let place = self.cache as usize + wrapped(rows, CacheKind::ALL.len());
            CacheKind::ALL[place % CacheKind::ALL.len()]
        };
        match self.page {
            Page::Overview => {
                self.cache = next();
                Effect::Poll
            }
            Page::Cache(_) => self.show(Page::Cache(next())),
            _ => {
                self.row = self
                    .row
                    .saturating_add_signed(rows)
                    .min(most.saturating_sub(1));
                Effect::None
            }
        }
    }

    fn set_interval(&mut self, millis: Option<u64>) -> Effect {
        let Some(millis) = millis else {
            return Effect::None;
        };
        self.interval = Duration::from_millis(millis);
        Effect::Poll
    }

    fn interval_ms(&self) -> u64 {
        u64::try_from(self.interval.as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the order of the table of the page, if the user can choose it.
    fn sort(&mut self) -> Option<&mut Sort> {
        match self.page {
            Page::Fuse => Some(&mut self.operations),
            Page::Files => Some(&mut self.files),
            Page::Processes => Some(&mut self.processes),
            _ => None,
        }
    }
}

/// Returns the number of steps forward that is equal to `step`, in a circle of `length` places.
fn wrapped(step: isize, length: usize) -> usize {
    let length = isize::try_from(length).unwrap_or(isize::MAX);
    step.rem_euclid(length).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXTENT: Extent = Extent {
        rows: 5,
        columns: 4,
    };

    fn state() -> State {
        State::new(Page::Overview, CacheKind::Page, Duration::from_secs(1))
    }

    #[test]
    fn pages_follow_keys_and_tabs() {
        let mut state = state();
        assert_eq!(state.apply(Action::Turn(1), EXTENT), Effect::None);
        assert_eq!(state.page, Page::Fuse);
        let dentry = Page::Cache(CacheKind::Dentry);
        assert_eq!(state.apply(Action::Show(dentry), EXTENT), Effect::Poll);
        assert_eq!((state.page, state.cache), (dentry, CacheKind::Dentry));
        state.apply(Action::Move(1), EXTENT);
        assert_eq!(state.page, Page::Cache(CacheKind::Inode));
        state.apply(Action::Turn(1), EXTENT);
        assert_eq!(
            (state.page, state.cache),
            (Page::Overview, CacheKind::Inode)
        );
    }

    #[test]
    fn mark_of_overview_chooses_cache_and_enter_opens_it() {
        let mut state = state();
        for (rows, cache) in [
            (1, CacheKind::Buffer),
            (-1, CacheKind::Page),
            (-1, CacheKind::Inode),
            (1, CacheKind::Page),
        ] {
            assert_eq!(state.apply(Action::Move(rows), EXTENT), Effect::Poll);
            assert_eq!(state.cache, cache);
        }
        state.apply(Action::Enter, EXTENT);
        assert_eq!(state.page, Page::Cache(CacheKind::Page));
    }

    #[test]
    fn mark_of_list_stays_within_its_rows() {
        let mut state = state();
        state.apply(Action::Show(Page::Files), EXTENT);
        for (rows, row) in [
            (-1, 0),
            (3, 3),
            (10, 4),
            (-2, 2),
            (isize::MIN, 0),
            (isize::MAX, 4),
        ] {
            state.apply(Action::Move(rows), EXTENT);
            assert_eq!(state.row, row, "{rows}");
        }
        state.apply(Action::Move(1), Extent::default());
        assert_eq!(state.row, 0);
        state.apply(Action::Move(3), EXTENT);
        state.apply(Action::Turn(1), EXTENT);
        assert_eq!(state.row, 0);
    }

    #[test]
    fn order_belongs_to_the_page() {
        let mut state = state();
        let before = state.clone();
        for action in [Action::SortNext(1), Action::Reverse] {
            state.apply(action, EXTENT);
        }
        assert_eq!(state, before);
        state.apply(Action::Show(Page::Fuse), EXTENT);
        state.apply(Action::SortNext(-1), EXTENT);
        state.apply(Action::SortNext(-1), EXTENT);
        assert_eq!(state.operations, Sort::new(3));
        state.apply(Action::Reverse, EXTENT);
        assert!(state.operations.is_reversed && !state.files.is_reversed);
        assert_eq!(state.files, Sort::new(0));
    }

    #[test]
    fn intervals_move_in_steps_within_limits() {
        let mut state = state();
        state.interval = Duration::from_millis(300);
        for (action, millis, effect) in [
            (Action::Slower, 500, Effect::Poll),
            (Action::Faster, 200, Effect::Poll),
            (Action::Faster, 100, Effect::Poll),
            (Action::Faster, 100, Effect::None),
        ] {
            assert_eq!(state.apply(action, EXTENT), effect);
            assert_eq!(state.interval, Duration::from_millis(millis));
        }
        state.interval = Duration::from_hours(1);
        assert_eq!(state.apply(Action::Slower, EXTENT), Effect::None);
    }

    #[test]
    fn close_closes_help_before_the_view() {
        let mut state = state();
        state.apply(Action::Help, EXTENT);
        assert!(state.shows_help);
        assert_eq!(state.apply(Action::Close, EXTENT), Effect::None);
        assert!(!state.shows_help);
        assert_eq!(state.apply(Action::Close, EXTENT), Effect::Leave);
        assert_eq!(state.apply(Action::Leave, EXTENT), Effect::Leave);
    }

    #[test]
    fn pause_and_reset_have_effects() {
        let mut state = state();
        assert_eq!(state.apply(Action::Pause, EXTENT), Effect::Poll);
        assert!(state.is_paused);
        assert_eq!(state.apply(Action::Pause, EXTENT), Effect::Poll);
        assert!(!state.is_paused);
        assert_eq!(state.apply(Action::Reset, EXTENT), Effect::Reset);
    }
}
