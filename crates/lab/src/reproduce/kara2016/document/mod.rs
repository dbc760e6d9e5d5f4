//! The report: Markdown, the same as HTML, plots, CSV and JSON.

mod tables;

use std::fmt::Write as _;
use std::io;

use larder::MbCacheVariant::{self, Clock, ListLru, Lru, Off, Old, Referenced};

use super::findings::{Observed, Source, beyond_noise};
use super::verdict::{Judged, Verdict};
use super::{Kara2016, plots};
use crate::output::{Align, ReportFile, Table, significant};
use crate::published::kara2016::{OPERATIONS, PROCESSORS};
use crate::reproduce::Reproduction;

/// What a quick one is not.
const NO_REPRODUCTION: &str = "These are a few of the cases with a few sets: this is no reproduction.\n\
                               What is measured is not judged.";

impl Reproduction for Kara2016 {
    const NAME: &'static str = "kara2016";
    const TITLE: &'static str = "Kara 2016, reproduced";
    const LIMITS: &'static str = include_str!("limits.md");

    fn body(&self) -> String {
        let mut text = String::new();
        self.write_head(&mut text);
        let _ = writeln!(
            text,
            "## In short\n\n{}",
            self.findings_table().to_markdown()
        );
        self.write_criterion(&mut text);
        for finding in &self.findings {
            write_finding(&mut text, finding);
        }
        self.write_entries(&mut text);
        self.write_clock(&mut text);
        self.write_contention(&mut text);
        self.write_tables(&mut text);
        text
    }

    fn caveat(&self) -> Option<&'static str> {
        (!self.size.is_full()).then_some(NO_REPRODUCTION)
    }

    fn to_csv(&self) -> io::Result<String> {
        self.csv()
    }

    fn plots(&self) -> Vec<ReportFile> {
        plots::all(self)
    }

    /// A block for each finding, since figures are as wide as a terminal.
    fn verdicts(&self) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            let by = finding.decided_by.map(Source::as_str);
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{}\n  published  {}\n  ours       {}\n  verdict    {}{}",
                finding.claim,
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
}

impl Kara2016 {
    /// The numbers of values, each once, in their order.
    pub(super) fn values(&self) -> Vec<u32> {
        let mut values: Vec<u32> = self.size.cases.iter().map(|case| case.values).collect();
        values.dedup();
        values
    }

