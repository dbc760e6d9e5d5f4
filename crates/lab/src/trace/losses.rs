//! Events that are missing from a trace.

use crate::output::counted;
use serde::Serialize;
use std::fmt::{self, Display, Formatter};

/// The known losses of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Losses {
    /// Number of events that were lost during the recording.
    pub events: u64,
    /// Whether the end of the trace is missing.
    pub is_cut_short: bool,
    /// The reason why the end is missing, if it is known.
    pub reason: Option<String>,
}

impl Losses {
    /// Returns whether nothing is missing.
    #[must_use]
    pub fn are_none(&self) -> bool {
        self.events == 0 && !self.is_cut_short
    }
}

impl Display for Losses {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.are_none() {
            return f.write_str("no events are missing");
        }
        if self.events > 0 {
            let events = counted(self.events, "event was", "events were");
            write!(f, "{events} lost during the recording")?;
        }
        if self.events > 0 && self.is_cut_short {
            f.write_str("; ")?;
        }
        match (self.is_cut_short, &self.reason) {
            (false, _) => Ok(()),
            (true, None) => f.write_str("the end is missing"),
            (true, Some(reason)) => write!(f, "the end is missing: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_name_lost_events_and_the_missing_end() {
        let mut losses = Losses::default();
        assert!(losses.are_none());
        losses.events = 7;
        assert_eq!(
            losses.to_string(),
            "7 events were lost during the recording"
        );
        losses.is_cut_short = true;
        losses.reason = Some("row group 3 is damaged".to_owned());
        let text = losses.to_string();
        assert!(
            text.ends_with("recording; the end is missing: row group 3 is damaged"),
            "{text}"
        );
        losses.events = 0;
        losses.reason = None;
        assert_eq!(losses.to_string(), "the end is missing");
    }
}
