//! What changed since the last version.

use crate::output::{Table, text_or};
use crate::reproduce::lever2000::results::Lever2000;
use crate::statistics::Interval;

const CHANGES: &str = "\
The last version is of 29 November 2026 (commit 3e180066), and the one before of 28 November 2026 (commit 63ad1461). \
Since the last version, the rules changed in six respects. A verdict about throughputs of different tables of pages is \
undecided if it depends on the addresses of inodes; the last version checked this for two findings only, and compared \
D with fewer kernels. That the inode cache gains from no other function is also judged by throughput. In Histogram 4, \
the longest chain is also compared with that of xor. Words of 64 bits are judged with recorded keys. Memory areas are \
compared with the list and the tree of Linux 2.2. In Table 1, the interval of an effect over all numbers of scripts \
does not contain the differences between these numbers, and each number has the same weight, however many rounds it \
has. Five claims are judged that were not judged before. The method also changed: kernels take their turns in random \
order, threads live through a repetition, no run is shorter than the minimum, a run of Tables 2 to 6 has 6 to 8 rounds \
or more instead of 3, and the times of misses without a disk are from 30 rounds instead of 5. Between the two former \
versions, the method changed: kernels took turns of whole passes, on volumes that were kept for all runs, and the \
pairs of throughputs were runs; then they took turns of a few hundredths of a second, each round had new volumes, and \
the rounds were the pairs.

";

/// An estimate and its interval.
type Former = (f64, [f64; 2]);

/// Effects in the versions of 28 and of 29 November 2026, whose rules did not change.
const FORMER: [(&str, Option<Former>, Former); 30] = [
    (
        "scripts per hour, mult shift 16, 32768 / reference, 32768",
        None,
        (1.017, [1.002, 1.032]),
    ),
    (
        "scripts per hour, mult shift 11, 32768 / reference, 32768",
        None,
        (1.010, [0.998, 1.023]),
    ),
    (
        "scripts per hour, shift-add, 32768 / reference, 32768",
        None,
        (1.009, [0.997, 1.022]),
    ),
    (
        "scripts per hour, mult shift 11, 16384 / mult shift 11, 32768",
        None,
        (1.002, [0.989, 1.016]),
    ),
    (
        "scripts per hour, shift-add, 16384 / shift-add, 32768",
        None,
        (1.003, [0.993, 1.012]),
    ),
    (
        "scripts per hour, shift-add, 8192 / shift-add, 32768",
        None,
        (1.004, [0.990, 1.019]),
    ),
    (
        "scripts per hour, mult shift 11, 16384 / reference, 32768",
        None,
        (1.012, [0.998, 1.030]),
    ),
    (
        "scripts per hour, shift-add, 16384 / reference, 32768",
        None,
        (1.012, [0.999, 1.027]),
    ),
    (
        "scripts per hour, shift-add, 8192 / reference, 32768",
        None,
        (1.013, [0.997, 1.031]),
    ),
    (
        "scripts per hour, 12 bit / reference",
        Some((1.362, [1.167, 1.591])),
        (1.256, [1.131, 1.397]),
    ),
    (
        "scripts per hour, 12 bit / 14 bit",
        Some((0.879, [0.778, 1.004])),
        (0.861, [0.777, 0.958]),
    ),
    (
        "scripts per hour, 8192 / 2048",
        Some((1.339, [1.289, 1.379])),
        (1.413, [1.400, 1.428]),
    ),
    (
        "scripts per hour, 32768 / 2048",
        Some((1.540, [1.491, 1.591])),
        (1.603, [1.590, 1.617]),
    ),
    (
        "scripts per hour, rbtree / reference",
        Some((1.133, [1.109, 1.157])),
        (1.160, [1.151, 1.168]),
    ),
    (
        "scripts per hour, 14-bit / reference",
        Some((1.132, [1.109, 1.155])),
        (1.171, [1.163, 1.180]),
    ),
    (
        "scripts per hour, 13-bit / reference",
        Some((1.092, [1.070, 1.113])),
        (1.126, [1.118, 1.133]),
    ),
    (
        "scripts per hour, 14-bit / 15-bit",
        Some((0.999, [0.980, 1.016])),
        (0.995, [0.988, 1.001]),
    ),
    (
        "scripts per hour, 13-bit / 15-bit",
        Some((0.963, [0.946, 0.978])),
        (0.957, [0.950, 0.963]),
    ),
    (
        "scripts per hour, offset / mult, 64 scripts",
        None,
        (1.011, [0.997, 1.024]),
    ),
    (
        "scripts per hour, offset / 14-bit, 64 scripts",
        None,
        (1.006, [0.996, 1.018]),
    ),
    (
        "time of a miss, dentry / page",
        Some((0.950, [0.906, 0.991])),
        (0.999, [0.956, 1.049]),
    ),
    (
        "scripts per hour, 14 bit / reference",
        None,
        (1.161, [1.149, 1.174]),
    ),
    (
        "scripts per hour, shrink + mult 11 / mult shift 11",
        Some((1.031, [0.967, 1.099])),
        (0.960, [0.953, 0.966]),
    ),
    (
        "scripts per hour, A / reference",
        Some((2.151, [2.083, 2.216])),
        (1.610, [1.594, 1.626]),
    ),
    (
        "scripts per hour, B / reference",
        Some((2.197, [2.127, 2.259])),
        (1.616, [1.600, 1.633]),
    ),
    (
        "scripts per hour, C / reference",
        Some((2.279, [2.177, 2.393])),
        (1.700, [1.683, 1.717]),
    ),
    (
        "scripts per hour, D / reference",
        Some((1.917, [1.862, 1.977])),
        (1.372, [1.361, 1.382]),
    ),
    (
        "scripts per hour, D / A",
        Some((0.891, [0.856, 0.929])),
        (0.852, [0.843, 0.862]),
    ),
    (
        "scripts per hour, D / B",
        Some((0.873, [0.848, 0.902])),
        (0.849, [0.840, 0.858]),
    ),
    (
        "scripts per hour, D / C",
        Some((0.841, [0.814, 0.866])),
        (0.807, [0.799, 0.815]),
    ),
];

