//! The windows that one decision of a policy returns.

use crate::series::{Series, SeriesIter};
use crate::window::Window;
use std::array;
use std::iter::{Chain, Flatten};

/// The windows that a policy returns, in the order in which they must be started: at most two windows, and then
/// the windows of a [`Series`]. Two windows are needed because one decision of [`Legacy`](crate::Legacy) may open
/// two consecutive windows. Only [`Adaptive`](crate::Adaptive) returns a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    windows: [Option<Window>; 2],
    series: Series,
}

impl Windows {
    /// No window.
    pub const NONE: Self = Self {
        windows: [None, None],
        series: Series::EMPTY,
    };

    /// Appends a window. `self` must contain at most one window.
    pub(crate) fn push(&mut self, window: Window) {
        debug_assert!(
            self.windows[1].is_none(),
            "a policy returned more than two windows"
        );
        let position = usize::from(self.windows[0].is_some());
        self.windows[position] = Some(window);
    }

    /// Sets the windows that follow the windows of [`Windows::push`].
    pub(crate) fn set_series(&mut self, series: Series) {
        self.series = series;
    }

    /// Returns the first window.
    #[must_use]
    pub fn first(&self) -> Option<Window> {
        self.into_iter().next()
    }

    /// Returns true if there is no window.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.windows[0].is_none() && self.series.windows == 0
    }
}

impl From<Option<Window>> for Windows {
    fn from(window: Option<Window>) -> Self {
        Self {
            windows: [window, None],
            series: Series::EMPTY,
        }
    }
}

impl From<Window> for Windows {
    fn from(window: Window) -> Self {
        Some(window).into()
    }
}

impl IntoIterator for Windows {
    type Item = Window;
    type IntoIter = Chain<Flatten<array::IntoIter<Option<Window>, 2>>, SeriesIter>;

    fn into_iter(self) -> Self::IntoIter {
        self.windows.into_iter().flatten().chain(self.series)
    }
}
