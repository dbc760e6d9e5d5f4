//! Where the content of files is stored.

use larder::{OpenOptions, RunPlace, Volume};
use larder_testkit::image::recipe;
use larder_testkit::{Image, Requirement, skip};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Files in the images of the matrix that differ in how their content is mapped.
const FILES: [&str; 5] = [
    "sizes/1",
    "sizes/4097",
    "sizes/largest",
    "sparse/odd-end",
    "fragmented/comb",
];

#[test]
fn bytes_at_the_place_of_a_run_are_those_of_the_file() {
    if skip(&["mke2fs", "debugfs", "tune2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    for name in ["ext4-2k-no-journal", "ext4-64k", "ext2-4k", "inline-data"] {
        let recipe = recipe(name).unwrap();
        if recipe.needs_kernel() && skip(&[Requirement::LoopMount]) {
            continue;
        }
        let image = Image::get(recipe).unwrap();
        let volume = Volume::open(image.path(), &OpenOptions::default()).unwrap();
        let device = File::open(image.path()).unwrap();
        let mut counts = [0; 3];
        for path in FILES {
            let ino = volume.resolve(path.as_bytes()).unwrap();
            let size_bytes = volume.metadata(ino).unwrap().size_bytes;
            let mut at_bytes = 0;
            while at_bytes < size_bytes {
                let run = volume.file_run(ino, at_bytes).unwrap();
                let end_bytes = run.end_bytes.min(size_bytes);
                assert!(at_bytes < end_bytes, "{name}/{path} at {at_bytes}");
                let mut expected = vec![0; usize::try_from(end_bytes - at_bytes).unwrap()];
                let mut content = expected.clone();
                volume.read_at(ino, &mut content, at_bytes).unwrap();
                match run.place {
                    RunPlace::Hole => counts[0] += 1,
                    RunPlace::Disk {
                        offset_bytes,
                        is_unchanged,
                    } => {
                        assert!(!is_unchanged, "{name} is not an overlay");
                        device.read_exact_at(&mut expected, offset_bytes).unwrap();
                        counts[1] += 1;
                    }
                    RunPlace::Unknown => {
                        assert_eq!(name, "inline-data");
                        expected.clone_from(&content);
                        counts[2] += 1;
                    }
                }
                assert!(content == expected, "{name}/{path} at {at_bytes}");
                // Runs also begin inside a block.
                at_bytes = match end_bytes {
                    end if end > at_bytes + 5000 => at_bytes + 4999,
                    end => end,
                };
            }
        }
        // The holes are smaller than a block of 64 KiB.
        assert_eq!(counts[0] > 0, name != "ext4-64k", "{counts:?}");
        assert!(counts[1] > 0, "{name}: {counts:?}");
        assert_eq!(counts[2] > 0, name == "inline-data", "{counts:?}");
    }
}
