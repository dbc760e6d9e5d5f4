//! A multiplication as a hash function, and the names of the compared multiplications.

use serde::Serialize;

pub(super) const PRIME: &str = "prime";
pub(super) const ODD: &str = "odd";
pub(super) const PUBLISHED: &str = "published";
pub(super) const PUBLISHED_11: &str = "published-11";
pub(super) const SPARSE: &str = "sparse";

/// A multiplication that is used as a hash function.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Multiplication {
    /// The name of the multiplication in this report.
    pub name: &'static str,
    /// The origin of the multiplier, in one line.
    pub about: &'static str,
    /// The multiplier.
    pub multiplier: u64,
    /// The number of bits by which the product is shifted. `None` means the number of bits of the word minus
    /// the number of bits of the table.
    pub shift: Option<u32>,
    /// Quality of the multiplier.
    pub quality: Quality,
}

/// Properties of a multiplier that do not depend on keys.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quality {
    /// Whether the multiplier is prime.
    pub prime: bool,
    /// The multiplier minus 2^`bits` / golden ratio.
    pub difference: f64,
    /// The result of the spectral test in two dimensions, from 0 to 1; 1 is best.
    pub spectral: f64,
    /// The largest gap between products of 1, 2, 3, ... on the circle of the word, divided by the mean gap;
    /// the maximum over the number of products.
    pub worst_gap: f64,
}
