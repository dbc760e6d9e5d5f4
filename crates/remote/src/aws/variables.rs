//! The variables of the environment that the AWS tools read.

/// The variables of the environment.
pub(crate) struct Variables<'v>(pub(crate) &'v dyn Fn(&str) -> Option<String>);

impl Variables<'_> {
    /// Returns the value of a variable that is not empty.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.is_empty())
    }
}
