//! Tests with complete traces.

use super::super::skipped::Skipped;
use super::call::Origin;
use super::{Call, Calls};
use std::io;

fn calls(text: &str) -> (Vec<Call>, Skipped) {
    let mut calls = Calls::new(text.as_bytes());
    let all = calls.by_ref().collect::<io::Result<Vec<_>>>().unwrap();
    (all, calls.skipped)
}

#[test]
fn call_in_two_parts_is_joined_at_the_line_of_the_second() {
    let (calls, skipped) = calls(
        "7 1.0 read(3,  <unfinished ...>\n\
         8 0.5 getpid() = 8\n\
         7 0.5 <... read resumed>\"abc\", 10) = 3\n",
    );
    assert_eq!(skipped, Skipped::default());
    let read = &calls[1];
    assert_eq!((&*read.name, read.pid, read.line), ("read", 7, 3));
    assert_eq!((read.length, read.returned()), (Some(10), Some(3)));
    assert_eq!(read.time_ns, 2_000_000_000);
}

#[test]
fn child_is_assigned_to_the_parent_that_has_returned() {
    let (calls, _) = calls(
        "7 fork() = 8\n\
         8 getpid() = 8\n\
         8 getpid() = 8\n",
    );
    let origin = Origin {
        parent: 7,
        shares_files: false,
        shares_directory: false,
    };
    assert_eq!(calls[1].origin, Some(origin));
    assert_eq!(calls[2].origin, None);
}

#[test]
fn child_that_runs_first_is_assigned_to_the_unfinished_clone() {
    let (calls, _) = calls(
        "7 clone(child_stack=0x7f, flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD <unfinished ...>\n\
         8 getpid() = 7\n\
         7 <... clone resumed>, parent_tid=[8]) = 8\n",
    );
    let origin = calls[0].origin.unwrap();
    assert_eq!(
        (origin.parent, origin.shares_files, origin.shares_directory),
        (7, true, true)
    );
    assert_eq!(calls[1].returned(), Some(8));
}

#[test]
fn lines_without_a_call_are_counted_by_reason() {
    let (calls, skipped) = calls(
        "7 --- SIGCHLD {si_signo=SIGCHLD} ---\n\
         7 +++ exited with 0 +++\n\
         strace: Process 8 attached\n\
         7 <... read resumed>\"abc\", 10) = 3\n\
         7 read(3, \"a\n",
    );
    assert!(calls.is_empty());
    let reasons: Vec<_> = skipped
        .reasons()
        .map(|(reason, lines)| (reason, lines.count, lines.first_number))
        .collect();
    let expected = [
        ("a line that is not in the given format", 1, 5),
        ("a message of strace", 1, 3),
        ("a signal", 1, 1),
        ("the end of a call whose beginning is missing", 1, 4),
        ("the end of a thread", 1, 2),
    ];
    assert_eq!(reasons, expected);
}
