//! The contract between a reader and a readahead policy, and the names of the policies.

use std::fmt;
use std::str::FromStr;

use crate::{FileState, Read, Residency, Window, Windows};

/// A readahead policy: one read in, windows out.
///
/// What happens around a decision, in which order, is in [`driver`](crate::driver).
///
/// # What the policy does
/// It answers with at most two windows, each within the file and within [`FileState::max_pages`]
/// (a request as it is may be larger), does no I/O, reads no clock and allocates nothing.
pub trait Policy: fmt::Debug + Send + Sync {
    /// The name that selects this policy.
    fn name(&self) -> PolicyName;

    /// True if the policy has to be asked about hits without a marker too: those of page faults
    /// if `by_fault`, otherwise those of reads.
    fn wants_every_page(&self, _by_fault: bool) -> bool {
        false
    }

    /// True if the policy, which wants every page, wants to know of this one.
    fn wants_access(&self, _state: &FileState, _read: &Read) -> bool {
        false
    }

    /// Decides what to bring in for `read`, and remembers it in `state`.
    fn decide(&self, state: &mut FileState, read: &Read, resident: &dyn Residency) -> Windows;

    /// Takes note that of `window`, `new_pages` were not resident and are being read.
    fn window_read(&self, _state: &mut FileState, _window: Window, _new_pages: u32) {}

    /// True if a read works on a copy of the state, taken when it begins and put back when it
    /// ends, as up to Linux 2.6.23: readers that share an open file then do not meet inside a
    /// read, and the last one to end leaves its state. A caller may disregard it.
    fn copies_state(&self) -> bool {
        false
    }

    /// Takes note that the reader has got the whole request.
    fn end_read(&self, state: &mut FileState, read: &Read) {
        state.set_previous(read.last_page(), read.ends_inside_page);
    }
}

/// The policies by name, as in `--readahead NAME`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PolicyName {
    /// No readahead: [`Off`](crate::Off).
    Off,
    /// Readahead of Linux 2.6.20: [`Legacy`](crate::Legacy).
    Legacy,
    /// On-demand readahead of 2007: [`OnDemand`](crate::OnDemand).
    #[default]
    OnDemand,
    /// Readahead of today's Linux: [`Modern`](crate::Modern).
    Modern,
}

impl PolicyName {
    /// All names, in the order of their generations.
    pub const ALL: &'static [Self] = &[Self::Off, Self::Legacy, Self::OnDemand, Self::Modern];

    /// The name as it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Legacy => "legacy",
            Self::OnDemand => "ondemand",
            Self::Modern => "modern",
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for PolicyName {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        Self::ALL
            .iter()
            .copied()
            .find(|policy| policy.as_str() == name)
            .ok_or_else(|| UnknownPolicy {
                name: name.to_owned(),
            })
    }
}

/// No policy has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no readahead policy is called {name:?}; there are {}", known())]
pub struct UnknownPolicy {
    name: String,
}

fn known() -> String {
    PolicyName::ALL
        .iter()
        .map(|name| name.as_str())
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_that_is_unknown_is_refused_with_those_that_are_known() {
        let error = "wildcard".parse::<PolicyName>().unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"no readahead policy is called "wildcard"; there are off, legacy, ondemand, modern"#
        );
    }
}
