//! Compares screens of invented values with stored screens. The backend keeps the drawn cells in memory.

use super::change::Change;
use super::lines;
use super::poller::Sample;
use super::screen::{SMALLEST, Screen};
use larder::tables::{Finder, TreeDepths};
use larder::{
    AttributeStats, CacheKind, CacheStats, HistogramReport, PolicyName, RecordingStats,
    ServerCounts, Stats, WritingStats,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};
use std::path::Path;
use std::time::{Duration, Instant};

/// Returns the values `seconds` after the first sample.
pub(super) fn sample(seconds: u64, cache: &str) -> Sample {
    let counted = |a_second: u64| a_second * (seconds + 100);
    let mut stats = Stats::default();
    stats.cache_size_bytes = 1 << 30;
    stats.page = CacheStats {
        buckets: 262_144,
        objects: 200_000,
        inserted: 200_000 + counted(1000),
        capacity: 262_144,
        lookups: counted(1_000_000),
        hits: counted(999_900),
        links_on_hits: counted(1_299_870),
        links_on_misses: counted(80),
        longest_chain: Some(7),
        bytes: 800 << 20,
        ..CacheStats::default()
    };
    stats.dentry = CacheStats {
        lookups: counted(10),
        hits: counted(9),
        links_on_hits: counted(18),
        links_on_misses: counted(1),
        longest_chain: Some(12),
        bytes: 1 << 20,
        ..CacheStats::default()
    };
    stats.readahead.policy = PolicyName::OnDemand;
    stats.readahead.max_bytes = 1 << 20;
    stats.readahead.windows = counted(3);
    stats.readahead.pages_ahead = counted(300);
    stats.readahead.pages_used = counted(290) - seconds * 90;
    stats.readahead.pages_wasted = counted(10) + seconds * 290;
    stats.device.reads = counted(4);
    stats.device.bytes = counted(1_300_000);
    stats.device.writes = seconds;
    stats.device.written_bytes = seconds << 20;
    stats.writing = Some(WritingStats {
        dirty_bytes: 3 << 19,
        ..WritingStats::default()
    });
    stats.attributes = Some(AttributeStats {
        shares: 1234,
        saved_bytes: 1234 << 12,
        ..AttributeStats::default()
    });
    Sample {
        at: Instant::now() + Duration::from_secs(seconds),
        stats,
        report: report(cache),
    }
}

/// Returns a histogram of 262144 buckets with 200000 objects, slightly worse than random.
fn report(cache: &str) -> HistogramReport {
    let text = format!(
        r#"{{"cache": "{cache}",
            "counts": {{"hits": 0, "misses": 0, "links_on_hits": 0, "links_on_misses": 0}},
            "histogram": {{"buckets": {{"0": 130000, "1": 82000, "2": 36144, "3": 10000, "4": 2500,
                "5": 1000, "6": 400, "7": 100}}}},
            "poisson": [122230.5, 93254.0, 35573.7, 9046.9, 1725.5, 263.3, 33.5, 3.6, 0.3, 0, 0, 0,
                0, 0, 0, 0, 0]}}"#
    );
    serde_json::from_str(&text).unwrap()
}

fn drawn(width: u16, height: u16, screen: Screen<'_>) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| frame.render_widget(screen, frame.area()))
        .unwrap();
    terminal
}

fn screen<'a>(change: &'a Change<'a>) -> Screen<'a> {
    Screen {
        mountpoint: Path::new("/mnt/disk"),
        interval: Duration::from_secs(1),
        change,
        notice: None,
        shows_help: false,
        has_keys: true,
        has_colours: false,
    }
}

#[track_caller]
fn assert_shows(terminal: &Terminal<TestBackend>, golden: &str) {
    let shown = lines(terminal.backend().buffer()).join("\n") + "\n";
    assert_eq!(shown, golden, "\n{shown}");
}

#[test]
fn smallest_screen_has_all_figures() {
    let (before, now) = (sample(0, "page"), sample(2, "page"));
    let change = Change::new(Some(&before), &now);
    let terminal = drawn(SMALLEST.width, SMALLEST.height, screen(&change));
    assert_shows(&terminal, include_str!("golden/smallest.txt"));
}

#[test]
fn larger_screen_has_longer_bars() {
    let (before, now) = (sample(0, "page"), sample(2, "page"));
    let change = Change::new(Some(&before), &now);
    let terminal = drawn(120, 30, screen(&change));
    assert_shows(&terminal, include_str!("golden/larger.txt"));
}

#[test]
fn first_screen_has_no_rates_and_marks_the_chosen_cache() {
    let now = sample(0, "dentry");
    let change = Change::new(None, &now);
    let terminal = drawn(80, 24, screen(&change));
    assert_shows(&terminal, include_str!("golden/first.txt"));
}

