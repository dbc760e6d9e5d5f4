//! The policy without readahead: only the requested pages are read.

use crate::{FileState, Policy, PolicyName, Read, Residency, Trigger, Windows};

/// The policy that never reads ahead.
#[derive(Clone, Copy, Debug, Default)]
pub struct Off;

impl Policy for Off {
    fn name(&self) -> PolicyName {
        PolicyName::Off
    }

    fn decide(&self, _: &mut FileState, read: &Read, _: &dyn Residency) -> Windows {
        if read.trigger != Trigger::Miss {
            return Windows::NONE;
        }
        read.as_requested().clip(read.file_pages).into()
    }
}
