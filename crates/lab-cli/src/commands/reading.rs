//! Functions that are shared by the commands that read a trace.

use larder_lab::trace::{Error, Tolerance};

/// Returns a hint for a trace that cannot be read because another program rewrote it.
pub(super) fn rewritten_hint(error: &Error) -> Option<&'static str> {
    match error {
        Error::NoVersion => Some(
            "make that program keep the key larder.trace.version; see docs/traces.md, \"Rewriting a trace\"",
        ),
        Error::Codec(_) => Some("make that program use Snappy or no compression"),
        _ => None,
    }
}

/// Returns the tolerance that `--salvage` selects.
pub(super) fn tolerance(salvage: bool) -> Tolerance {
    if salvage {
        Tolerance::UpToLastRowGroup
    } else {
        Tolerance::Whole
    }
}
