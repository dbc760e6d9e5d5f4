use super::*;
use larder_testkit::Seed;
use larder_testkit::seed::Random;
use tempfile::TempDir;

const MAPS: &str = "\
5581e0000000-5581e0002000 r-xp 00000000 fe:00 1234    /usr/bin/a program
5581e0002000-5581e0003000 rw-p 00002000 fe:00 1234    /usr/bin/a program
7ffd3c400000-7ffd3c421000 rw-p 00000000 00:00 0       [stack]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]
";
const STATUS: &str =
    "Name:\tUid:\\n7\nState:\tS (sleeping)\nUid:\t1000\t0\t1000\t33\nGid:\t4\t4\t4\t4\n";
const PASSWD: &str =
    "root:x:0:0:root:/root:/bin/sh\n# comment\nguest:x:65534:65534::/:/bin/false\n";

/// A directory in the form of procfs.
struct Proc(TempDir);

impl Proc {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("passwd"), PASSWD).unwrap();
        fs::create_dir(dir.path().join("proc")).unwrap();
        fs::create_dir(dir.path().join("proc/fs")).unwrap();
        Self(dir)
    }

    fn process(&self, pid: u32) -> PathBuf {
        self.0.path().join("proc").join(pid.to_string())
    }

    fn add(&self, pid: u32, threads: &[u32], maps: &str) {
        for thread in threads {
            fs::create_dir_all(self.process(pid).join("task").join(thread.to_string())).unwrap();
        }
        fs::write(self.process(pid).join("maps"), maps).unwrap();
        fs::write(self.process(pid).join("status"), STATUS).unwrap();
    }

    fn recorder(&self, table: KeyTable) -> KeyRecorder {
        let (proc, passwd) = (self.0.path().join("proc"), self.0.path().join("passwd"));
        KeyRecorder::of(table, &proc, &passwd)
    }
}

/// The operation (`i`, `r` or `l`), the key and the pages of an event.
type Row = (char, u64, u64, u64);

/// Records, and calls `between` with the number of scans after each scan until it returns false.
fn record(recorder: KeyRecorder, mut between: impl FnMut(u32) -> bool) -> (Vec<Row>, KeySummary) {
    let (mut rows, mut scans) = (Vec::new(), 0);
    let mut stop = |_| {
        scans += 1;
        !between(scans)
    };
    let summary = recorder.run(&mut stop, &mut |event| {
        let operation = match event.operation {
            Operation::Insert => 'i',
            Operation::Remove | Operation::Evict => 'r',
            Operation::Lookup { hit } => {
                assert!(hit);
                'l'
            }
        };
        rows.push((
            operation,
            event.key().object,
            event.key().index,
            event.name_hash,
        ));
        Ok(())
    });
    (rows, summary.unwrap())
}

#[test]
fn processes_are_inserted_looked_up_in_each_scan_and_removed() {
    let proc = Proc::new();
    proc.add(7, &[7, 9], "");
    let (rows, summary) = record(proc.recorder(KeyTable::Processes), |scans| {
        if scans == 1 {
            fs::remove_dir_all(proc.process(7)).unwrap();
            proc.add(8, &[8], "");
        }
        scans < 2
    });
    let expected = [
        ('i', 7),
        ('i', 9),
        ('l', 7),
        ('l', 9),
        ('r', 7),
        ('r', 9),
        ('i', 8),
        ('l', 8),
    ];
    assert_eq!(
        rows,
        expected.map(|(operation, pid)| (operation, 0, pid, 0))
    );
    let counts = KeySummary {
        scans: 2,
        keys: 3,
        peak: 2,
        unreadable: 0,
    };
    assert_eq!(summary, counts);
}

#[test]
fn users_are_all_ids_of_processes_and_accounts() {
    let proc = Proc::new();
    proc.add(7, &[7], "");
    let (rows, _) = record(proc.recorder(KeyTable::Users), |_| false);
    let inserted = rows.iter().filter(|row| row.0 == 'i').map(|row| row.2);
    assert_eq!(inserted.collect::<Vec<_>>(), [0, 33, 1000, 65534]);
}

#[test]
fn area_that_grows_is_removed_and_inserted() {
    let proc = Proc::new();
    proc.add(7, &[7], MAPS);
    let mut recorder = proc.recorder(KeyTable::Areas);
    recorder.page_bytes = 4096;
    let (rows, _) = record(recorder, |scans| {
        proc.add(
            7,
            &[7],
            &MAPS.replace("2000-5581e0003000", "2000-5581e0005000"),
        );
        scans < 2
    });
    let [text, data, stack] = [
        (0x5_581e_0000, 2),
        (0x5_581e_0002, 1),
        (0x7_ffd3_c400, 0x21),
    ];
    let of = |operation, (first, pages)| (operation, 7, first, pages);
    let scan = |data| [text, data, stack].map(|area| of('l', area));
    let mut expected = [text, data, stack].map(|area| of('i', area)).to_vec();
    expected.extend(scan(data));
    let larger = (data.0, 3);
    expected.extend([of('r', data), of('i', larger)]);
    expected.extend(scan(larger));
    assert_eq!(rows, expected);
}

#[test]
fn process_that_ends_during_a_scan_is_skipped() {
    let proc = Proc::new();
    fs::create_dir(proc.process(7)).unwrap();
    proc.add(8, &[8], MAPS);
    for (table, keys) in [
        (KeyTable::Processes, 1),
        (KeyTable::Users, 4),
        (KeyTable::Areas, 3),
    ] {
        let (_, summary) = record(proc.recorder(table), |_| false);
        assert_eq!((summary.keys, summary.unreadable), (keys, 0), "{table:?}");
    }
}

#[test]
fn missing_procfs_is_an_error() {
    let recorder = KeyRecorder::of(KeyTable::Areas, Path::new("/nonexistent"), Path::new("/"));
    assert!(recorder.run(&mut |_| true, &mut |_| Ok(())).is_err());
}

#[test]
fn this_machine_has_this_process_with_its_areas() {
    let pid = u64::from(std::process::id());
    let (rows, _) = record(KeyRecorder::new(KeyTable::Processes), |_| false);
    assert!(rows.contains(&('l', 0, pid, 0)));
    let (rows, _) = record(KeyRecorder::new(KeyTable::Areas), |_| false);
    let here = std::ptr::from_ref(&pid).addr() as u64 / rustix::param::page_size() as u64;
    let contains = |row: &Row| row.1 == pid && (row.2..row.2 + row.3).contains(&here);
    assert!(rows.iter().any(contains));
}

#[test]
fn damaged_files_are_parsed_without_a_panic() {
    let seed = Seed::from_environment(0x1d);
    let mut random = Random::new(seed);
    for _ in 0..20_000 {
        for text in [MAPS, STATUS, PASSWD] {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..=random.below(8) {
                let at = random.index(bytes.len());
                let byte = random.byte();
                bytes[at] = *random
                    .choose(&[b'0', b'f', b'-', b':', b' ', b'\n', byte])
                    .unwrap();
            }
            let bytes = &bytes[..=random.index(bytes.len())];
            for (first, pages) in parse::areas(bytes, 4096) {
                assert!(
                    first.checked_add(pages).is_some() && pages > 0,
                    "seed {seed}"
                );
            }
            parse::users(bytes);
            parse::accounts(bytes).for_each(drop);
        }
    }
}
