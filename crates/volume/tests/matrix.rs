//! Every configuration of the matrix: a walk of the volume finds everything that the kernel's mount
//! has, and nothing else.

use larder::{FileKind, Ino, OpenOptions, Volume};
use larder_testkit::image::recipe;
use larder_testkit::{
    Comparison, Image, MATRIX, Oracle, Random, Recipe, Requirement, Seed, VolumeSource, compare,
    skip,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

fn named(name: &str) -> &'static Recipe {
    recipe(name).unwrap_or_else(|| panic!("no recipe {name}"))
}

/// Returns true, after printing why, if this machine cannot create the image.
fn skipped(recipe: &Recipe) -> bool {
    let tools = ["mke2fs", "debugfs", "tune2fs", "e2fsck"].map(Requirement::Tool);
    skip(&tools) || (recipe.needs_kernel() && skip(&[Requirement::LoopMount]))
}

fn image(recipe: &Recipe) -> Image {
    Image::get(recipe).unwrap_or_else(|error| panic!("{}: {error}", recipe.name))
}

fn open(image: &Image) -> Volume {
    open_with(image, &OpenOptions::default())
}

fn open_with(image: &Image, options: &OpenOptions) -> Volume {
    Volume::open(image.path(), options)
        .unwrap_or_else(|error| panic!("{}: {error}", image.path().display()))
}

/// Compares a walk of the volume with a walk of the image by its oracle.
fn check_walk(name: &str) {
    let recipe = named(name);
    if skipped(recipe) {
        return;
    }
    let image = image(recipe);
    let oracle = Oracle::of(&image).unwrap_or_else(|error| panic!("{name}: {error}"));
    let volume = open(&image);
    let comparison = Comparison {
        fields: oracle.fields(),
        closed: recipe.closed,
    };
    let report = compare(oracle.source(), &VolumeSource::new(&volume), &comparison);
    report.assert_same(name);
    assert!(report.entries > 500, "{name}: only {report}");
    for closed in recipe.closed {
        check_closed(&volume, closed);
    }
}

/// Checks that a lookup in a directory that cannot be read returns the expected error.
fn check_closed(volume: &Volume, folder: &str) {
    let ino = volume.lookup(Ino::ROOT, folder.as_bytes()).unwrap();
    assert_eq!(volume.metadata(ino).unwrap().kind, FileKind::Directory);
    let error = volume.lookup(ino, b"name").unwrap_err();
    let expected = matches!(
        error,
        larder::Error::Ext4(larder_ext4::Error::Encrypted(_) | larder_ext4::Error::Casefolded(_))
    );
    assert!(expected, "{folder}: {error}");
}

macro_rules! walks {
    ($($test:ident $name:literal)*) => {
        $(
            #[test]
            fn $test() {
                check_walk($name);
            }
        )*

        #[test]
        fn every_clean_configuration_has_a_walk() {
            let tested = [$($name),*];
            for recipe in MATRIX.iter().filter(|recipe| !recipe.name.starts_with("dirty-")) {
                assert!(tested.contains(&recipe.name), "{} has no walk", recipe.name);
            }
        }
    };
}

walks! {
    ext2_rev0_1k_walk_equals_oracle "ext2-rev0-1k"
    ext2_4k_walk_equals_oracle "ext2-4k"
    ext3_2k_walk_equals_oracle "ext3-2k"
    ext3_1k_walk_equals_oracle "ext3-1k"
    ext4_100000_files_walk_equals_oracle "ext4-100000-files"
    ext4_1k_100000_links_walk_equals_oracle "ext4-1k-100000-links"
    ext4_2k_no_journal_walk_equals_oracle "ext4-2k-no-journal"
    ext4_16k_walk_equals_oracle "ext4-16k"
    ext4_64k_walk_equals_oracle "ext4-64k"
    no_checksums_32bit_walk_equals_oracle "no-checksums-32bit"
    uninit_bg_walk_equals_oracle "uninit-bg"
    meta_bg_walk_equals_oracle "meta-bg"
    no_flex_bg_walk_equals_oracle "no-flex-bg"
    sparse_super2_walk_equals_oracle "sparse-super2"
    bigalloc_walk_equals_oracle "bigalloc"
    bigalloc_1k_walk_equals_oracle "bigalloc-1k"
    inline_data_walk_equals_oracle "inline-data"
    inline_data_inode_1024_walk_equals_oracle "inline-data-inode-1024"
    inode_128_walk_equals_oracle "inode-128"
    ea_inode_walk_equals_oracle "ea-inode"
    csum_seed_walk_equals_oracle "csum-seed"
    large_dir_1k_walk_equals_oracle "large-dir-1k"
    quota_project_walk_equals_oracle "quota-project"
    mmp_walk_equals_oracle "mmp"
    orphan_file_walk_equals_oracle "orphan-file"
    verity_walk_equals_oracle "verity"
    casefold_walk_equals_oracle "casefold"
    encrypt_walk_equals_oracle "encrypt"
    shared_blocks_walk_equals_oracle "shared-blocks"
    hash_legacy_walk_equals_oracle "hash-legacy"
    hash_tea_walk_equals_oracle "hash-tea"
    hash_unsigned_walk_equals_oracle "hash-unsigned"
    hash_legacy_unsigned_walk_equals_oracle "hash-legacy-unsigned"
}

