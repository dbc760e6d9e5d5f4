//! A volume behaves the same with any tables: a walk finds the same names, metadata and content,
//! and its statistics report the tables.

use larder::tables::Finder;
use larder::{Ino, OpenOptions, Tables, Volume};
use larder_testkit::image::recipe;
use larder_testkit::{Comparison, Fields, Image, Requirement, VolumeSource, compare, skip};

/// Returns all named configurations of tables, and some others.
fn all() -> Vec<Tables> {
    let changed = [
        "page=rbtree",
        "reference+page=rbtree+shrink=eager",
        "D+sizes=2.2.16+dentry=mult-17",
        "A+sizes=today+inode=mult",
    ];
    let changed = changed.map(|text| text.parse().unwrap());
    Tables::NAMED
        .into_iter()
        .map(|(_, tables)| tables)
        .chain(changed)
        .collect()
}

#[test]
fn walk_finds_the_same_with_any_tables() {
    if skip(&["mke2fs", "debugfs", "tune2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    // Each frame has space for four blocks, so that buffers share frames.
    let image = Image::get(recipe("ext3-1k").unwrap()).unwrap();
    let open = |cache_size_bytes, tables| {
        let mut options = OpenOptions::default();
        options.cache_size_bytes = cache_size_bytes;
        options.tables = tables;
        Volume::open(image.path(), &options).unwrap()
    };
    let reference = open(64 << 20, Tables::LARDER);
    let comparison = Comparison {
        fields: Fields::all(),
        closed: &[],
    };
    for tables in all() {
        // The cache is much smaller than the image, so that everything is also evicted.
        let volume = open(2 << 20, tables);
        let sources = [&reference, &volume].map(VolumeSource::new);
        let report = compare(&sources[0], &sources[1], &comparison);
        report.assert_same(&tables.to_string());
        assert!(report.entries > 500, "{tables}: only {report}");
        for _ in 0..2 {
            volume.lookup(Ino::ROOT, b"lost+found").unwrap();
        }
        let stats = volume.stats();
        assert_eq!(stats.tables, tables);
        let expected = tables.table(larder::CacheKind::Page);
        let expected = expected.map_or(Finder::RedBlackTrees, |table| table.function.into());
        assert_eq!(stats.page.finder, expected, "{tables}");
        assert!(
            stats.page.hits > 0 && stats.dentry.hits > 0,
            "{tables}: {stats:?}"
        );
        // For trees, this is the depth of the deepest page.
        assert!(stats.page.longest_chain > Some(0), "{tables}");
        let has_buckets = expected != Finder::RedBlackTrees;
        assert_eq!(stats.page.buckets > 0, has_buckets, "{tables}");
    }
}

#[test]
fn tables_larger_than_the_caches_are_an_invalid_option() {
    let mut options = OpenOptions::default();
    options.cache_size_bytes = 1 << 20;
    options.tables = "A+page=mult/24".parse().unwrap();
    if skip(&["mke2fs", "debugfs", "tune2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    let image = Image::get(recipe("ext3-1k").unwrap()).unwrap();
    let error = Volume::open(image.path(), &options).unwrap_err();
    assert_eq!(error.errno(), rustix::io::Errno::INVAL, "{error}");
}
