//! The report: Markdown, the same as HTML, plots, CSV and JSON.

mod tables;

use std::fmt::Write as _;
use std::io;

use larder::MbCacheVariant::{self, Clock, ListLru, Lru, Off, Old, Referenced};

use super::findings::{Observed, Source, beyond_noise};
use super::verdict::{Judged, Verdict};
use super::{Kara2016, plots};
use crate::output::{Report, ReportFile, Table, significant, text_or};
use crate::published::kara2016::{OPERATIONS, PROCESSORS};

/// Disclaimer of a quick reproduction.
const NO_REPRODUCTION: &str = "These are a few of the cases with a few sets: this is no reproduction.\n\
                               What is measured is not judged.\n\n";

const LIMITS: &str = include_str!("limits.md");

impl Report for Kara2016 {
    const NAME: &'static str = "kara2016";
    const TITLE: &'static str = "Kara 2016, reproduced";

    fn body(&self) -> String {
        let mut text = self.caveat().to_owned();
        text.push_str(&self.head());
        let _ = writeln!(
            text,
            "## In short\n\n{}",
            self.findings_table().to_markdown()
        );
        text.push_str(&self.criterion());
        text.extend(self.findings.iter().map(described));
        text.extend([
            self.entries_text(),
            self.clock_text(),
            self.contention_text(),
            self.tables_text(),
            LIMITS.to_owned(),
        ]);
        text
    }

    fn to_csv(&self) -> io::Result<String> {
        self.csv()
    }

    fn plots(&self) -> Vec<ReportFile> {
        plots::all(self)
    }
}

