//! Compares whole images on a larder mount and on the kernel's mount, in both directions.

use larder::{OpenOptions, Volume};
use larder_fuse::{MountOptions, Server};
use larder_testkit::image::recipe;
use larder_testkit::{Comparison, DirectorySource, Image, Oracle, Requirement, compare, skip};
use std::sync::Arc;

fn check_mount(name: &str) {
    let tools = ["mke2fs", "debugfs", "tune2fs", "e2fsck"].map(Requirement::Tool);
    if skip(&tools) || skip(&[Requirement::LoopMount, Requirement::Fuse]) {
        return;
    }
    let recipe = recipe(name).unwrap_or_else(|| panic!("no recipe {name}"));
    let image = Image::get(recipe).unwrap_or_else(|error| panic!("{name}: {error}"));
    let oracle = Oracle::of(&image).unwrap_or_else(|error| panic!("{name}: {error}"));

    let volume = Arc::new(Volume::open(image.path(), &OpenOptions::default()).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let server = Server::mount(volume, folder.path(), &MountOptions::default()).unwrap();
    let unmounter = server.unmounter();
    let thread = std::thread::spawn(move || server.serve(|| Ok(()), || None));

    let comparison = Comparison {
        fields: oracle.fields(),
        closed: recipe.closed,
    };
    let mounted = DirectorySource::new("larder mount", folder.path());
    // A panic is caught, so that the image is unmounted in every case.
    let report = std::panic::catch_unwind(|| compare(oracle.source(), &mounted, &comparison));
    unmounter.unmount().unwrap();
    thread.join().unwrap().unwrap();
    let report = report.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    report.assert_same(name);
    assert!(report.entries > 500, "{name}: only {report}");
}

macro_rules! mounts {
    ($($test:ident $name:literal)*) => {
        $(
            #[test]
            fn $test() {
                check_mount($name);
            }
        )*
    };
}

mounts! {
    ext2_4k_mount_equals_oracle "ext2-4k"
    ext3_2k_mount_equals_oracle "ext3-2k"
    ext4_100000_files_mount_equals_oracle "ext4-100000-files"
    ext4_2k_no_journal_mount_equals_oracle "ext4-2k-no-journal"
    bigalloc_mount_equals_oracle "bigalloc"
    inline_data_mount_equals_oracle "inline-data"
    ea_inode_mount_equals_oracle "ea-inode"
    dirty_ext4_mount_equals_oracle "dirty-ext4"
}