/// Tests the pages of a mount with `-o tables=D+page=rbtree` on the smallest screen.
#[test]
fn trees_are_shown_by_depth() {
    let mut now = sample(0, "page");
    now.stats.tables = "D+page=rbtree".parse().unwrap();
    now.stats.page.finder = Finder::RedBlackTrees;
    now.stats.page.buckets = 0;
    now.stats.page.longest_chain = Some(12);
    now.report = HistogramReport::of(CacheKind::Page, []);
    now.report.trees = Some(TreeDepths {
        trees: 3,
        largest: 4000,
        pages: vec![3, 6, 12, 24, 48, 96, 192, 384, 768, 1536, 1200, 31],
    });
    let change = Change::new(None, &now);
    let terminal = drawn(80, 24, screen(&change));
    assert_shows(&terminal, include_str!("golden/trees.txt"));
    let mut screen = screen(&change);
    screen.mountpoint = Path::new("/a/path/that/leaves/room/for/the/interval/alone");
    let shown = lines(drawn(80, 24, screen).backend().buffer());
    assert!(shown[0].ends_with("  every 1 s"), "{}", shown[0]);
}

#[test]
fn server_of_a_remote_image_is_shown() {
    let sample = |seconds| {
        let mut sample = sample(seconds, "page");
        (sample.stats.writing, sample.stats.attributes) = (None, None);
        sample.stats.server = Some(ServerCounts {
            requests: 40 + 20 * seconds,
            fetched_bytes: (100 + seconds) << 20,
            memory_bytes: (30 + 2 * seconds) << 20,
            disk_bytes: 3 << 30,
            latency_p99_us: Some(40_100),
            failed: seconds,
            ..ServerCounts::default()
        });
        sample
    };
    let (before, now) = (sample(0), sample(2));
    let change = Change::new(Some(&before), &now);
    let terminal = drawn(80, 24, screen(&change));
    assert_shows(&terminal, include_str!("golden/server.txt"));
}

#[test]
fn help_fits_the_smallest_screen() {
    let now = sample(0, "page");
    let change = Change::new(None, &now);
    let mut screen = screen(&change);
    screen.shows_help = true;
    let terminal = drawn(80, 24, screen);
    assert_shows(&terminal, include_str!("golden/help.txt"));
    assert!(super::help::HELP.lines().all(|line| line.len() <= 80));
}

#[test]
fn too_small_screen_shows_required_size() {
    let now = sample(0, "page");
    let change = Change::new(None, &now);
    for (width, height) in [(79, 24), (80, 23), (20, 8)] {
        let terminal = drawn(width, height, screen(&change));
        let shown = lines(terminal.backend().buffer()).join(" ");
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        let expected =
            format!("needs 80 columns and 24 rows; the terminal has {width} and {height}.");
        assert!(shown.contains(&expected), "{shown}");
    }
    // A terminal may have any size, including 0.
    drawn(1, 1, screen(&change));
}

#[test]
fn notice_shows_read_only_reason_and_failed_query() {
    let mut now = sample(0, "page");
    now.stats.writing.as_mut().unwrap().read_only_because = Some("the disk\x1b[2J is full".into());
    let change = Change::new(None, &now);
    let shown = lines(drawn(80, 24, screen(&change)).backend().buffer());
    assert_eq!(shown[2], r"turned read-only: the disk\033[2J is full");
    let mut screen = screen(&change);
    screen.notice = Some("not updated: it is unmounted");
    let shown = lines(drawn(80, 24, screen).backend().buffer());
    assert_eq!(shown[2], "not updated: it is unmounted");
}

#[test]
fn notice_shows_recording_and_its_failure() {
    let mut now = sample(0, "page");
    now.stats.recording = Some(RecordingStats {
        file: "/tmp/disk.trace".to_owned(),
        events: 12_300,
        lost: 4,
        failure: None,
    });
    let shown = |now: &Sample| {
        let change = Change::new(None, now);
        lines(drawn(80, 24, screen(&change)).backend().buffer())[2].clone()
    };
    assert_eq!(
        shown(&now),
        "recording 12.3k events, 4 lost, to /tmp/disk.trace"
    );
    let recording = now.stats.recording.as_mut().unwrap();
    recording.failure = Some("No space left on device".to_owned());
    assert_eq!(shown(&now), "recording ended: No space left on device");
}

#[test]
fn colours_do_not_change_text() {
    let now = sample(0, "page");
    let change = Change::new(None, &now);
    let plain = drawn(80, 24, screen(&change));
    let mut coloured = screen(&change);
    coloured.has_colours = true;
    let coloured = drawn(80, 24, coloured);
    let cells = |terminal: &Terminal<TestBackend>| terminal.backend().buffer().content.clone();
    assert!(
        cells(&plain)
            .iter()
            .all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset)
    );
    assert!(cells(&coloured).iter().any(|cell| cell.fg != Color::Reset));
    for (plain, coloured) in cells(&plain).iter().zip(cells(&coloured)) {
        assert_eq!(plain.symbol(), coloured.symbol());
        assert_eq!(
            plain.modifier & Modifier::BOLD,
            coloured.modifier & Modifier::BOLD
        );
    }
}

#[test]
fn rates_after_remount_are_not_negative() {
    let (before, now) = (sample(50, "page"), sample(0, "page"));
    let now = Sample {
        at: before.at + Duration::from_secs(1),
        ..now
    };
    let change = Change::new(Some(&before), &now);
    assert_eq!(change.rate(|stats| stats.page.lookups), Some(0.0));
    assert_eq!(change.cache(CacheKind::Page).hit_rate, None);
}
