//! The screens of all pages.

use super::super::glyphs::Glyphs;
use super::super::sort::Sort;
use super::{Stage, page_of, sample, samples};
use crate::args::top::Page;
use larder::tables::{Finder, TreeDepths};
use larder::{CacheKind, HistogramReport, MountTransport, RequestStats, ServerCounts};

/// The sizes of the stored screens.
const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 50)];

#[track_caller]
fn assert_page(page: Page, name: &str) {
    let stage = Stage::busy().page(page);
    for (width, height) in SIZES {
        stage.assert_shows(width, height, &format!("{name}-{width}x{height}"));
    }
}

#[test]
fn overview_is_as_stored() {
    assert_page(Page::Overview, "overview");
}

#[test]
fn fuse_page_is_as_stored() {
    assert_page(Page::Fuse, "fuse");
}

#[test]
fn files_page_is_as_stored() {
    assert_page(Page::Files, "files");
}

#[test]
fn processes_page_is_as_stored() {
    assert_page(Page::Processes, "processes");
}

#[test]
fn device_page_is_as_stored() {
    assert_page(Page::Device, "device");
}

#[test]
fn journal_page_is_as_stored() {
    assert_page(Page::Journal, "journal");
}

#[test]
fn cache_page_is_as_stored() {
    assert_page(page_of(CacheKind::Page), "cache");
}

#[test]
fn first_screen_has_no_rates_and_marks_the_chosen_cache() {
    let stage = Stage::new(None, sample(0, "dentry"));
    stage.assert_shows(80, 24, "first");
}

#[test]
fn ascii_screen_has_only_ascii() {
    let mut stage = Stage::busy();
    stage.look.glyphs = Glyphs::ASCII;
    for page in Page::ALL {
        stage.state.page = page;
        let lines = stage.lines(200, 50);
        assert!(
            lines.iter().all(|line| line.is_ascii()),
            "{}",
            lines.join("\n")
        );
    }
    stage.state.page = Page::Overview;
    stage.assert_shows(80, 24, "ascii");
}

/// Tests the pages of a mount with `-o tables=D+page=rbtree`.
#[test]
fn trees_are_shown_by_depth() {
    let mut now = samples::busy(0);
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
    let mut stage = Stage::new(None, now).page(page_of(CacheKind::Page));
    stage.assert_shows(80, 24, "trees");
    stage.mountpoint = "/a/path/that/leaves/room/for/the/interval/alone";
    let title = &stage.lines(80, 24)[0];
    assert!(title.ends_with("  every 1 s"), "{title}");
}

/// An image at a URL is mounted read-only, and has a server.
#[test]
fn server_of_a_remote_image_is_shown() {
    let sample = |seconds| {
        let mut sample = samples::busy(seconds);
        (sample.stats.writing, sample.stats.attributes) = (None, None);
        sample.stats.server = Some(ServerCounts {
            requests: 40 + 20 * seconds,
            fetched_bytes: (100 + seconds) << 20,
            memory_bytes: (30 + 2 * seconds) << 20,
            disk_bytes: 3 << 30,
            latency_p99_us: Some(140_100),
            failed: seconds,
            last_failure: Some("status 503\u{7}".to_owned()),
            ..ServerCounts::default()
        });
        sample
    };
    let mut stage = Stage::new(Some(sample(0)), sample(2));
    stage.assert_shows(80, 24, "server-overview");
    stage.state.page = Page::Device;
    for (width, height) in SIZES {
        stage.assert_shows(width, height, &format!("server-device-{width}x{height}"));
    }
}

#[test]
fn read_only_mount_has_no_journal() {
    let mut now = samples::busy(0);
    (now.stats.writing, now.stats.attributes) = (None, None);
    let stage = Stage::new(None, now).page(Page::Journal);
    let shown = stage.lines(80, 24).join("\n");
    assert!(shown.contains("The image is mounted read-only."), "{shown}");
}

#[test]
fn order_and_mark_of_operations_follow_the_state() {
    let mut stage = Stage::busy().page(Page::Fuse);
    stage.state.operations = Sort::new(5);
    stage.state.row = 1;
    let shown = stage.lines(120, 40);
    let head = shown
        .iter()
        .position(|line| line.contains("▼errors"))
        .unwrap();
    assert!(
        shown[head + 1].starts_with("  lookup "),
        "{}",
        shown[head + 1]
    );
    assert!(
        shown[head + 2].starts_with("> read "),
        "{}",
        shown[head + 2]
    );
    let shown = shown.join("\n");
    assert!(shown.contains("read: 120 requests"), "{shown}");
    assert!(shown.contains("errors: EINTR 3, EIO 1"), "{shown}");
}

#[test]
fn marked_row_of_a_long_list_is_visible() {
    let mut stage = Stage::busy().page(Page::Files);
    if let Some(hot) = &mut stage.now.stats.hot {
        let file = hot.files[0].clone();
        hot.files = (0..32)
            .map(|ino| larder::HotFile {
                ino,
                ..file.clone()
            })
            .collect();
        hot.files.iter_mut().for_each(|file| file.path = None);
    }
    stage.state.files = Sort {
        column: 4,
        is_reversed: true,
    };
    for row in [0, 5, 20, 31, 99] {
        stage.state.row = row;
        let shown = stage.lines(80, 24);
        let marked = format!(" inode {}", row.min(31));
        let is_marked = |line: &&String| line.starts_with("> ") && line.ends_with(&marked);
        assert!(
            shown.iter().any(|line| is_marked(&line)),
            "{}",
            shown.join("\n")
        );
    }
}

#[test]
fn mount_without_requests_says_so() {
    let mut now = sample(0, "page");
    now.stats.transport = Some(MountTransport::Device);
    let shown = |now: &super::Sample, page| {
        Stage::new(None, now.clone())
            .page(page)
            .lines(80, 24)
            .join("\n")
    };
    for page in [Page::Overview, Page::Fuse, Page::Files, Page::Processes] {
        let shown = shown(&now, page);
        assert!(shown.contains("not recorded by this mount"), "{shown}");
    }
    now.stats.requests = Some(RequestStats::default());
    let shown = shown(&now, Page::Fuse);
    assert!(
        shown.contains("no request yet: the kernel has answered everything"),
        "{shown}"
    );
}
