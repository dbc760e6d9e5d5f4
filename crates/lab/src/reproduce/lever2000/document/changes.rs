//! What changed since the last version.

use crate::output::{Table, text_or};
use crate::reproduce::lever2000::results::Lever2000;
use crate::statistics::Interval;

const CHANGES: &str = "\
The last version is of 28 November 2026 (commit 63ad1461). There, kernels took turns of whole passes, and the pairs of \
throughputs were runs. Now they take turns of a few hundredths of a second; a run consists of several rounds with new \
volumes, and the rounds are the pairs. The effects are on the first page, beside the verdicts. A longest chain is judged \
with a margin of one entry. Seven claims are judged that were not judged before. Commit 9875a7e7 published earlier \
rounds of this method with other rules for six findings: in it, Histogram 4 and kernel D did not hold, and Histogram 3, \
the size of the page cache's table, the process table and the user table held. Commit 3e180066 published the earlier \
rounds with the present rules. For this page, all rounds were measured again.

";

/// Effects in the last version whose intervals do not overlap with those of the first results of this version, although
/// their rules did not change: the label, and the estimate with its interval.
const MOVED: [(&str, f64, [f64; 2]); 9] = [
    ("scripts per hour, A / reference", 2.151, [2.083, 2.216]),
    ("scripts per hour, B / reference", 2.197, [2.127, 2.259]),
    ("scripts per hour, C / reference", 2.279, [2.177, 2.393]),
    ("scripts per hour, D / reference", 1.917, [1.862, 1.977]),
    ("scripts per hour, 8192 / 2048", 1.339, [1.289, 1.379]),
    (
        "scripts per hour, 14-bit / reference",
        1.132,
        [1.109, 1.155],
    ),
    (
        "scripts per hour, 13-bit / reference",
        1.092,
        [1.070, 1.113],
    ),
    (
        "scripts per hour, shrink + mult 11 / mult shift 11",
        1.031,
        [0.967, 1.099],
    ),
    ("time of a miss, dentry / page", 0.950, [0.906, 0.991]),
];

/// The likely reasons.
const REASONS: &str = "\
Intervals cover the noise between rounds or runs of one method. They do not cover the effect of the method itself, which \
is larger here. There are two likely reasons. In the last version, volumes were kept for all runs, and the names of \
removed homes collected in the dentry caches: with the reference kernel in Table 6, a lookup of a name walked 52.7 links, \
and now walks 23.8. Therefore tables of dentries had a larger share in the time of a script, and memory was short \
earlier. Now a thread for each user starts and ends in each short turn, which is a part of the time of all kernels. It \
was not measured how much each of them explains. The last row is measured without turns; Larder changed in between.
";

impl Lever2000 {
    /// Describes the changes that do not belong to one finding.
    pub(super) fn changes_text(&self) -> String {
        let mut table = Table::new("effect | last version | now");
        for (label, value, range) in MOVED {
            let mut effects = self
                .findings
                .iter()
                .flat_map(|judged| &judged.observed.effects);
            let now = effects.find(|effect| effect.label == label);
            table.push([
                label.to_owned(),
                Interval::new(value, range).to_string(),
                text_or(now.map(|effect| effect.estimate), "-"),
            ]);
        }
        format!(
            "{CHANGES}The rules of the following effects did not change, but their intervals do not overlap with those of \
             the last version:\n\n{}\n{REASONS}",
            table.to_markdown()
        )
    }
}
