//! Tests of the oracles: sources that they report as equal are equal, and images contain what their
//! trees specify.

use larder::{OpenOptions, Volume};
use larder_block::{BlockDevice, FileDevice, FileRange};
use larder_testkit::device::PatchedDevice;
use larder_testkit::image::{OracleKind, Populate, recipe};
use larder_testkit::tool::Tool;
use larder_testkit::tree::Tree;
use larder_testkit::{
    Access, Comparison, DirectorySource, Fields, Image, LoopMount, Oracle, Recipe, Requirement,
    Source, VolumeSource, compare, skip,
};
use std::sync::Arc;

const NEEDED: [Requirement; 3] = [
    Requirement::Tool("mke2fs"),
    Requirement::Tool("debugfs"),
    Requirement::LoopMount,
];

fn image(recipe: &Recipe) -> Image {
    Image::get(recipe).unwrap_or_else(|error| panic!("{}: {error}", recipe.name))
}

fn named(name: &str) -> &'static Recipe {
    recipe(name).unwrap_or_else(|| panic!("unknown recipe {name}"))
}

#[test]
fn two_mounts_of_one_image_are_equal() {
    if skip(&NEEDED) {
        return;
    }
    let image = image(named("ext2-4k"));
    let sides = [Oracle::of(&image).unwrap(), Oracle::of(&image).unwrap()];
    let comparison = Comparison {
        fields: Fields::all(),
        closed: &[],
    };
    let report = compare(sides[0].source(), sides[1].source(), &comparison);
    report.assert_same("two mounts");
    assert!(report.entries > 7000, "{report}");
    assert!(report.attributes > 80, "{report}");
    assert!(report.bytes > 10_000_000, "{report}");
}

#[test]
fn copy_by_mke2fs_equals_its_source() {
    if skip(&NEEDED) {
        return;
    }
    let recipe = Recipe {
        populate: Populate::Mke2fs,
        oracle: OracleKind::Source,
        tree: Tree::SMALL,
        ..*named("ext4-2k-no-journal")
    };
    let image = image(&recipe);
    let source = Oracle::of(&image).unwrap();
    let mount = LoopMount::new(image.path(), Access::ReadOnly, &[]).unwrap();
    let comparison = Comparison {
        fields: Fields::COPIED,
        closed: &[],
    };
    let kernel = DirectorySource::new("kernel", &mount.path());
    let report = compare(source.source(), &kernel, &comparison);
    report.assert_same("copy and source");
}

#[test]
fn largest_directory_has_100000_names() {
    if skip(&NEEDED) {
        return;
    }
    let oracle = Oracle::of(&image(named("ext4-100000-files"))).unwrap();
    let source = oracle.source();
    let entries = source.entries(&source.root().join("many")).unwrap();
    assert_eq!(entries.len(), 100_000);
}

#[test]
fn volume_with_one_wrong_byte_differs_from_the_kernel() {
    if skip(&NEEDED) {
        return;
    }
    let image = image(named("ext2-4k"));
    let blocks = Tool::new("debugfs")
        .args(["-R", "blocks /sizes/largest"])
        .arg(image.path())
        .run()
        .unwrap();
    let block: u64 = blocks.split_whitespace().nth(5).unwrap().parse().unwrap();
    let base = Arc::new(FileDevice::open(image.path(), FileRange::default()).unwrap());
    let mut wrong = [0];
    base.read_at(&mut wrong, block * 4096 + 99).unwrap();
    let mut device = PatchedDevice::new(base);
    device.patch(block * 4096 + 99, &[!wrong[0]]).unwrap();
    let volume = Volume::open_device(Arc::new(device), &OpenOptions::default()).unwrap();

    let oracle = Oracle::of(&image).unwrap();
    let comparison = Comparison {
        fields: oracle.fields(),
        closed: &[],
    };
    let report = compare(oracle.source(), &VolumeSource::new(&volume), &comparison);
    assert_eq!(report.difference_count, 1, "{report}");
    let expected = format!("/sizes/largest: byte {}", 5 * 4096 + 99);
    assert!(report.differences[0].starts_with(&expected), "{report}");
}

/// Returns the output of debugfs for a request on the image of a recipe.
fn debugfs_output(name: &str, request: &str) -> String {
    let image = image(named(name));
    Tool::new("debugfs")
        .args(["-R", request])
        .arg(image.path())
        .run()
        .unwrap()
}

#[test]
fn images_contain_the_structures_of_their_recipes() {
    if skip(&NEEDED) {
        return;
    }
    for (name, request, expected) in [
        // Extent trees of three levels, with large and with small blocks.
        (
            "ext4-100000-files",
            "dump_extents /fragmented/comb",
            " 0/ 2 ",
        ),
        ("hash-tea", "dump_extents /fragmented/comb", " 0/ 2 "),
        // Block maps up to the third level.
        ("ext2-rev0-1k", "stat /sparse/levels", "(TIND)"),
        ("ext3-1k", "stat /sparse/levels", "(TIND)"),
        ("ext3-2k", "stat /sparse/levels", "(TIND)"),
        // Directory indexes of three levels and of two.
        ("large-dir-1k", "htree_dump /many", "Indirect levels: 2"),
        (
            "ext4-1k-100000-links",
            "htree_dump /many",
            "Indirect levels: 1",
        ),
        ("hash-legacy", "htree_dump /many", "Hash Version: 0"),
        ("hash-tea", "htree_dump /many", "Hash Version: 2"),
        ("inline-data", "stat /folders/3", "Size of inline data"),
        ("inline-data", "stat /sizes/100", "Size of inline data"),
        (
            "ea-inode",
            "stat /attributes/size-60000",
            "user.value (60000)",
        ),
        ("ext2-rev0-1k", "stats -h", "0 (original)"),
        ("ext4-64k", "stats -h", "65536"),
        ("dirty-ext4", "stats -h", "needs_recovery"),
        ("dirty-fast-commit", "stats -h", "needs_recovery"),
    ] {
        let answer = debugfs_output(name, request);
        let start: String = answer.chars().take(400).collect();
        assert!(answer.contains(expected), "{name}: {request}: {start}");
    }
}