impl Kara2016 {
    fn caveat(&self) -> &'static str {
        if self.size.is_full() {
            ""
        } else {
            NO_REPRODUCTION
        }
    }

    /// Returns the printed summary: a block for each finding, since the figures need the width of a
    /// terminal.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = self.caveat().to_owned();
        for finding in &self.findings {
            let by = finding.decided_by.map(Source::as_str);
            let _ = writeln!(
                text,
                "{}\n  published  {}\n  ours       {}\n  verdict    {}{}",
                finding.finding.claim,
                figures(finding.published.as_ref()),
                decisive_figures(finding),
                finding.verdict.as_str(),
                by.map(|by| format!(", by {by}")).unwrap_or_default(),
            );
        }
        for (source, reason) in &self.not_measured {
            let _ = writeln!(text, "\nnot measured: {}: {reason}", source.as_str());
        }
        text
    }

    /// Returns the numbers of values, each once, in order.
    pub(super) fn values(&self) -> Vec<u32> {
        let mut values: Vec<u32> = self.size.cases.iter().map(|case| case.values).collect();
        values.dedup();
        values
    }

    fn head(&self) -> String {
        let config = &self.size.config;
        let mut text = format!(
            "The table of Jan Kara's \"ext\\[24\\]: MBCache rewrite\" (2016), measured again: P processes \
             set the attribute of F files each, to values from a pool of V, with five ways to find \
             equal values, and `clock`, which is ours.\n\n\
             Printed by `larder lab reproduce kara2016{}` from seed {}, on {} processors, where the \
             letter's machine had {PROCESSORS}. Each process sets {} times, not {OPERATIONS}; all \
             seconds are for {OPERATIONS}. Figures are {}. All are in \
             [kara2016.csv](kara2016.csv) and [kara2016.json](kara2016.json).\n\n\
             | table | what sets attributes |\n|-------|------|\n\
             | volume | threads, in Larder's file system on a memory device, ext4 without a journal |\n\
             | engine | threads, in the cache alone: blocks are numbers |\n\
             | kernel | processes, by setxattr(2) in the kernel's ext4 without a journal on an image \
             in memory, in the cases that its findings ask for; it can be `referenced` and, mounted with \
             `no_mbcache`, `off` |\n\
             | simulated | processes on 24 processors in virtual time, each with recorded operations \
             of the cache |\n\n",
            if self.size.is_full() { "" } else { " --quick" },
            config.seed,
            self.processors,
            config.operations,
            match config.runs {
                1 => "of one run".to_owned(),
                runs => format!("medians of {runs} runs"),
            },
        );
        for (source, reason) in &self.not_measured {
            let _ = writeln!(text, "Not measured: {}: {reason}\n", source.as_str());
        }
        text
    }

    fn findings_table(&self) -> Table {
        let mut table = Table::new("finding | published | ours | verdict | by");
        for finding in &self.findings {
            table.push([
                finding.finding.claim.to_owned(),
                figures(finding.published.as_ref()),
                decisive_figures(finding),
                finding.verdict.as_str().to_owned(),
                text_or(finding.decided_by.map(Source::as_str), ""),
            ]);
        }
        table
    }

    fn criterion(&self) -> String {
        let mut text = format!(
            "## How findings are judged\n\n\
             The rules were fixed before the first figure of ours was seen. Each finding is one question \
             to a table, and the published table answers all of them with yes. A table of ours agrees \
             if it does so too. If not, it differs, but a finding about processors that wait for one \
             another cannot be shown by a table measured on fewer than {PROCESSORS}: then the simulated \
             table decides. Else the first of volume, engine and kernel does.\n\n\
             The noise of a table is how much more one figure may be than another with no reason. Of \
             the letter's it is how much figures of `off` differ that have the same P and F, since V \
             is nothing to it ({}); of ours, how much longer the longest run took than the shortest. \
             Both are medians, and at least 5%",
            percent(self.published.noise),
        );
        if self.size.config.runs == 1 {
            text.push_str(", which is taken here, since one run shows none.\n\n");
            return text;
        }
        let noises = self.ours.iter();
        let noises =
            noises.map(|(source, grid)| format!(" {} {}", source.as_str(), percent(grid.noise)));
        text + ":" + &noises.collect::<Vec<_>>().join(",") + ".\n\n"
    }

    fn entries_text(&self) -> String {
        let mut table = Table::new("variant | bytes: | with buckets: | published bytes:");
        for size in &self.entries {
            table.push([
                size.variant.to_string(),
                size.bytes.to_string(),
                significant(size.bytes_with_buckets),
                text_or(size.published_longs.map(|longs| longs * 8), ""),
            ]);
        }
        format!(
            "## Entry sizes\n\nThe letter: \"smaller cache entries (7 longs instead of 13)\", of 8 \
             bytes. Ours have no pointers but numbers of slots. Buckets are counted for a full cache.\n\n\
             {}\n",
            table.to_markdown()
        )
    }

    fn clock_text(&self) -> String {
        let others = [Old, Lru, ListLru, Referenced, Off];
        let mut table = Table::new("table")
            .with_numbers(others.map(MbCacheVariant::as_str))
            .with_numbers(["slower than referenced", "shares of clock", "of referenced"]);
        for (source, grid) in &self.ours {
            let Some(slower) = beyond_noise(grid, Clock, Referenced) else {
                continue;
            };
            let means = others.map(|other| grid.mean_ratio(other, Clock, |_| true));
            let mut row = vec![source.as_str().to_owned()];
            row.extend(means.map(|mean| significant(mean.unwrap_or(f64::NAN))));
            let is_judged = *source == Source::Simulated || self.size.is_full();
            row.push(if is_judged {
                slower.to_string()
            } else {
                Verdict::NotJudged.as_str().to_owned()
            });
            row.extend([Clock, Referenced].map(|variant| self.shares_of(*source, variant)));
            table.push(row);
        }
        format!(
            "## Beyond the letter: `clock`\n\nNo list, and lookups without a lock. How many times as \
             long as it the others take, in the mean over all cases, and where it is slower than \
             `referenced` by more than the noise. Last, the files that came to share a block, for each \
             set, over all cases. Times and shares must be read together: at the limit of entries \
             `referenced` remembers up to twice as many as `clock`, and so makes more shares; a set \
             that shares nothing writes a block instead.\n\n{}\n",
            table.to_markdown()
        )
    }

    fn shares_of(&self, source: Source, variant: MbCacheVariant) -> String {
        let mut shares = self.shares.iter();
        let found = shares.find(|of| of.source == source && of.variant == variant);
        text_or(found.map(|of| format!("{:.3}", of.per_set)), "-")
    }
}

fn described(judged: &Judged) -> String {
    let mut table = Table::new("table | figures | verdict");
    let published = figures(judged.published.as_ref());
    table.push(["published".to_owned(), published, String::new()]);
    for answer in &judged.ours {
        table.push([
            answer.source.as_str().to_owned(),
            figures(answer.observed.as_ref()),
            answer.verdict.as_str().to_owned(),
        ]);
    }
    format!(
        "### {}\n\nThe letter: {}. Shown where {}.\n\n{}\n",
        capitalised(judged.finding.name),
        judged.finding.claim,
        judged.finding.criterion,
        table.to_markdown()
    )
}

fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn figures(observed: Option<&Observed>) -> String {
    text_or(observed.map(|observed| &observed.figures), "-")
}

/// Returns the figures of the decisive table.
fn decisive_figures(finding: &Judged) -> String {
    let decisive = finding.decisive();
    figures(decisive.and_then(|answer| answer.observed.as_ref()))
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}
