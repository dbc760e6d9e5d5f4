//! Random operations on full images, through a volume in this process. The conditions are in
//! [`larder_testkit::full`].
//!
//! `LARDER_SEED` repeats one sequence, and `LARDER_SEQUENCES` sets the number of sequences on each
//! layout. A failure prints the seed and the smallest sequence.

use larder_instruments::OverlayDevice;
use larder_testkit::crash::{ImageFile, layout};
use larder_testkit::full::{Campaign, FILES, InProcess, Limits, Mix, Session, Step, Tally};
use larder_testkit::{Access, LoopMount, Requirement, report_skipped, skip, test_layouts};
use std::sync::Arc;

const MIX: Mix = Mix::ALL;

/// Performs the steps on a new file system with the initial contents `base`.
fn attempt(base: &Arc<[u8]>, limits: Limits, steps: &[Step]) -> Result<Tally, String> {
    let device = Arc::new(OverlayDevice::new(Arc::clone(base)));
    let mut session = Session::new(InProcess::new(&device)?, limits)?;
    session.run(steps)?;
    session.target.close()?;
    let mut image = ImageFile::new(&device).map_err(|error| error.to_string())?;
    image.check().map_err(|error| error.to_string())?;
    kernel_reads_the_same(&image, &session)?;
    session.target = InProcess::new(&device)?;
    session.empty()?;
    session.target.close()?;
    image.show(&device).map_err(|error| error.to_string())?;
    image.check().map_err(|error| error.to_string())?;
    Ok(session.tally)
}

/// Compares the session with the kernel's mount of the image, if mounts are possible.
fn kernel_reads_the_same(image: &ImageFile, session: &Session<InProcess>) -> Result<(), String> {
    if Requirement::LoopMount.missing().is_some() {
        return Ok(());
    }
    let mount = LoopMount::new(image.path(), Access::ReadOnly, &[]);
    let mount = mount.map_err(|error| error.to_string())?;
    for file in FILES {
        let content = std::fs::read(mount.path().join(file.name()));
        let content = content.map_err(|error| format!("the kernel's mount: {error}"))?;
        session
            .files
            .expect(file, &content)
            .map_err(|what| format!("the kernel's mount: {what}"))?;
    }
    Ok(())
}

fn follow_the_model(name: &str, seed: u64, mix: Mix) {
    if skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    if let Some(reason) = Requirement::LoopMount.missing() {
        report_skipped(format!("comparison with the kernel: {reason}"));
    }
    let layout = layout(name).unwrap_or_else(|| panic!("no layout {name}"));
    let limits = Limits::of(layout);
    let base = layout.base().unwrap();
    let campaign = Campaign::run(name, seed, mix, limits, |steps| {
        attempt(&base, limits, steps)
    });
    println!("{}", campaign.summary());
    campaign.expect_success();
    // If no operation failed for lack of space, the sequences did not fill the image.
    assert!(campaign.tally.refused > 0, "{}", campaign.summary());
}

test_layouts! {
    follow_the_model MIX 0x7000
    0 ext4_full_follows_the_model "ext4"
    1 ext4_1k_full_follows_the_model "ext4-1k-no-checksums"
    2 ext3_1k_full_follows_the_model "ext3-1k"
    3 ext2_1k_full_follows_the_model "ext2-1k"
    4 bigalloc_full_follows_the_model "bigalloc"
    5 inline_data_full_follows_the_model "inline-data"
    6 no_journal_4k_full_follows_the_model "no-journal-4k"
}
