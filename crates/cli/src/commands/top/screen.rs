//! The layout of the screen of `larder top`.

use super::change::{Change, as_f64, ratio};
use super::count::short;
use super::help::HELP;
use super::histogram::{bars, cells, depth_bars};
use larder::{RecordingStats, ServerCounts, Stats};
use larder_console::{name, size};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect, Size};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, Widget, Wrap};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// The smallest terminal, in columns and rows, into which the screen fits.
pub(super) const SMALLEST: Size = Size::new(80, 24);

/// The width of the column to the right of the histogram.
const RIGHT_COLUMNS: u16 = 34;
/// The width of the bar that shows the memory in use.
const MEMORY_COLUMNS: usize = 16;

/// The content of the screen.
#[derive(Debug)]
pub(super) struct Screen<'a> {
    pub mountpoint: &'a Path,
    pub interval: Duration,
    pub change: &'a Change<'a>,
    /// The reason why the values could not be updated, if the last query failed.
    pub notice: Option<&'a str>,
    pub shows_help: bool,
    /// Whether keys have an effect. If not, the line that explains them is omitted.
    pub has_keys: bool,
    /// Whether colours are used. The text contains everything that the colours show.
    pub has_colours: bool,
}

impl Widget for Screen<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Size {
            width: columns,
            height: rows,
        } = SMALLEST;
        if area.width < columns || area.height < rows {
            let Rect { width, height, .. } = area;
            let text = format!(
                "larder top needs {columns} columns and {rows} rows; the terminal has {width} and \
                 {height}. Enlarge it, or press q and use --once."
            );
            return Paragraph::new(text)
                .wrap(Wrap { trim: true })
                .render(area, buffer);
        }
        let [title, memory, notice, caches, _, rest, keys] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Length(5),
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(area);
        self.title(title, buffer);
        self.memory().render(memory, buffer);
        self.notice().render(notice, buffer);
        if self.shows_help {
            let below = Rect {
                height: area.height - 4,
                y: caches.y,
                ..area
            };
            Text::raw(HELP).render(below, buffer);
        } else {
            Text::from(self.caches()).render(caches, buffer);
            let [left, right] =
                Layout::horizontal([Constraint::Min(0), Constraint::Length(RIGHT_COLUMNS)])
                    .areas(rest);
            Text::from(self.histogram(left)).render(left, buffer);
            Text::from(self.activity()).render(right, buffer);
        }
        if self.has_keys {
            let text = "q quit   arrow keys choose a cache   ? help";
            Line::raw(text).style(self.heading()).render(keys, buffer);
        }
    }
}

