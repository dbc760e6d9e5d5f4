//! Multiple-mount protection: Larder and e2fsprogs each refuse a second user.

mod image;

use image::Image;
use larder_block::{BlockDevice, MemoryDevice};
use larder_ext4::ondisk::superblock::Superblock;
use larder_ext4::{Error, Mmp, MmpHost};
use larder_instruments::FaultyDevice;
use larder_testkit::{Requirement, skip};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A machine whose clock advances when it waits. A callback can run meanwhile.
struct Machine<'a> {
    name: &'static str,
    seconds: Cell<u64>,
    meanwhile: RefCell<Box<dyn FnMut() + 'a>>,
}

impl fmt::Debug for Machine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl<'a> Machine<'a> {
    fn new(name: &'static str) -> Self {
        Self::with(name, || {})
    }

    fn with(name: &'static str, meanwhile: impl FnMut() + 'a) -> Self {
        Self {
            name,
            seconds: Cell::new(1_700_000_000),
            meanwhile: RefCell::new(Box::new(meanwhile)),
        }
    }

    fn waited(&self) -> u64 {
        self.seconds.get() - 1_700_000_000
    }
}

impl MmpHost for Machine<'_> {
    fn now_seconds(&self) -> u64 {
        self.seconds.get()
    }

    fn wait(&self, time: Duration) {
        self.seconds.set(self.seconds.get() + time.as_secs());
        (self.meanwhile.borrow_mut())();
    }

    fn node(&self) -> Vec<u8> {
        self.name.into()
    }

    fn device(&self) -> Vec<u8> {
        b"image.ext4".to_vec()
    }
}

struct Fixture {
    image: Image,
    memory: Arc<MemoryDevice>,
    device: Arc<dyn BlockDevice>,
    sb: Superblock,
}

impl Fixture {
    fn new(arguments: &str) -> Option<Self> {
        if skip(&[
            Requirement::Tool("mke2fs"),
            Requirement::Tool("debugfs"),
            Requirement::Tool("e2fsck"),
        ]) {
            return None;
        }
        let image = Image::make(arguments, "20M")?;
        let memory = Arc::new(MemoryDevice::new(image.bytes()));
        let device: Arc<dyn BlockDevice> = memory.clone();
        let sb = Superblock::read(&*device).expect("superblock");
        Some(Self {
            image,
            memory,
            device,
            sb,
        })
    }

    fn acquire(&self, host: &dyn MmpHost) -> Result<Mmp, Error> {
        let acquired = Mmp::acquire(&self.sb, Arc::clone(&self.device), host)?;
        Ok(acquired.expect("the image has the feature mmp"))
    }

    /// Returns the exit status and the output of a tool for the current image.
    fn run_tool(&self, program: &str, arguments: &[&str]) -> (Option<i32>, String) {
        std::fs::write(self.image.path(), self.memory.to_bytes()).expect("image");
        let output = Command::new(program)
            .args(arguments)
            .arg(self.image.path())
            .output()
            .expect("runs");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        (output.status.code(), text)
    }
}

const LAYOUTS: [&str; 3] = [
    "-t ext4 -b 1024 -O mmp",
    "-t ext4 -b 4096 -O mmp,^metadata_csum",
    "-t ext4 -b 4096 -O mmp -E mmp_update_interval=20",
];

#[test]
fn image_in_use_is_refused_and_released_clean() {
    for arguments in LAYOUTS {
        let Some(fixture) = Fixture::new(arguments) else {
            return;
        };
        let first = Machine::new("first-node");
        let held = fixture.acquire(&first).expect("clean");
        assert!(first.waited() > held.interval().as_secs());
        let (_, text) = fixture.run_tool("debugfs", &["-R", "dump_mmp"]);
        assert!(text.contains("node_name: first-node"), "{text}");
        assert!(text.contains("device_name: image.ext4"), "{text}");

        // The first host remains active while the second host waits.
        let second = Machine::with("second-node", || held.tick(&first).expect("still held"));
        let refused = fixture.acquire(&second).expect_err("in use");
        assert!(matches!(refused, Error::InUse(_)));
        assert!(refused.to_string().contains("first-node"), "{refused}");
        held.tick(&first).expect("still held");

        held.release(&first).expect("released");
        let (code, text) = fixture.run_tool("e2fsck", &["-fn"]);
        assert_eq!(code, Some(0), "{text}");
        let again = Machine::new("second-node");
        fixture.acquire(&again).expect("clean");
    }
}

