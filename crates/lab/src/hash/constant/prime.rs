//! Primes near the golden ratio of a word: near 2^(bits of the word) divided by the golden ratio.

/// 2^128 divided by the golden ratio.
const GOLDEN_RATIO: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834;

/// 2^`bits` divided by the golden ratio, for `bits` of at most 64. It is a fixed-point number whose lower 64
/// bits are the fraction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Golden(u128);

impl Golden {
    pub(super) fn of_word(bits: u32) -> Self {
        Self(GOLDEN_RATIO >> (64 - bits))
    }

    /// Returns the integer part.
    pub(super) fn floor(self) -> u64 {
        u64::try_from(self.0 >> 64).unwrap_or(u64::MAX)
    }

    /// Returns the distance of `number` from this golden ratio, in units of 2^-64.
    fn distance(self, number: u64) -> u128 {
        self.0.abs_diff(u128::from(number) << 64)
    }

    /// Returns `number` minus the golden ratio of the word.
    #[expect(clippy::cast_precision_loss, reason = "displayed with a few digits")]
    pub(super) fn difference(self, number: u64) -> f64 {
        let distance = self.distance(number) as f64 / 2_f64.powi(64);
        distance.copysign(if number > self.floor() { 1.0 } else { -1.0 })
    }

    /// Returns the odd number nearest to this golden ratio.
    pub(super) fn nearest_odd(self) -> u64 {
        let below = (self.floor() - 1) | 1;
        let pair = [below, below + 2];
        pair.into_iter()
            .min_by_key(|odd| self.distance(*odd))
            .unwrap_or(below)
    }

    /// Returns the `count` primes below 2^`bits` that are nearest to this golden ratio, in order of distance.
    pub(super) fn nearest_primes(self, bits: u32, count: usize) -> Vec<u64> {
        let floor = self.floor();
        let below = (2..=floor).rev().filter(|number| is_prime(*number));
        let above = (floor + 1..=u64::MAX >> (64 - bits)).filter(|number| is_prime(*number));
        let mut primes: Vec<u64> = below.take(count).chain(above.take(count)).collect();
        primes.sort_by_key(|prime| self.distance(*prime));
        primes.truncate(count);
        primes
    }
}

/// Returns whether `number` is prime. Uses the Miller–Rabin test with the first twelve primes as bases, which
/// is exact below 2^64 (Sorenson and Webster, 2017).
pub(super) fn is_prime(number: u64) -> bool {
    const BASES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    if number < 2 || BASES.iter().any(|base| number.is_multiple_of(*base)) {
        return BASES.contains(&number);
    }
    let twos = (number - 1).trailing_zeros();
    let odd = (number - 1) >> twos;
    BASES.iter().all(|base| {
        let mut power = power(*base, odd, number);
        if power == 1 {
            return true;
        }
        for _ in 1..twos {
            if power == number - 1 {
                return true;
            }
            power = product(power, power, number);
        }
        power == number - 1
    })
}

/// Returns `base` to the power of `exponent`, modulo `modulus`.
fn power(base: u64, mut exponent: u64, modulus: u64) -> u64 {
    let (mut power, mut square) = (1, base % modulus);
    while exponent > 0 {
        if exponent % 2 == 1 {
            power = product(power, square, modulus);
        }
        square = product(square, square, modulus);
        exponent /= 2;
    }
    power
}

fn product(a: u64, b: u64, modulus: u64) -> u64 {
    let product = u128::from(a) * u128::from(b) % u128::from(modulus);
    u64::try_from(product).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_ratio_solves_its_equation() {
        // For x = 1 / golden ratio, x * (x + 1) = 1. Here x = g / 2^64, so g * (g + 2^64) is 2^128,
        // up to the precision of g.
        let golden = u128::from(Golden::of_word(64).floor());
        let square = golden * golden;
        let rest = u128::MAX - square - (golden << 64);
        assert!(rest <= 2 * golden + (1 << 64), "{rest:#x}");
    }

    #[test]
    fn is_prime_agrees_with_trial_division() {
        let divides = |number: u64| (2..number).any(|divisor| number.is_multiple_of(divisor));
        for number in 0..5000 {
            assert_eq!(is_prime(number), number > 1 && !divides(number), "{number}");
        }
    }

    #[test]
    fn known_large_primes_and_composites_are_recognized() {
        // The largest prime below 2^64, a Mersenne prime, and the published multiplier.
        for prime in [18_446_744_073_709_551_557, (1 << 61) - 1, 2_654_435_761] {
            assert!(is_prime(prime), "{prime}");
        }
        // 2^64 - 1, the square of a prime, and a composite that passes the test with the first nine bases but
        // not with the tenth.
        let composites = [
            u64::MAX,
            4_294_967_291 * 4_294_967_291,
            3_825_123_056_546_413_051,
        ];
        for composite in composites {
            assert!(!is_prime(composite), "{composite}");
        }
    }

    #[test]
    fn nearest_primes_of_a_byte_are_those_around_158() {
        // 256 / 1.618 = 158.2.
        let golden = Golden::of_word(8);
        assert_eq!(golden.floor(), 158);
        assert_eq!(golden.nearest_primes(8, 4), [157, 163, 151, 167]);
        assert_eq!(golden.nearest_odd(), 159);
        assert!((golden.difference(157) + 1.217).abs() < 0.001);
        assert!((golden.difference(163) - 4.783).abs() < 0.001);
    }

    #[test]
    fn nearest_primes_of_a_word_omit_no_nearer_prime() {
        for bits in [9, 16, 31, 32, 48, 63, 64] {
            let golden = Golden::of_word(bits);
            let primes = golden.nearest_primes(bits, 3);
            let farthest = golden.distance(primes[2]);
            let reach = u64::try_from(farthest >> 64).unwrap();
            let window = golden.floor() - reach..=golden.floor() + reach + 1;
            let within = window.filter(|one| is_prime(*one) && golden.distance(*one) <= farthest);
            assert_eq!(within.count(), 3, "{bits} bits: {primes:?}");
        }
    }
}