impl Screen<'_> {
    fn stats(&self) -> &Stats {
        &self.change.now.stats
    }

    fn title(&self, area: Rect, buffer: &mut Buffer) {
        let mountpoint = name::escaped(self.mountpoint.as_os_str().as_bytes());
        let title = Line::raw(format!("larder top  {mountpoint}")).bold();
        (&title).render(area, buffer);
        let tables = self.stats().tables.to_string();
        let base = tables.split('+').next().unwrap_or_default();
        let interval = format!("every {} s", self.interval.as_secs_f64());
        // The mount point is always shown, because it identifies this view. The tables and the interval
        // are shown only if they fit.
        let available = usize::from(area.width).saturating_sub(title.width() + 2);
        let texts = [
            format!("tables {tables}, {interval}"),
            format!("tables {base}+..., {interval}"),
            interval,
        ];
        let fitting = texts.into_iter().find(|text| text.len() <= available);
        Line::raw(fitting.unwrap_or_default())
            .right_aligned()
            .render(area, buffer);
    }

    fn memory(&self) -> Line<'static> {
        let stats = self.stats();
        let used_bytes = stats
            .caches()
            .iter()
            .map(|(_, cache)| cache.bytes)
            .sum::<u64>();
        let share = ratio(used_bytes, stats.cache_size_bytes).unwrap_or(0.0);
        let bar = "#".repeat(cells(share, MEMORY_COLUMNS));
        let readahead = &stats.readahead;
        Line::raw(format!(
            "memory {} of {} [{bar:-<MEMORY_COLUMNS$}]  readahead {}, {}",
            size::human(used_bytes),
            size::human(stats.cache_size_bytes),
            readahead.policy,
            size::human(readahead.max_bytes),
        ))
    }

    /// Returns the line that shows a problem of the query, the volume or the recording, or the progress
    /// of a recording. Without a problem or a recording, the line is empty.
    fn notice(&self) -> Line<'static> {
        let writing = self.stats().writing.as_ref();
        let read_only = writing.and_then(|writing| writing.read_only_because.as_deref());
        let recording = self.stats().recording.as_ref();
        let failure = recording.and_then(|recording| recording.failure.as_deref());
        let escaped = |why: &str| name::escaped(why.as_bytes());
        let text = match (self.notice, read_only, failure) {
            (Some(notice), ..) => notice.to_owned(),
            (None, Some(why), _) => format!("turned read-only: {}", escaped(why)),
            (None, None, Some(why)) => format!("recording ended: {}", escaped(why)),
            (None, None, None) => return Line::raw(recording.map(progress).unwrap_or_default()),
        };
        Line::raw(text).style(self.alarm())
    }

    /// Returns the table with one row for each cache.
    fn caches(&self) -> Vec<Line<'static>> {
        let head = format!(
            "  {:<7}{:>9}{:>10}{:>9}{:>11}{:>12}{:>9}{:>11}",
            "cache",
            "lookups/s",
            "hits now",
            "overall",
            "links/hit",
            "links/miss",
            "longest",
            "memory"
        );
        let mut lines = vec![Line::raw(head).style(self.heading())];
        for (kind, cache) in self.stats().caches() {
            let is_chosen = kind == self.change.now.report.cache;
            let change = self.change.cache(kind);
            let row = format!(
                "{} {:<7}{:>9}{:>10}{:>9}{:>11}{:>12}{:>9}{:>11}",
                if is_chosen { '>' } else { ' ' },
                kind.as_str(),
                or_none(change.rate, short),
                or_none(change.hit_rate, percent),
                or_none(ratio(cache.hits, cache.lookups), percent),
                or_none(change.links_per_hit, two_decimals),
                or_none(change.links_per_miss, two_decimals),
                cache
                    .longest_chain
                    .map_or("-".to_owned(), |chain| chain.to_string()),
                size::human(cache.bytes),
            );
            let line = Line::raw(row);
            lines.push(if is_chosen { line.bold() } else { line });
        }
        lines
    }

    /// Returns the totals and the histogram of the chosen cache.
    fn histogram(&self, area: Rect) -> Vec<Line<'static>> {
        let report = &self.change.now.report;
        let cache = self.stats().cache(report.cache);
        let change = self.change.cache(report.cache);
        let walked = |links, lookups| or_none(ratio(links, lookups), two_decimals);
        let found_in = match &report.trees {
            Some(trees) => counted(trees.trees, "red-black tree"),
            None => format!("{}, {}", counted(cache.buckets, "bucket"), cache.finder),
        };
        let mut lines = vec![
            Line::raw(format!(
                "{}: {}, {found_in}",
                report.cache.as_str(),
                counted(cache.objects, "object"),
            ))
            .bold(),
            Line::raw(format!(
                "per s: {} inserted, {} removed",
                or_none(change.inserted, short),
                or_none(change.removed, short),
            )),
            Line::raw(format!(
                "overall: {} links/hit, {} links/miss",
                walked(cache.links_on_hits, cache.searches().hits),
                walked(cache.links_on_misses, cache.searches().misses),
            )),
        ];
        let head = match &report.trees {
            Some(trees) => format!(
                "{:>5} {:>8}  (largest tree: {})",
                "depth",
                "pages",
                counted(trees.largest, "page")
            ),
            None => format!("{:>5} {:>8} {:>8}", "chain", "buckets", "Poisson"),
        };
        lines.push(Line::raw(head).style(self.heading()));
        let rows = usize::from(area.height).saturating_sub(lines.len());
        let columns = usize::from(area.width).saturating_sub(2);
        lines.extend(match &report.trees {
            Some(trees) => depth_bars(trees, rows, columns),
            None => bars(report, rows, columns),
        });
        lines
    }

    /// Returns the activity of readahead, the device, the image's server and shared attributes.
    fn activity(&self) -> Vec<Line<'static>> {
        let stats = self.stats();
        let head = format!("{:<14}{:>9}{:>11}", "", "per s", "total");
        let mut lines = vec![
            Line::raw(head).style(self.heading()),
            self.count("windows ahead", |stats| stats.readahead.windows),
            self.count("pages ahead", |stats| stats.readahead.pages_ahead),
            self.count("  used", |stats| stats.readahead.pages_used),
            self.count("  wasted", |stats| stats.readahead.pages_wasted),
            self.wasted(),
            self.count("device reads", |stats| stats.device.reads),
            self.bytes("  read", |stats| stats.device.bytes),
        ];
        if let Some(server) = &stats.server {
            let of = |count: fn(&ServerCounts) -> u64| {
                move |stats: &Stats| stats.server.as_ref().map_or(0, count)
            };
            lines.extend([
                self.count("requests", of(|server| server.requests)),
                self.bytes("  fetched", of(|server| server.fetched_bytes)),
                self.bytes("  memory", of(|server| server.memory_bytes)),
                self.bytes("  disk cache", of(|server| server.disk_bytes)),
                total_line(
                    "  99% within",
                    &or_none(server.latency_p99_us.map(as_f64), milliseconds),
                ),
                self.count("  failed", of(|server| server.failed)),
            ]);
        }
        if let Some(writing) = &stats.writing {
            lines.extend([
                self.count("device writes", |stats| stats.device.writes),
                self.bytes("  written", |stats| stats.device.written_bytes),
                self.count("  flushes", |stats| stats.device.flushes),
                total_line("dirty", &size::human(writing.dirty_bytes)),
            ]);
        }
        if let Some(attributes) = &stats.attributes {
            let shares = |stats: &Stats| stats.attributes.as_ref().map_or(0, |of| of.shares);
            lines.extend([
                self.count("attr. shares", shares),
                total_line("  saved", &size::human(attributes.saved_bytes)),
            ]);
        }
        lines
    }

    fn count(&self, label: &str, count: impl Fn(&Stats) -> u64) -> Line<'static> {
        let rate = or_none(self.change.rate(&count), short);
        let total = short(as_f64(count(self.stats())));
        Line::raw(format!("{label:<14}{rate:>9}{total:>11}"))
    }

    fn bytes(&self, label: &str, count: impl Fn(&Stats) -> u64) -> Line<'static> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "shown in KiB or more, and never less than 0"
        )]
        let rate = or_none(self.change.rate(&count), |rate| {
            size::human(rate.round() as u64)
        });
        let total = size::human(count(self.stats()));
        Line::raw(format!("{label:<12}{rate:>11}{total:>11}"))
    }

    /// Returns the line with the share of wasted pages: of the pages read ahead that were either used or
    /// evicted by now, those that were evicted before use.
    fn wasted(&self) -> Line<'static> {
        let wasted = |stats: &Stats| stats.readahead.pages_wasted;
        let decided = |stats: &Stats| stats.readahead.pages_used + stats.readahead.pages_wasted;
        let now = self.change.ratio(wasted, decided);
        let total = ratio(wasted(self.stats()), decided(self.stats()));
        let line = Line::raw(format!(
            "{:<14}{:>9}{:>11}",
            "  wasted share",
            or_none(now, percent),
            or_none(total, percent)
        ));
        if now.is_some_and(|share| share >= 0.5) {
            line.style(self.alarm())
        } else {
            line
        }
    }

    fn heading(&self) -> Style {
        self.emphasized(Color::Cyan)
    }

    fn alarm(&self) -> Style {
        self.emphasized(Color::Red)
    }

    fn emphasized(&self, color: Color) -> Style {
        let style = Style::new().bold();
        if self.has_colours {
            style.fg(color)
        } else {
            style
        }
    }
}

/// Returns the progress of a recording. The name of its file is last, because a long name may be cut off.
fn progress(recording: &RecordingStats) -> String {
    format!(
        "recording {}, {} lost, to {}",
        counted(recording.events, "event"),
        short(as_f64(recording.lost)),
        name::escaped(recording.file.as_bytes())
    )
}

fn total_line(label: &str, total: &str) -> Line<'static> {
    Line::raw(format!("{label:<14}{total:>20}"))
}

fn or_none(value: Option<f64>, shown: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), shown)
}

/// Returns a share as a percentage, rounded down, so that only a share of 1 is shown as 100%.
fn percent(share: f64) -> String {
    format!("{:.1}%", (share * 1000.0).floor() / 10.0)
}

fn two_decimals(value: f64) -> String {
    format!("{value:.2}")
}

/// Returns a time in microseconds as milliseconds, rounded up.
fn milliseconds(micros: f64) -> String {
    format!("{} ms", (micros / 1000.0).ceil())
}

/// Returns a count with its noun.
fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", short(as_f64(count)))
}
