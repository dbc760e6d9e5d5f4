//! Content written through a volume, compared with vectors of bytes. Runs on every layout, with a
//! cache that holds all content and with a tiny cache. Then e2fsck checks the image, and the
//! kernel's mount is compared with the vectors.

use larder::{Advice, DataMode, Error, Fallocate, Ino, NewFile, OpenOptions, Volume};
use larder_block::BlockDevice;
use larder_instruments::OverlayDevice;
use larder_testkit::crash::{ImageFile, LAYOUTS, Layout};
use larder_testkit::seed::Random;
use larder_testkit::{Access, LoopMount, Requirement, Seed, report_skipped, skip};
use rustix::io::Errno;
use std::sync::Arc;

const FILES: usize = 3;
const MAX_BYTES: u64 = 1 << 20;

fn new_file() -> NewFile {
    NewFile {
        permissions: 0o644,
        umask: 0,
        uid: 0,
        gid: 0,
    }
}

fn options(cache_size_bytes: u64, background: bool) -> OpenOptions {
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.background = background;
    options.commit_seconds = 1;
    options.cache_size_bytes = cache_size_bytes;
    options
}

fn name(index: usize) -> String {
    format!("file-{index}")
}

/// The expected state of a file.
#[derive(Clone, Default)]
struct Model {
    bytes: Vec<u8>,
}

impl Model {
    fn write(&mut self, at: u64, buf: &[u8]) {
        let at = usize::try_from(at).unwrap();
        let end = at + buf.len();
        if end > self.bytes.len() {
            self.bytes.resize(end, 0);
        }
        self.bytes[at..end].copy_from_slice(buf);
    }

    fn zero(&mut self, at: u64, len: u64) {
        let size = self.bytes.len();
        let at = usize::try_from(at).unwrap().min(size);
        let end = (at + usize::try_from(len).unwrap()).min(size);
        self.bytes[at..end].fill(0);
    }
}

struct Fixture<'v> {
    volume: &'v Volume,
    layout: &'static Layout,
    inos: Vec<Ino>,
    models: Vec<Model>,
    random: Random,
}

