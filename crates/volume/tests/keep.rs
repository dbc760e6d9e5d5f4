//! Reads for callers that keep the content themselves: the same bytes are read, and only the
//! expected pages stay in the page cache.

use larder::{Ino, OpenOptions, Volume};
use larder_testkit::image::{LargeFile, recipe};
use larder_testkit::{Image, Random, Requirement, Seed, skip};

type Read = fn(&Volume, Ino, &mut [u8], u64) -> larder::Result<usize>;

const READS: [(&str, Read); 2] = [
    ("read_once", Volume::read_once),
    ("read_past_cache", Volume::read_past_cache),
];

fn tools_are_missing() -> bool {
    skip(&["mke2fs", "debugfs", "tune2fs", "e2fsck"].map(Requirement::Tool))
}

/// Files in the images of the matrix that differ in how their content is mapped.
const FILES: [&str; 4] = [
    "sizes/4097",
    "sizes/largest",
    "sparse/odd-end",
    "fragmented/comb",
];

#[test]
fn every_read_method_returns_the_bytes_of_read_at() {
    if tools_are_missing() {
        return;
    }
    let seed = Seed::from_environment(0x21);
    let mut random = Random::new(seed);
    for name in ["ext4-2k-no-journal", "ext4-64k", "inline-data"] {
        let recipe = recipe(name).unwrap();
        if recipe.needs_kernel() && skip(&[Requirement::LoopMount]) {
            continue;
        }
        let image = Image::get(recipe).unwrap();
        let volume = Volume::open(image.path(), &OpenOptions::default()).unwrap();
        for path in FILES {
            let ino = volume.resolve(path.as_bytes()).unwrap();
            let size_bytes = volume.metadata(ino).unwrap().size_bytes;
            let mut expected = vec![0; usize::try_from(size_bytes).unwrap()];
            volume.read_at(ino, &mut expected, 0).unwrap();
            for (method, read) in READS {
                // The cache is empty at first, and partly filled later.
                let volume = Volume::open(image.path(), &OpenOptions::default()).unwrap();
                for _ in 0..40 {
                    let start = random.below(size_bytes + 5) & !random.below(4096);
                    let mut piece = vec![0xa5; usize::try_from(random.below(400_000)).unwrap()];
                    let len = read(&volume, ino, &mut piece, start).unwrap();
                    let from = usize::try_from(start.min(size_bytes)).unwrap();
                    let rest = &expected[from..];
                    let what = format!("{method} of {name}/{path} at {start}, seed {seed}");
                    assert_eq!(len, rest.len().min(piece.len()), "{what}");
                    assert!(piece[..len] == rest[..len], "{what}");
                    if random.below(4) == 0 {
                        volume.read_at(ino, &mut [0; 5000], start).unwrap();
                    }
                }
            }
        }
    }
}

#[test]
fn pages_returned_completely_do_not_stay_cached() {
    if tools_are_missing() {
        return;
    }
    let large = LargeFile::new(8).unwrap();
    for (method, read, request_bytes) in [
        ("read_once", READS[0].1, 128 << 10),
        ("read_past_cache", READS[1].1, 1 << 20),
    ] {
        let options = OpenOptions::default();
        let volume = Volume::open_device(large.device.clone(), &options).unwrap();
        let ino = volume.resolve(large.path.as_bytes()).unwrap();
        let mut buf = vec![0; request_bytes];
        for offset_bytes in (0..large.size_bytes).step_by(request_bytes) {
            read(&volume, ino, &mut buf, offset_bytes).unwrap();
        }
        assert_eq!(volume.stats().page.objects, 0, "{method}");
    }
}

#[test]
fn page_returned_in_parts_stays_cached() {
    if tools_are_missing() {
        return;
    }
    let large = LargeFile::new(1).unwrap();
    let volume = Volume::open_device(large.device.clone(), &OpenOptions::default()).unwrap();
    let ino = volume.resolve(large.path.as_bytes()).unwrap();
    for offset_bytes in [0, 1000, 2000] {
        volume.read_once(ino, &mut [0; 1000], offset_bytes).unwrap();
    }
    let hits = volume.stats().page.hits;
    assert_eq!(hits, 2, "the second and third read hit the page");
}
