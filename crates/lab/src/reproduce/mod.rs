//! Reproductions of published documents: measurements, and a comparison with the published figures.
//!
//! Each report states its criterion of agreement before its results.

pub mod kara2016;
pub mod lever2000;
pub mod wu2007;
