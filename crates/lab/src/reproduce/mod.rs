//! Published documents, measured again and judged beside their own figures.
//!
//! Each says before its results when a figure of ours agrees with a published one.

pub mod kara2016;
pub mod lever2000;
pub mod wu2007;
