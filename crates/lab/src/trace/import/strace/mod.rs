//! The output of strace(1): parses system calls, and derives the keys that they look up.
//!
//! # Model
//! The input is the output of `strace -f`. The options `-o`, `-y`, `-T` and the options for timestamps (`-t`,
//! `-tt`, `-ttt`, `-r`) are optional. If a line of another thread interrupts a call, strace prints the call in
//! two parts, which are joined.

mod argument;
mod call;
mod calls;
mod files;
mod keys;
mod line;
mod names;
mod signature;
mod timestamp;

pub use call::{Call, Descriptor, Outcome, PathArgument, Start};
pub use calls::Calls;
pub(super) use keys::import;
pub(super) use timestamp::nanoseconds;

#[cfg(test)]
mod tests;
