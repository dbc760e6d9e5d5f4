//! The contract between a reader and a readahead policy, and the names of the policies.

use std::fmt;
use std::str::FromStr;

use crate::{FileState, PageIndex, Read, Residency, Window, Windows};

/// A readahead algorithm, which turns one read into windows.
///
/// [`driver`](crate::driver) describes the steps before and after a decision, and their order.
///
/// # Requirements
/// A policy returns windows that are within the file. No page is in two windows of one decision. A window must
/// not have more than [`FileState::max_pages`] pages. There are three exceptions: a window of exactly the pages
/// from `read.index` to the end of the request can have any size, [`FileState::set_io_pages`] can permit larger
/// windows, and [`Adaptive`](crate::Adaptive) may return windows of the size that its
/// [`Balance`](crate::Balance) permits. A policy must not do I/O or read a clock. It must not allocate; only
/// [`Adaptive`](crate::Adaptive) may, when its tables for a file grow.
pub trait Policy: fmt::Debug + Send + Sync {
    /// Returns the name that selects this policy.
    fn name(&self) -> PolicyName;

    /// Returns true if the driver must call [`Policy::wants_access`] before the lookup of each page, so
    /// that the policy can also be consulted about hits without a marker. The result is for page
    /// faults if `by_fault` is true, otherwise for reads.
    fn can_use_hits(&self, _by_fault: bool) -> bool {
        false
    }

    /// Returns true if the driver must consult the policy, with [`Trigger::Access`](crate::Trigger::Access),
    /// before the lookup of the page `read.index`. The driver calls this method only if
    /// [`Policy::can_use_hits`] returns true.
    fn wants_access(&self, _state: &FileState, _read: &Read) -> bool {
        false
    }

    /// Returns the windows to read for `read`, and updates `state`.
    fn decide(&self, state: &mut FileState, read: &Read, resident: &dyn Residency) -> Windows;

    /// Records that `new_pages` pages of `window` are read: the driver has started their reads, or has left
    /// them to the reader ([`CachedFile::start`](crate::driver::CachedFile::start)). The other pages were
    /// resident or in flight, or there was no memory for them.
    fn window_read(&self, _state: &mut FileState, _window: Window, _new_pages: u32) {}

    /// Returns true if the driver must call [`Policy::page_in_flight`].
    fn observes_waits(&self) -> bool {
        false
    }

    /// Records that a reader must wait for the page `index`, which is in flight. The driver calls this method only
    /// if [`Policy::observes_waits`] returns true.
    fn page_in_flight(&self, _state: &mut FileState, _index: PageIndex) {}

    /// Returns true if the policy models a kernel up to Linux 2.6.23, in which each read copied the
    /// state when it began, and wrote the copy back when it ended. In such a kernel, concurrent
    /// readers of one open file do not affect each other during a read, and the copy that is written
    /// back last remains. A caller may ignore this property.
    fn copies_state(&self) -> bool {
        false
    }

    /// Records that the reader has received the whole request.
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
    /// Readahead of current Linux: [`Modern`](crate::Modern).
    Modern,
    /// Readahead that adapts to streams, memory and device: [`Adaptive`](crate::Adaptive).
    Adaptive,
}

impl PolicyName {
    /// All names: the policies of Linux in the order in which they appeared, and then the adaptive policy.
    pub const ALL: &'static [Self] = &[
        Self::Off,
        Self::Legacy,
        Self::OnDemand,
        Self::Modern,
        Self::Adaptive,
    ];

    /// Returns the name as written in options.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Legacy => "legacy",
            Self::OnDemand => "ondemand",
            Self::Modern => "modern",
            Self::Adaptive => "adaptive",
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

/// An error: no policy has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown readahead policy '{name}'; available: {}", known())]
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
    fn unknown_policy_lists_alternatives() {
        let error = "wildcard".parse::<PolicyName>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown readahead policy 'wildcard'; available: off, legacy, ondemand, modern, \
             adaptive"
        );
    }
}
