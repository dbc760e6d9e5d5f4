//! Appends by several processes, through a mount: none overwrites the data of another.

mod mounted;

use larder_fuse::{MountOptions, WriteBack};
use larder_testkit::e2fsprogs::check;
use larder_testkit::{Requirement, skip};
use mounted::{Mounted, folder};
use std::fs;
use std::process::{Command, Stdio};

const PROCESSES: usize = 4;
/// The number of records of each process.
const RECORDS: usize = 1000;

/// Opens the file `$1` with `O_APPEND`. When standard input is closed, appends `$3` records, each with
/// one write(2).
const APPEND: &str = r#"
exec >>"$1"
read -r line || :
number=0
while [ $number -lt "$3" ]; do
    echo "$2 $number $((number * number * number))"
    number=$((number + 1))
done
"#;

/// Returns a record, without the newline.
fn record(process: usize, number: usize) -> String {
    format!("{process} {number} {}", number.pow(3))
}

fn append_by_processes(options: &MountOptions) {
    let tools = ["mke2fs", "e2fsck"].map(Requirement::Tool);
    if skip(&tools) || skip(&[Requirement::Root, Requirement::Fuse]) {
        return;
    }
    let folder = folder("-t ext4 -b 4096 -N 2048", "32M");
    let mounted = Mounted::for_writing(folder.path(), options);
    let path = mounted.path.join("log");
    let mut children: Vec<_> = (0..PROCESSES)
        .map(|process| {
            let child = Command::new("sh")
                .args(["-ec", APPEND, "sh"])
                .arg(&path)
                .args([process, RECORDS].map(|argument| argument.to_string()))
                .stdin(Stdio::piped())
                .spawn();
            child.unwrap()
        })
        .collect();
    for child in &mut children {
        drop(child.stdin.take());
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let content = fs::read_to_string(&path).unwrap();
    let mut counts = [0; PROCESSES];
    for line in content.lines() {
        let process = line.split(' ').next().and_then(|first| first.parse().ok());
        let process: usize = process.expect("a record begins with the number of its process");
        assert_eq!(line, record(process, counts[process]));
        counts[process] += 1;
    }
    assert_eq!(counts, [RECORDS; PROCESSES]);
    mounted.close().unwrap();
    check(&folder.path().join("image")).unwrap();
}

#[test]
fn appends_of_processes_are_complete_if_the_kernel_collects_writes() {
    append_by_processes(&MountOptions {
        write_back: WriteBack::On,
        ..MountOptions::default()
    });
}

#[test]
fn appends_of_processes_are_complete_if_each_write_is_a_request() {
    append_by_processes(&MountOptions {
        write_back: WriteBack::Off,
        ..MountOptions::default()
    });
}

#[test]
fn appends_of_processes_are_complete_with_direct_io() {
    append_by_processes(&MountOptions {
        direct_io: true,
        ..MountOptions::default()
    });
}
