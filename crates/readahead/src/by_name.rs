//! The selection of a policy by its name.

use crate::{Adaptive, Legacy, Modern, Off, OnDemand, Policy, PolicyName};

impl PolicyName {
    /// Returns the policy that has this name.
    #[must_use]
    pub fn policy(self) -> &'static dyn Policy {
        match self {
            Self::Off => &Off,
            Self::Legacy => &Legacy,
            Self::OnDemand => &OnDemand,
            Self::Modern => &Modern,
            Self::Adaptive => &Adaptive,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_each_policy_parses_back_and_selects_it() {
        for name in PolicyName::ALL {
            assert_eq!(name.to_string().parse(), Ok(*name));
            assert_eq!(name.policy().name(), *name);
        }
    }
}