impl Fixture<'_> {
    fn offset(&mut self) -> u64 {
        // Return an offset at or near a page boundary in half of the calls.
        let near = self.random.below(MAX_BYTES);
        match self.random.below(4) {
            0 => near / 4096 * 4096,
            1 => (near / 4096 * 4096).saturating_add(self.random.below(3)),
            _ => near,
        }
    }

    fn len(&mut self) -> u64 {
        let most = [10, 1000, 5000, 70_000, 600_000];
        let most = most[usize::try_from(self.random.below(5)).unwrap()];
        1 + self.random.below(most)
    }

    fn step(&mut self) -> String {
        let file = usize::try_from(self.random.below(FILES as u64)).unwrap();
        let ino = self.inos[file];
        let (at, len) = (self.offset(), self.len());
        match self.random.below(16) {
            0..=5 => {
                let buf = self.random.bytes(usize::try_from(len).unwrap());
                assert_eq!(self.volume.write_at(ino, &buf, at).unwrap(), buf.len());
                self.models[file].write(at, &buf);
                format!("write {file} {at} {len}")
            }
            6 => {
                // Append small pieces.
                for _ in 0..20 {
                    let len = 1 + self.random.below(700);
                    let buf = self.random.bytes(usize::try_from(len).unwrap());
                    let at = self.models[file].bytes.len() as u64;
                    self.volume.write_at(ino, &buf, at).unwrap();
                    self.models[file].write(at, &buf);
                }
                format!("append {file}")
            }
            7 => {
                let size = if self.random.below(3) == 0 { 0 } else { at };
                self.volume.truncate(ino, size).unwrap();
                self.models[file]
                    .bytes
                    .resize(usize::try_from(size).unwrap(), 0);
                format!("truncate {file} {size}")
            }
            8..=10 => self.fallocate(file, at, len),
            11 => {
                self.volume
                    .sync_file(ino, self.random.below(2) == 0)
                    .unwrap();
                format!("sync {file}")
            }
            12 => {
                self.volume
                    .advise(ino, 0..u64::MAX, Advice::DontNeed)
                    .unwrap();
                format!("drop {file}")
            }
            13 => self.copy(file, at, len),
            14 => {
                self.check_seeks(file, at);
                format!("seek {file} {at}")
            }
            _ => {
                self.volume.sync().unwrap();
                "sync".to_owned()
            }
        }
    }

    fn fallocate(&mut self, file: usize, at: u64, len: u64) -> String {
        let cluster = self.layout.rules.cluster_bytes;
        let keep_size = self.random.below(2) == 0;
        let all_modes = [
            Fallocate::Allocate { keep_size },
            Fallocate::PunchHole,
            Fallocate::ZeroRange { keep_size },
            Fallocate::Collapse,
            Fallocate::Insert,
        ];
        let mode = all_modes[usize::try_from(self.random.below(5)).unwrap()];
        let size = self.models[file].bytes.len() as u64;
        let (mut at, mut len) = (at, len.min(200_000));
        let is_move = matches!(mode, Fallocate::Collapse | Fallocate::Insert);
        if is_move && self.random.below(5) > 0 {
            at = at.min(size) / cluster * cluster;
            len = len.next_multiple_of(cluster);
        }
        let what = format!("{mode:?} {file} {at} {len}");
        let done = self.volume.fallocate(self.inos[file], mode, at, len);
        let is_whole = at.is_multiple_of(cluster) && len.is_multiple_of(cluster);
        let want = match mode {
            Fallocate::PunchHole => Ok(()),
            _ if !self.layout.rules.extents => Err(Errno::OPNOTSUPP),
            Fallocate::Collapse if !is_whole || at + len >= size => Err(Errno::INVAL),
            Fallocate::Insert if !is_whole || at >= size => Err(Errno::INVAL),
            _ => Ok(()),
        };
        assert_eq!(done.map_err(|error: Error| error.errno()), want, "{what}");
        if want.is_err() {
            return what;
        }
        let after = &mut self.models[file];
        let (start, end) = (at, at + len);
        match mode {
            Fallocate::Allocate { keep_size } | Fallocate::ZeroRange { keep_size } => {
                if !keep_size && end > size {
                    after.bytes.resize(usize::try_from(end).unwrap(), 0);
                }
                if matches!(mode, Fallocate::ZeroRange { .. }) {
                    after.zero(start, len);
                }
            }
            Fallocate::PunchHole => after.zero(start, len),
            Fallocate::Collapse => {
                let range = usize::try_from(start).unwrap()..usize::try_from(end).unwrap();
                drop(after.bytes.drain(range));
            }
            Fallocate::Insert => {
                let at = usize::try_from(start).unwrap();
                let zeros = vec![0; usize::try_from(len).unwrap()];
                drop(after.bytes.splice(at..at, zeros));
            }
        }
        what
    }

    fn copy(&mut self, from: usize, at: u64, len: u64) -> String {
        let to = (from + 1) % FILES;
        let to_at = self.offset();
        let (inos, volume) = (&self.inos, self.volume);
        let done = volume.copy_range(inos[from], at, inos[to], to_at, len);
        let done = done.unwrap();
        let start = usize::try_from(at)
            .unwrap()
            .min(self.models[from].bytes.len());
        let end = (start + usize::try_from(len).unwrap()).min(self.models[from].bytes.len());
        assert_eq!(done, (end - start) as u64);
        let copied = self.models[from].bytes[start..end].to_vec();
        if !copied.is_empty() {
            self.models[to].write(to_at, &copied);
        }
        format!("copy {from} {at} {to} {to_at} {len}")
    }

    /// Checks that all bytes from `at` to the next data are zero, and that the next hole starts
    /// inside the file or at its end.
    fn check_seeks(&self, file: usize, at: u64) {
        let (ino, bytes) = (self.inos[file], &self.models[file].bytes);
        let size = bytes.len() as u64;
        match self.volume.seek_data(ino, at) {
            Ok(data) => {
                assert!(at <= data && data < size);
                let gap = usize::try_from(at).unwrap()..usize::try_from(data).unwrap();
                assert!(bytes[gap].iter().all(|byte| *byte == 0), "data in a hole");
            }
            Err(error) => {
                assert_eq!(error.errno(), Errno::NXIO);
                let rest = bytes.get(usize::try_from(at).unwrap()..);
                let rest = rest.unwrap_or_default();
                assert!(rest.iter().all(|byte| *byte == 0), "data in a hole");
            }
        }
        if at < size {
            let hole = self.volume.seek_hole(ino, at).unwrap();
            assert!(at <= hole && hole <= size);
        }
    }

    fn check(&mut self, file: usize, when: &str) {
        let (ino, model) = (self.inos[file], &self.models[file]);
        let size = self.volume.metadata(ino).unwrap().size_bytes;
        assert_eq!(
            size,
            model.bytes.len() as u64,
            "size of {file} after {when}"
        );
        let mut buf = vec![0xAA; model.bytes.len() + 10];
        let len = match self.random.below(3) {
            0 => self.volume.read_at(ino, &mut buf, 0),
            1 => self.volume.read_once(ino, &mut buf, 0),
            _ => self.volume.read_past_cache(ino, &mut buf, 0),
        };
        assert_eq!(len.unwrap(), model.bytes.len());
        if let Some(at) = (0..model.bytes.len()).find(|at| buf[*at] != model.bytes[*at]) {
            let (is, want) = (buf[at], model.bytes[at]);
            panic!("byte {at} of file {file} is {is}, not {want}, after {when}");
        }
    }
}

fn read_all(volume: &Volume, models: &[Model]) {
    for (index, model) in models.iter().enumerate() {
        let ino = volume.resolve(name(index).as_bytes()).unwrap();
        let mut buf = vec![0; model.bytes.len()];
        assert_eq!(volume.read_at(ino, &mut buf, 0).unwrap(), buf.len());
        assert!(buf == model.bytes, "file {index} reopened");
    }
}

