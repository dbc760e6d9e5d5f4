//! No readahead: the reader brings in what it was asked for and nothing else.

use crate::{FileState, Policy, PolicyName, Read, Residency, Window};

/// The policy that never reads ahead.
#[derive(Clone, Copy, Debug, Default)]
pub struct Off;

impl Policy for Off {
    fn name(&self) -> PolicyName {
        PolicyName::Off
    }

    fn decide(&self, _: &mut FileState, _: &Read, _: &dyn Residency) -> Option<Window> {
        None
    }
}