#[test]
fn image_released_during_the_wait_is_not_reported_as_mounted() {
    let Some(fixture) = Fixture::new(LAYOUTS[0]) else {
        return;
    };
    let first = Machine::new("first");
    let held = fixture.acquire(&first).expect("clean");
    let second = Machine::with("second", || held.release(&first).expect("still held"));
    let refused = fixture.acquire(&second).expect_err("the block has changed");
    assert!(matches!(refused, Error::InUse(_)));
    assert_eq!(
        refused.to_string(),
        "another host has meanwhile used the image and released it (node first, device image.ext4)"
    );
    fixture.acquire(&Machine::new("second")).expect("clean");
}

#[test]
fn image_of_a_dead_host_is_acquired_after_a_wait() {
    let Some(fixture) = Fixture::new(LAYOUTS[0]) else {
        return;
    };
    drop(fixture.acquire(&Machine::new("dead")).expect("clean"));
    let clean = Machine::new("clean");
    let second = Machine::new("second");
    let held = fixture.acquire(&second).expect("the first host is dead");
    held.release(&second).expect("released");
    fixture.acquire(&clean).expect("clean");
    assert_eq!(second.waited(), 2 * clean.waited());
}

#[test]
fn host_that_lost_the_image_does_not_write() {
    let Some(fixture) = Fixture::new(LAYOUTS[0]) else {
        return;
    };
    let first = Machine::new("first");
    let suspended = fixture.acquire(&first).expect("clean");
    let second = Machine::new("second");
    let held = fixture
        .acquire(&second)
        .expect("the first host is suspended");
    let refused = suspended.tick(&first).expect_err("overtaken");
    assert!(refused.to_string().contains("second"), "{refused}");
    assert!(suspended.release(&first).is_err());
    held.tick(&second).expect("the block is unchanged");
}

#[test]
fn host_keeps_the_image_after_a_failed_renewal() {
    let Some(fixture) = Fixture::new(LAYOUTS[0]) else {
        return;
    };
    let device = || FaultyDevice::new(Arc::clone(&fixture.device));
    // The first write and flush acquire the image. A write that fails stores the first half of the block, without the
    // checksum. If the flush fails, the write was performed.
    for device in [device().fail_write(1), device().fail_flush(1)] {
        let host = Machine::new("host");
        let held = Mmp::acquire(&fixture.sb, Arc::new(device), &host)
            .expect("clean")
            .expect("the image has the feature mmp");
        let failed = held.tick(&host).expect_err("the device fails");
        assert!(matches!(failed, Error::Device(_)), "{failed}");
        held.tick(&host).expect("still held");
        held.release(&host).expect("released");
    }
}

/// A device with writes that can still be in flight after they timed out, until a test ends this.
#[derive(Debug)]
struct LateDevice {
    inner: Arc<dyn BlockDevice>,
    has_late_writes: AtomicBool,
}

impl BlockDevice for LateDevice {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn has_late_writes(&self) -> bool {
        self.has_late_writes.load(Ordering::Relaxed)
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> larder_block::Result<()> {
        self.inner.read_at(buf, offset_bytes)
    }