    fn write_head(&self, text: &mut String) {
        let config = &self.size.config;
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "The table of Jan Kara's \"ext\\[24\\]: MBCache rewrite\" (2016), measured again: P processes \
             set the attribute of F files each, to values from a pool of V, with five ways to find \
             equal values, and `clock`, which is ours.\n\n\
             Printed by `larder lab reproduce kara2016{}` from seed {}, on {} processors, where the \
             letter's machine had {PROCESSORS}. Each process sets {} times, not {OPERATIONS}; all \
             seconds are for {OPERATIONS}. Figures are {}. All are in \
             [kara2016.csv](kara2016.csv) and [kara2016.json](kara2016.json).\n",
            if self.size.is_full() { "" } else { " --quick" },
            config.seed,
            self.processors,
            config.operations,
            match config.runs {
                1 => "of one run".to_owned(),
                runs => format!("medians of {runs} runs"),
            },
        );
        text.push_str(
            "| table | what sets attributes |\n|-------|------|\n\
             | volume | threads, in Larder's file system on a memory device, ext4 without a journal |\n\
             | engine | threads, in the cache alone: blocks are numbers |\n\
             | kernel | processes, by setxattr(2) in the kernel's ext4 without a journal on an image \
             in memory, in the cases that its findings ask for; it can be `referenced` and, mounted with \
             `no_mbcache`, `off` |\n\
             | simulated | processes on 24 processors in virtual time, each with recorded operations \
             of the cache |\n\n",
        );
        for (source, reason) in &self.not_measured {
            let _ = writeln!(text, "Not measured: {}: {reason}\n", source.as_str());
        }
    }

    fn findings_table(&self) -> Table {
        let titles = ["finding", "published", "ours", "verdict", "by"];
        let mut table = Table::new(titles.map(|title| (title, Align::Left)));
        for finding in &self.findings {
            table.push(vec![
                finding.claim.to_owned(),
                figures(finding.published.as_ref()),
                decisive_figures(finding),
                finding.verdict.as_str().to_owned(),
                finding.decided_by.map_or("", Source::as_str).to_owned(),
            ]);
        }
        table
    }

    fn write_criterion(&self, text: &mut String) {
        let _ = write!(
            text,
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
            return;
        }
        let noises = self
            .ours
            .iter()
            .map(|(source, grid)| format!(" {} {}", source.as_str(), percent(grid.noise)));
        text.push(':');
        text.push_str(&noises.collect::<Vec<_>>().join(","));
        text.push_str(".\n\n");
    }

    fn write_entries(&self, text: &mut String) {
        text.push_str(
            "## Entry sizes\n\nThe letter: \"smaller cache entries (7 longs instead of 13)\", of 8 \
             bytes. Ours have no pointers but numbers of slots. Buckets are counted for a full cache.\n\n",
        );
        let titles = ["bytes", "with buckets", "published bytes"];
        let titles = titles.map(|title| (title, Align::Right));
        let mut table = Table::new([("variant", Align::Left)].into_iter().chain(titles));
        for size in &self.entries {
            let published = size.published_longs.map(|longs| (longs * 8).to_string());
            table.push(vec![
                size.variant.to_string(),
                size.bytes.to_string(),
                significant(size.bytes_with_buckets),
                published.unwrap_or_default(),
            ]);
        }
        let _ = writeln!(text, "{}", table.to_markdown());
    }

    fn write_clock(&self, text: &mut String) {
        text.push_str(
            "## Beyond the letter: `clock`\n\nNo list, and lookups without a lock. How many times as \
             long as it the others take, in the mean over all cases, and where it is slower than \
             `referenced` by more than the noise. Last, the files that came to share a block, for each \
             set, over all cases. Times and shares must be read together: at the limit of entries \
             `referenced` remembers up to twice as many as `clock`, and so makes more shares; a set \
             that shares nothing writes a block instead.\n\n",
        );
        let others = [Old, Lru, ListLru, Referenced, Off];
        let titles = others.map(|variant| (variant.as_str(), Align::Right));
        let titles = [("table", Align::Left)].into_iter().chain(titles);
        let last = ["slower than referenced", "shares of clock", "of referenced"];
        let last = last.map(|title| (title, Align::Right));
        let mut table = Table::new(titles.chain(last));
        for (source, grid) in &self.ours {
            let Some(slower) = beyond_noise(grid, Clock, Referenced) else {
                continue;
            };
            let means = others.map(|other| grid.mean_ratio(other, Clock, |_| true));
            let means = means.map(|mean| significant(mean.unwrap_or(f64::NAN)));
            let mut row = vec![source.as_str().to_owned()];
            row.extend(means);
            let is_judged = *source == Source::Simulated || self.size.is_full();
            row.push(if is_judged {
                slower.to_string()
            } else {
                Verdict::NotJudged.as_str().to_owned()
            });
            row.extend([Clock, Referenced].map(|variant| self.shares_of(*source, variant)));
            table.push(row);
        }
        let _ = writeln!(text, "{}", table.to_markdown());
    }

    fn shares_of(&self, source: Source, variant: MbCacheVariant) -> String {
        let mut shares = self.shares.iter();
        let found = shares.find(|of| of.source == source && of.variant == variant);
        found.map_or_else(|| "-".to_owned(), |of| format!("{:.3}", of.per_set))
    }
}

fn write_finding(text: &mut String, finding: &Judged) {
    let _ = writeln!(
        text,
        "### {}\n\nThe letter: {}. Shown where {}.\n",
        capitalised(finding.name),
        finding.claim,
        finding.criterion
    );
    let titles = ["table", "figures", "verdict"].map(|title| (title, Align::Left));
    let mut table = Table::new(titles);
    let published = figures(finding.published.as_ref());
    table.push(vec!["published".to_owned(), published, String::new()]);
    for answer in &finding.ours {
        table.push(vec![
            answer.source.as_str().to_owned(),
            figures(answer.observed.as_ref()),
            answer.verdict.as_str().to_owned(),
        ]);
    }
    let _ = writeln!(text, "{}", table.to_markdown());
}

fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn figures(observed: Option<&Observed>) -> String {
    observed.map_or_else(|| "-".to_owned(), |observed| observed.figures.clone())
}

/// Those of the table that decided.
fn decisive_figures(finding: &Judged) -> String {
    let decisive = finding.decisive();
    figures(decisive.and_then(|answer| answer.observed.as_ref()))
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}
