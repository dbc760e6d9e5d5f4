//! The meanings of colours. Each colour has a mark or a word beside it, because a terminal may have no colours,
//! and a user may not distinguish them.
//!
//! Only the 16 colours of the terminal's palette are used. On a light background, the cyan and the yellow of some palettes
//! are hardly legible. Therefore text has the colour of the terminal, and a figure that needs attention has a background
//! of its own; cyan and yellow are for graphs.

use super::glyphs::Glyphs;
use larder::OperationStats;
use ratatui::style::{Color, Modifier, Style};
use std::env;

/// The errors that show a problem of the image, its device or its space. Others, such as `ENOENT`, are usual answers.
const SEVERE: [&str; 6] = ["EIO", "ENOSPC", "EUCLEAN", "EROFS", "ENOMEM", "ETIMEDOUT"];

/// How the screen looks on a certain terminal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub has_colours: bool,
    pub glyphs: &'static Glyphs,
}

/// What a colour means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The title of a pane, and the head of a table.
    Heading,
    /// A key that the user can press.
    Key,
    /// The chosen page or row.
    Chosen,
    /// Text that is less important than its neighbours.
    Quiet,
    /// What programs read, or the only series of a graph.
    Reading,
    /// What programs write.
    Writing,
    /// A series of errors in a graph.
    Errors,
    /// A figure that has been judged.
    Judged(Level),
}

/// The judgement of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// The figure is neither good nor bad.
    Neutral,
    Good,
    /// The figure deserves attention.
    Fair,
    /// The figure shows a problem.
    Poor,
}

impl Level {
    /// Returns the mark that follows the figure. It shows the level without colours.
    pub(super) const fn mark(self) -> &'static str {
        match self {
            Self::Neutral | Self::Good => "",
            Self::Fair => "!",
            Self::Poor => "!!",
        }
    }

    /// Judges the share of lookups that were hits. A low share is a problem only if the cache is full; the cache of
    /// a fresh mount is still being filled.
    pub(super) fn of_hits(share: Option<f64>, is_full: bool) -> Self {
        match share {
            Some(share) if share >= 0.9 => Self::Good,
            Some(share) if is_full && share < 0.5 => Self::Poor,
            Some(_) if is_full => Self::Fair,
            _ => Self::Neutral,
        }
    }

    /// Judges the share of the pages read ahead that were evicted before use.
    pub(super) fn of_waste(share: Option<f64>) -> Self {
        match share {
            Some(share) if share >= 0.5 => Self::Poor,
            Some(share) if share >= 0.2 => Self::Fair,
            Some(_) => Self::Good,
            None => Self::Neutral,
        }
    }

    /// Judges a number of failures.
    pub(super) fn of_failures(count: Option<f64>) -> Self {
        match count {
            Some(count) if count > 0.0 => Self::Poor,
            _ => Self::Neutral,
        }
    }

    /// Judges the errors of an operation since the mount.
    pub(super) fn of_errors(operation: &OperationStats) -> Self {
        let mut errnos = operation.errnos.keys();
        if errnos.any(|errno| SEVERE.contains(&errno.as_str())) {
            Self::Poor
        } else {
            Self::Neutral
        }
    }

    /// Judges the time of requests, in nanoseconds. A user notices 100 ms, and waits for 1 s.
    pub(super) fn of_latency(nanos: Option<f64>) -> Self {
        match nanos {
            Some(nanos) if nanos >= 1e9 => Self::Poor,
            Some(nanos) if nanos >= 1e8 => Self::Fair,
            _ => Self::Neutral,
        }
    }
}

impl Look {
    /// Returns the look for the environment of this process.
    pub(super) fn of_environment() -> Self {
        Self {
            has_colours: env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            glyphs: Glyphs::for_environment(|name| env::var_os(name)),
        }
    }

    pub(super) fn style(self, meaning: Meaning) -> Style {
        let (color, modifier) = match meaning {
            Meaning::Heading => (Color::Reset, Modifier::BOLD),
            Meaning::Key => (Color::Magenta, Modifier::BOLD),
            Meaning::Chosen => (Color::Reset, Modifier::BOLD.union(Modifier::REVERSED)),
            Meaning::Quiet => (Color::Reset, Modifier::DIM),
            Meaning::Reading => (Color::Cyan, Modifier::empty()),
            Meaning::Writing => (Color::Magenta, Modifier::empty()),
            Meaning::Errors => (Color::Yellow, Modifier::empty()),
            Meaning::Judged(Level::Neutral) => (Color::Reset, Modifier::empty()),
            Meaning::Judged(Level::Good) => (Color::Green, Modifier::empty()),
            Meaning::Judged(Level::Fair) => (Color::Black, Modifier::BOLD),
            Meaning::Judged(Level::Poor) => (Color::White, Modifier::BOLD),
        };
        let style = Style::new().add_modifier(modifier);
        if !self.has_colours || color == Color::Reset {
            return style;
        }
        match meaning {
            Meaning::Judged(Level::Fair) => style.fg(color).bg(Color::Yellow),
            Meaning::Judged(Level::Poor) => style.fg(color).bg(Color::Red),
            _ => style.fg(color),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_hit_rate_is_poor_only_if_cache_is_full() {
        assert_eq!(Level::of_hits(Some(0.2), false), Level::Neutral);
        assert_eq!(Level::of_hits(Some(0.2), true), Level::Poor);
        assert_eq!(Level::of_hits(Some(0.7), true), Level::Fair);
        assert_eq!(Level::of_hits(Some(0.95), true), Level::Good);
        assert_eq!(Level::of_hits(None, true), Level::Neutral);
    }

    #[test]
    fn levels_that_need_attention_have_marks() {
        assert_eq!(Level::of_waste(Some(0.5)).mark(), "!!");
        assert_eq!(Level::of_waste(Some(0.3)).mark(), "!");
        assert_eq!(Level::of_waste(Some(0.1)).mark(), "");
        assert_eq!(Level::of_failures(Some(1.0)).mark(), "!!");
        assert_eq!(Level::of_failures(Some(0.0)).mark(), "");
        assert_eq!(Level::of_latency(Some(2e8)).mark(), "!");
        assert_eq!(Level::of_latency(Some(2e9)).mark(), "!!");
    }
}
