//! Checks that a dropped mount has ended, even if another process held a copy of its descriptor.

use larder_testkit::e2fsprogs::make_image;
use larder_testkit::{Access, LoopMount, Requirement, skip};
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};

/// A process that another thread is starting holds such a copy.
#[test]
fn drop_waits_for_the_last_copy_of_the_descriptor() {
    if skip(&[Requirement::LoopMount, Requirement::Tool("mke2fs")]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    make_image(&image, "-t ext4", "8M").unwrap();

    let mount = LoopMount::new(&image, Access::ReadWrite, &[]).unwrap();
    let copy = File::open(mount.path()).unwrap();
    let is_last_closed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            drop(mount);
            assert!(is_last_closed.load(Ordering::SeqCst));
        });
        // Time to observe that the mount has another user. If it is too short, the test still passes.
        for _ in 0..1000 {
            std::thread::yield_now();
        }
        is_last_closed.store(true, Ordering::SeqCst);
        drop(copy);
    });
}