/// The known reasons.
const REASONS: &str = "\
Intervals cover the noise between rounds or runs of one method. They do not cover the effect of the method itself, or \
of the machine, which can be larger. Between the two former versions, there are two likely reasons. In the version of \
28 November, the names of removed homes collected in the dentry caches. So lookups of names walked longer chains, \
tables of dentries had a larger share in the time of a script, and memory was short earlier. In the version of 29 \
November, a thread for each user started and ended in each short turn, which was a part of the time of all kernels. \
Now threads live through a repetition. There are at most 60 of them: further threads would contend for shared counters \
all the time. It was not measured how much each of these reasons explains. The time of a miss is measured without \
turns.
";

impl Lever2000 {
    /// Describes the changes that do not belong to one finding.
    pub(super) fn changes_text(&self) -> String {
        let mut table = Table::new("effect | 28 November 2026 | 29 November 2026 | now");
        for (label, before, last) in FORMER {
            let mut effects = self
                .findings
                .iter()
                .flat_map(|judged| &judged.observed.effects);
            let Some(effect) = effects.find(|effect| effect.label == label) else {
                continue;
            };
            let interval = |(value, range): Former| Interval::new(value, range);
            let (before, last) = (before.map(interval), interval(last));
            let now = effect.estimate;
            if are_apart(last, now) || before.is_some_and(|before| are_apart(before, now)) {
                table.push([
                    label.to_owned(),
                    text_or(before, "-"),
                    last.to_string(),
                    now.to_string(),
                ]);
            }
        }
        format!(
            "{CHANGES}The following table contains the effects on throughput, and the ratio of the times of misses, whose \
             intervals do not overlap with those of a former version, although the effects are the same.\n\n{}\n{REASONS}",
            table.to_markdown()
        )
    }
}

/// Returns whether both intervals are known and do not overlap.
fn are_apart(one: Interval, other: Interval) -> bool {
    let is_below = |low: Interval, high: Interval| {
        let ends = low.high.zip(high.low);
        ends.is_some_and(|(end, start)| end < start)
    };
    is_below(one, other) || is_below(other, one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_intervals_without_a_common_point_are_apart() {
        let interval = |low, high| Interval::new(1.0, [low, high]);
        assert!(are_apart(interval(0.9, 1.0), interval(1.1, 1.2)));
        assert!(are_apart(interval(1.1, 1.2), interval(0.9, 1.0)));
        assert!(!are_apart(interval(0.906, 0.991), interval(0.956, 1.049)));
        assert!(!are_apart(interval(0.9, 1.0), Interval::unknown(2.0)));
    }
}
