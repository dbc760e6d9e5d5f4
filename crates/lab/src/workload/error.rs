//! Errors of the text of a workload.

/// The reasons why the text of a workload is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// No workload has this name.
    #[error("unknown workload '{name}'; available: {known}")]
    UnknownWorkload {
        /// The name.
        name: String,
        /// The existing names.
        known: String,
    },
    /// The workload has no parameter of this name.
    #[error("workload `{workload}` has no parameter `{parameter}`; available: {known}")]
    UnknownParameter {
        /// The workload's name.
        workload: &'static str,
        /// The parameter's name.
        parameter: String,
        /// The existing names.
        known: String,
    },
    /// A parameter is given twice.
    #[error("workload `{workload}`: parameter `{parameter}` is given twice")]
    RepeatedParameter {
        /// The workload's name.
        workload: &'static str,
        /// The parameter's name.
        parameter: &'static str,
    },
    /// The text between two commas, or after the colon, is empty.
    #[error(
        "workload `{workload}` has an empty parameter; use NAME=VALUE with one of these names: {known}"
    )]
    EmptyParameter {
        /// The workload's name.
        workload: &'static str,
        /// The existing names.
        known: String,
    },
    /// A value has an invalid syntax.
    #[error("`{workload}:{parameter}={value}`: expected {expected}")]
    NotAValue {
        /// The workload's name.
        workload: &'static str,
        /// The parameter's name.
        parameter: &'static str,
        /// The given value.
        value: String,
        /// A description of valid values.
        expected: &'static str,
    },
    /// A value is too small or too large.
    #[error("`{workload}:{parameter}={value}`: the value must be from {least} to {most}")]
    OutOfRange {
        /// The workload's name.
        workload: &'static str,
        /// The parameter's name.
        parameter: &'static str,
        /// The given value.
        value: String,
        /// The minimum.
        least: String,
        /// The maximum.
        most: String,
    },
    /// A file is too small for the readers that share it.
    #[error(
        "`{workload}:{parameter}={value}` is less than a page for each of {sharers}={count}: the \
         value must be at least {least}"
    )]
    NoPageForEach {
        /// The workload's name.
        workload: &'static str,
        /// The parameter's name.
        parameter: &'static str,
        /// The given value.
        value: String,
        /// The name of the parameter with the number of sharers.
        sharers: &'static str,
        /// The number of sharers.
        count: u64,
        /// The minimum.
        least: String,
    },
}