fn check_with_tools(device: &OverlayDevice, models: &[Model]) {
    let image = ImageFile::new(device).unwrap();
    image.check().unwrap();
    if let Some(reason) = Requirement::LoopMount.missing() {
        report_skipped(format!("comparison with the kernel: {reason}"));
        return;
    }
    let mount = LoopMount::new(image.path(), Access::ReadOnly, &[]).unwrap();
    for (index, model) in models.iter().enumerate() {
        let bytes = std::fs::read(mount.path().join(name(index))).unwrap();
        assert!(bytes == model.bytes, "the kernel reads file {index}");
    }
}

fn follow_the_model(layout: &'static Layout, options: &OpenOptions, seed: Seed) {
    println!(
        "{}: cache of {} bytes, {:?}, seed {seed}",
        layout.name, options.cache_size_bytes, options.data
    );
    let device = Arc::new(OverlayDevice::new(layout.base().unwrap()));
    let opened: Arc<dyn BlockDevice> = Arc::clone(&device) as _;
    let volume = Volume::open_device(opened, options).unwrap();
    let inos = (0..FILES)
        .map(|index| {
            let made = volume.create(Ino::ROOT, name(index).as_bytes(), &new_file());
            made.unwrap().ino
        })
        .collect();
    let mut fixture = Fixture {
        volume: &volume,
        layout,
        inos,
        models: vec![Model::default(); FILES],
        random: Random::new(seed),
    };
    for number in 0..120 {
        let when = format!("step {number}, {}", fixture.step());
        if number % 3 == 0 {
            (0..FILES).for_each(|file| fixture.check(file, &when));
        }
        for (file, model) in fixture.models.iter_mut().enumerate() {
            // Limit the sizes of the files, because the image is small.
            if model.bytes.len() as u64 > 2 * MAX_BYTES {
                volume.truncate(fixture.inos[file], 100).unwrap();
                model.bytes.truncate(100);
            }
        }
    }
    let models = fixture.models;
    volume.close().unwrap();
    drop(volume);
    check_with_tools(&device, &models);
    let reading = Volume::open_device(device, &OpenOptions::default()).unwrap();
    read_all(&reading, &models);
}

#[test]
fn content_equals_model_after_random_changes() {
    if skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    let seed = Seed::from_environment(0x5000);
    println!("seed {seed}");
    for (number, layout) in (0..).zip(LAYOUTS) {
        follow_the_model(layout, &options(16 << 20, false), seed.part(2 * number));
        follow_the_model(layout, &options(1 << 20, true), seed.part(2 * number + 1));
    }
}

#[test]
fn journaled_content_equals_model() {
    if skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    let seed = Seed::from_environment(0x5100);
    println!("seed {seed}");
    for (number, layout) in (0..).zip(LAYOUTS) {
        let mut options = options(2 << 20, true);
        options.data = DataMode::Journal;
        follow_the_model(layout, &options, seed.part(number));
    }
}

#[test]
fn fdatasync_of_overwritten_content_is_one_write_and_one_flush() {
    if skip(&["mke2fs"].map(Requirement::Tool)) {
        return;
    }
    for layout in LAYOUTS {
        let device = Arc::new(OverlayDevice::new(layout.base().unwrap()));
        let volume = Volume::open_device(device, &options(16 << 20, false)).unwrap();
        let ino = volume
            .create(Ino::ROOT, b"database", &new_file())
            .unwrap()
            .ino;
        volume.hold(ino).expect("held");
        volume.write_at(ino, &vec![1; 65536], 0).unwrap();
        volume.sync_file(ino, false).unwrap();
        let before = volume.stats().device;
        for page in 0..10 {
            volume.write_at(ino, &[2; 4096], page * 4096).unwrap();
            volume.sync_file(ino, true).unwrap();
        }
        let after = volume.stats().device;
        let done = (after.writes - before.writes, after.flushes - before.flushes);
        assert_eq!(done, (10, 10), "{}", layout.name);
        volume.release(ino, 1).unwrap();
    }
}

#[test]
fn small_files_are_written_back_together() {
    if skip(&["mke2fs"].map(Requirement::Tool)) {
        return;
    }
    let device = Arc::new(OverlayDevice::new(LAYOUTS[0].base().unwrap()));
    let volume = Volume::open_device(device, &options(16 << 20, false)).unwrap();
    for index in 0..200 {
        let made = volume.create(Ino::ROOT, name(index).as_bytes(), &new_file());
        volume.write_at(made.unwrap().ino, &[3; 5000], 0).unwrap();
    }
    let before = volume.stats().device;
    assert_eq!(volume.stats().writing.unwrap().dirty_bytes, 200 * 8192);
    volume.sync().unwrap();
    let writes = volume.stats().device.writes - before.writes;
    assert!(writes < 30, "{writes} writes for 200 files");
    assert_eq!(volume.stats().writing.unwrap().dirty_bytes, 0);
}
