//! The memory in which a unit of a disk image is decompressed, and that for the tables of an overlay.

use allocation_counter::measure;
use larder_block::{BlockDevice, MemoryDevice};
use larder_image::{DiskDevice, Format, Overlay, open_disk};
use larder_instruments::OverlayDevice;
use std::sync::Arc;

const MIB: usize = 1 << 20;

/// Returns a disk with one unit of `unit_len` bytes, which `frame` stores.
fn disk(frame: &[u8], unit_len: usize) -> DiskDevice {
    let mut file = frame.to_vec();
    // The seek table: one frame, without checksums.
    let lens = [0x184D_2A5E, 17, frame.len(), unit_len, 1];
    file.extend(
        lens.iter()
            .flat_map(|&len| u32::try_from(len).unwrap().to_le_bytes()),
    );
    file.push(0);
    file.extend(0x8F92_EAB1_u32.to_le_bytes());
    let file = Arc::new(MemoryDevice::new(file));
    open_disk(file, Format::Zstd, 0).unwrap().unwrap()
}

/// Returns a frame with `blocks` blocks of `len` bytes. A block repeats one byte. The header requires a window of 32 MiB.
fn frame_of_runs(blocks: usize, len: usize) -> Vec<u8> {
    let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD, 0, 15 << 3];
    for number in 1..=blocks {
        let header = len << 3 | 1 << 1 | usize::from(number == blocks);
        frame.extend(&header.to_le_bytes()[..3]);
        frame.push(7);
    }
    frame
}

#[test]
fn memory_for_a_unit_is_limited_by_its_size() {
    const BLOCK: usize = 128 << 10;
    // The content has the size of the unit, or is much larger.
    for (blocks, unit_len) in [(32, 4 * MIB), (1000, 4 * MIB), (12, BLOCK)] {
        let frame = frame_of_runs(blocks, BLOCK);
        let disk = disk(&frame, unit_len);
        let mut byte = [0];
        let mut result = Ok(());
        let allocated = measure(|| result = disk.read_at(&mut byte, 0));
        assert_eq!(result.is_ok(), blocks * BLOCK == unit_len, "{result:?}");
        let peak = usize::try_from(allocated.bytes_max).unwrap();
        // The compressed unit, its content, and the window, which is rounded up.
        let most = 2 * unit_len + MIB;
        assert!(peak <= most, "{blocks} blocks: {peak} of {most} bytes");
    }
}

#[test]
fn tables_of_an_overlay_that_are_holes_take_little_memory() {
    const CLUSTER: u64 = 128 << 10;
    // Each table is for 1 GiB of the disk, and has 128 KiB.
    const TABLES: u64 = 256;
    let base: Arc<dyn BlockDevice> = Arc::new(OverlayDevice::zeros(TABLES << 30));
    let file = OverlayDevice::zeros(Overlay::max_file_bytes(base.size_bytes()).unwrap());
    Overlay::create(&file, &*base, b"/base".to_vec(), "raw".to_owned()).unwrap();
    // The L1 table, in the third cluster. Each entry refers to a cluster of its own, which was never written.
    let places = (1000..1000 + TABLES).map(|cluster| (cluster * CLUSTER) | (1 << 63));
    let entries: Vec<u8> = places.flat_map(u64::to_be_bytes).collect();
    file.write_at(&entries, 2 * CLUSTER).unwrap();
    let file: Arc<dyn BlockDevice> = Arc::new(file);
    let mut opened = None;
    let allocated = measure(|| opened = Some(Overlay::open(file, base)));
    let disk = opened.unwrap().unwrap();
    let peak = usize::try_from(allocated.bytes_max).unwrap();
    // The largest part is a buffer of 2 MiB for the start of the base.
    assert!(peak <= 4 * MIB, "{peak} bytes");
    // A write takes the memory for a part of one table.
    let end = disk.size_bytes();
    let allocated = measure(|| disk.write_at(&[7; 4096], end - 4096).unwrap());
    let peak = usize::try_from(allocated.bytes_max).unwrap();
    assert!(peak <= MIB / 16, "{peak} bytes");
    let changes = disk.changes();
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0], end - 4096..end);
}