    fn is_writable(&self) -> bool {
        self.inner.is_writable()
    }

    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> larder_block::Result<()> {
        self.inner.write_at(buf, offset_bytes)
    }
}

#[test]
fn image_with_late_writes_is_not_released() {
    let Some(fixture) = Fixture::new(LAYOUTS[0]) else {
        return;
    };
    let device = Arc::new(LateDevice {
        inner: Arc::clone(&fixture.device),
        has_late_writes: AtomicBool::new(true),
    });
    let clean = Machine::new("clean");
    let held = Mmp::acquire(&fixture.sb, Arc::clone(&device) as _, &clean)
        .expect("clean")
        .expect("the image has the feature mmp");
    let refused = held.release(&clean).expect_err("late writes");
    assert!(
        matches!(refused, Error::Device(larder_block::Error::Deadline(_))),
        "{refused}"
    );
    held.tick(&clean).expect("still held");

    device.has_late_writes.store(false, Ordering::Relaxed);
    held.release(&clean).expect("released");
    fixture.acquire(&Machine::new("next")).expect("clean");
}

#[test]
fn torn_block_is_replaced_only_after_a_failed_renewal_of_this_host() {
    let Some(fixture) = Fixture::new(LAYOUTS[0]) else {
        return;
    };
    let at = fixture.sb.mmp_block.0 * u64::from(fixture.sb.block_size_bytes());
    let change_byte = |index: u64| {
        let mut byte = [0];
        fixture
            .device
            .read_at(&mut byte, at + index)
            .expect("block");
        fixture
            .device
            .write_at(&[byte[0] ^ 1], at + index)
            .expect("block");
    };
    let host = Machine::new("host");
    // Reads and the first write acquire the image. The fourth read belongs to the first renewal.
    let device = FaultyDevice::new(Arc::clone(&fixture.device)).fail_read(3);
    let held = Mmp::acquire(&fixture.sb, Arc::new(device), &host)
        .expect("clean")
        .expect("the image has the feature mmp");
    let failed = held.tick(&host).expect_err("the device fails");
    assert!(matches!(failed, Error::Device(_)), "{failed}");
    // Only the read has failed, so this host has not damaged the checksum.
    change_byte(1020);
    let damaged = held.tick(&host).expect_err("damaged");
    assert!(matches!(damaged, Error::Corrupt(_)), "{damaged}");
    change_byte(1020);
    held.tick(&host).expect("still held");
    held.release(&host).expect("released");

    let device = FaultyDevice::new(Arc::clone(&fixture.device)).fail_write(1);
    let held = Mmp::acquire(&fixture.sb, Arc::new(device), &host)
        .expect("clean")
        .expect("the image has the feature mmp");
    held.tick(&host).expect_err("the device fails");
    // The checksum is wrong, and another host has changed the name of the node.
    change_byte(16);
    let damaged = held.tick(&host).expect_err("damaged");
    assert!(matches!(damaged, Error::Corrupt(_)), "{damaged}");
}

#[test]
fn only_one_of_two_concurrent_hosts_acquires_the_image() {
    let Some(fixture) = Fixture::new(LAYOUTS[0]) else {
        return;
    };
    let second = Machine::new("second");
    let rival = RefCell::new(None);
    let first = Machine::with("first", || {
        let mut rival = rival.borrow_mut();
        if rival.is_none() {
            *rival = Some(fixture.acquire(&second));
        }
    });
    let acquired = fixture.acquire(&first);
    let rival_acquired = rival.take().expect("the second host tried").is_ok();
    assert!(acquired.is_ok() != rival_acquired, "{acquired:?}");
}

#[test]
fn image_that_e2fsck_checks_is_refused() {
    let Some(fixture) = Fixture::new(LAYOUTS[0]) else {
        return;
    };
    let block_bytes = u64::from(fixture.sb.block_size_bytes());
    let at = fixture.sb.mmp_block.0 * block_bytes;
    let mut bytes = vec![0; 1024];
    fixture.device.read_at(&mut bytes, at).expect("block");
    bytes[4..8].copy_from_slice(&0xE24D_4D50_u32.to_le_bytes());
    let checksum = fixture.sb.checksum_seed.bytes(&bytes[..1020]).0;
    bytes[1020..].copy_from_slice(&checksum.to_le_bytes());
    fixture.device.write_at(&bytes, at).expect("block");
    let refused = fixture
        .acquire(&Machine::new("node"))
        .expect_err("being checked");
    assert!(refused.to_string().contains("e2fsck"), "{refused}");

    bytes[1020] ^= 1;
    fixture.device.write_at(&bytes, at).expect("block");
    let damaged = fixture.acquire(&Machine::new("node")).expect_err("damaged");
    assert!(matches!(damaged, Error::Corrupt(_)), "{damaged}");
}

#[test]
fn image_without_the_feature_is_not_protected() {
    let Some(fixture) = Fixture::new("-t ext4 -b 1024") else {
        return;
    };
    let machine = Machine::new("node");
    let acquired = Mmp::acquire(&fixture.sb, Arc::clone(&fixture.device), &machine);
    assert!(acquired.expect("no protection").is_none());
    assert_eq!(machine.waited(), 0);
}