#[test]
fn walk_with_a_small_cache_equals_oracle() {
    let recipe = named("ext4-1k-100000-links");
    if skipped(recipe) {
        return;
    }
    let image = image(recipe);
    let oracle = Oracle::of(&image).unwrap();
    let mut options = OpenOptions::default();
    options.cache_size_bytes = 2 << 20;
    let volume = open_with(&image, &options);
    let comparison = Comparison {
        fields: oracle.fields(),
        closed: &[],
    };
    compare(oracle.source(), &VolumeSource::new(&volume), &comparison)
        .assert_same("2 MiB of cache");
}

/// Returns the inodes in `folder` by name. Each call of `piece` returns the number of entries to
/// list next.
fn list_in_pieces(
    volume: &Volume,
    folder: Ino,
    mut piece: impl FnMut() -> u64,
) -> BTreeMap<Vec<u8>, Ino> {
    let mut names = BTreeMap::new();
    let mut cookie = 0;
    loop {
        let mut left = piece();
        let before = cookie;
        volume
            .read_dir(folder, cookie, &mut |entry| {
                let earlier = names.insert(entry.name.to_vec(), entry.ino);
                assert_eq!(earlier, None, "{} twice", entry.name.escape_ascii());
                cookie = entry.next_cookie;
                left -= 1;
                if left == 0 {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .unwrap();
        if cookie == before {
            return names;
        }
    }
}

#[test]
fn directory_in_pieces_lists_each_name_once() {
    let seed = Seed::from_environment(0x11);
    for name in ["ext4-1k-100000-links", "ext2-rev0-1k", "inline-data"] {
        let recipe = named(name);
        if skipped(recipe) {
            return;
        }
        let volume = open(&image(recipe));
        for folder in [
            &b"/many"[..],
            b"/odd-names",
            b"/folders/3",
            b"/deleted-first",
            b"/deleted-all",
        ] {
            let ino = volume.resolve(folder).unwrap();
            let whole = list_in_pieces(&volume, ino, || u64::MAX);
            let mut random = Random::new(seed);
            let pieces = list_in_pieces(&volume, ino, || 1 + random.below(70));
            let folder = folder.escape_ascii();
            assert_eq!(whole.len(), pieces.len(), "{name}{folder}, seed {seed}");
            assert!(whole == pieces, "{name}{folder}, seed {seed}");
        }
    }
}

/// Files that exist in every configuration, with and without extents.
const PIECEWISE: [&str; 5] = [
    "sizes/100",
    "sizes/4097",
    "sizes/largest",
    "sparse/odd-end",
    "fragmented/comb",
];

#[test]
fn read_in_any_pieces_equals_read_as_a_whole() {
    let seed = Seed::from_environment(0x12);
    let mut random = Random::new(seed);
    for name in ["ext4-2k-no-journal", "ext3-1k", "bigalloc", "inline-data"] {
        let recipe = named(name);
        if skipped(recipe) {
            return;
        }
        let volume = open(&image(recipe));
        for path in PIECEWISE {
            let ino = volume.resolve(path.as_bytes()).unwrap();
            let size_bytes = volume.metadata(ino).unwrap().size_bytes;
            let mut whole = vec![0; usize::try_from(size_bytes).unwrap() + 10];
            assert_eq!(
                volume.read_at(ino, &mut whole, 0).unwrap() as u64,
                size_bytes
            );
            for _ in 0..50 {
                let start = random.below(size_bytes + 5);
                let mut piece = vec![0xa5; usize::try_from(random.below(20_000)).unwrap()];
                let read = volume.read_at(ino, &mut piece, start).unwrap();
                let expected = size_bytes.saturating_sub(start).min(piece.len() as u64);
                assert_eq!(
                    read as u64, expected,
                    "{name}/{path} at {start}, seed {seed}"
                );
                if read > 0 {
                    let start = usize::try_from(start).unwrap();
                    let same = piece[..read] == whole[start..start + read];
                    assert!(same, "{name}/{path} at {start}, seed {seed}");
                }
            }
        }
    }
}
