//! Reproducible randomness: everything random in the tests is derived from a printed seed.

use std::fmt;
use std::str::FromStr;

/// The environment variable that replaces a test's seed.
pub const SEED_VARIABLE: &str = "LARDER_SEED";

/// Creates the `Config` of proptest for properties whose cases are the same in each run: they are
/// derived from [`Seed::announced`]. Other fields may follow the default seed.
#[macro_export]
macro_rules! proptest_config {
    ($default_seed:expr $(, $field:ident: $value:expr)*) => {
        ::proptest::test_runner::Config {
            $($field: $value,)*
            rng_seed: ::proptest::test_runner::RngSeed::Fixed($crate::Seed::announced($default_seed).0),
            failure_persistence: None,
            ..::proptest::test_runner::Config::default()
        }
    };
}

/// The start of a random sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seed(pub u64);

impl Seed {
    /// Returns the seed in [`SEED_VARIABLE`] (decimal, or hexadecimal with the prefix `0x`), or else
    /// `default`.
    ///
    /// # Panics
    /// Panics if the variable is not a number: a typing error must not look like a successful
    /// repetition.
    #[must_use]
    pub fn from_environment(default: u64) -> Self {
        match std::env::var(SEED_VARIABLE) {
            Ok(text) => text
                .parse()
                .unwrap_or_else(|_| panic!("{SEED_VARIABLE}={text} is not a number")),
            Err(_) => Self(default),
        }
    }

    /// Returns the seed of [`Seed::from_environment`], and prints it as the variable that repeats the
    /// run.
    ///
    /// # Panics
    /// As [`Seed::from_environment`].
    #[must_use]
    pub fn announced(default: u64) -> Self {
        let seed = Self::from_environment(default);
        eprintln!("{SEED_VARIABLE}={seed}");
        seed
    }

    /// Returns the seeds of the parts of a test's work: an endless sequence for part 0, part 1, and so
    /// on. If [`SEED_VARIABLE`] is set, returns only its seed, which repeats the part whose failure
    /// printed it.
    ///
    /// # Panics
    /// As [`Seed::from_environment`].
    #[must_use]
    pub fn parts_from_environment(default: u64) -> Box<dyn Iterator<Item = Self>> {
        let seed = Self::from_environment(default);
        if std::env::var_os(SEED_VARIABLE).is_some() {
            return Box::new(std::iter::once(seed));
        }
        Box::new((0..).map(move |number| seed.part(number)))
    }

    /// Returns the seed for part `number` of the work that this seed determines.
    #[must_use]
    pub fn part(self, number: u64) -> Self {
        let mut random = Random::new(Self(self.0 ^ mix(number)));
        Self(random.next_u64())
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl FromStr for Seed {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        }
        .map(Self)
    }
}

/// A sequence of random numbers from splitmix64, which is sufficient for test data.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Creates the sequence of `seed`.
    #[must_use]
    pub fn new(seed: Seed) -> Self {
        Self { state: seed.0 }
    }

    /// Returns the next number.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// Returns a number below `end`, or 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        let product = u128::from(self.next_u64()) * u128::from(end);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// Returns an index below `end`, or 0 if `end` is 0.
    pub fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).unwrap_or(0)
    }

    /// Returns a random byte.
    pub fn byte(&mut self) -> u8 {
        self.next_u64().to_le_bytes()[0]
    }

    /// Returns one of `items`, or `None` if there are none.
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.index(items.len()))
    }

    /// Shuffles `items`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }

    /// Overwrites `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let number = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
    }

    /// Returns `len` random bytes.
    #[must_use]
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.fill(&mut bytes);
        bytes
    }
}

/// Distributes the bits of a number over the whole word.
#[must_use]
pub fn mix(number: u64) -> u64 {
    let z = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_repeat_with_the_same_seed() {
        let mut a = Random::new(Seed(7));
        let mut b = Random::new(Seed(7));
        assert!((0..100).all(|_| a.next_u64() == b.next_u64()));
    }

    #[test]
    fn random_below_is_less_than_its_end() {
        let mut random = Random::new(Seed(1));
        assert!((0..1000).all(|_| random.below(10) < 10));
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn seed_parses_in_decimal_and_hexadecimal() {
        assert_eq!("0x10".parse(), Ok(Seed(16)));
        assert_eq!("16".parse(), Ok(Seed(16)));
        assert_eq!(Seed(16).to_string().parse(), Ok(Seed(16)));
    }
}
