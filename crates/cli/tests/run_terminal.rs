//! `larder run` in a terminal that tmux emulates, with a shell that has job control.

mod support;

use larder_testkit::{Requirement, skip};
use std::fs;
use support::processes::can_run;
use support::terminal::Terminal;
use support::{Fixture, binary, wait_until};

/// A terminal with an interactive shell, and an image. In the shell, `$L COMMAND` runs a command with the image mounted,
/// and `$D` is the directory of the fixture.
struct Session {
    fixture: Fixture,
    terminal: Terminal,
}

impl Session {
    /// Returns `None` if `test` cannot run here.
    fn start(test: &str) -> Option<Self> {
        let tools = ["tmux", "bash"].map(Requirement::Tool);
        if !can_run(test) || skip(&tools) {
            return None;
        }
        let fixture = Fixture::new();
        let shell = format!(
            "cd {}; export D=$PWD PS1='$> ' L='{} run -o ro image --'; exec bash --norc --noprofile -i",
            fixture.path("").display(),
            binary().display()
        );
        let terminal = Terminal::running(&fixture, &shell);
        // tmux removes blanks at the ends of lines.
        terminal.wait_for(&["$>"]);
        Some(Self { fixture, terminal })
    }

    /// Writes a script to a file of the fixture.
    fn script(&self, name: &str, content: &str) {
        fs::write(self.fixture.path(name), content).unwrap();
    }
}

#[test]
fn keys_and_window_size_reach_the_command_once() {
    let Some(session) = Session::start("keys_and_window_size_reach_the_command_once") else {
        return;
    };
    session.script(
        "job",
        "trap 'echo caught' INT; trap 'stty size' WINCH
         echo waiting; while ! test -e $D/go; do sleep 0.05; done
         read line; echo \"read $line\"; exit 5",
    );
    let terminal = &session.terminal;
    terminal.type_line("$L bash $D/job; echo code $?");
    terminal.wait_for(&["\nwaiting"]);
    terminal.press("C-c");
    terminal.wait_for(&["\n^Ccaught"]);
    terminal.tmux(&["resize-window", "-x", "100", "-y", "30"]);
    terminal.wait_for(&["\n30 100"]);
    fs::write(session.fixture.path("go"), "").unwrap();
    terminal.type_line("hello");
    let screen = terminal.wait_for(&["\nread hello\ncode 5"]);
    assert_eq!(screen.matches("caught").count(), 1, "{screen}");
    assert_eq!(screen.matches("\n30 100").count(), 1, "{screen}");
}

/// On a hang-up, the kernel sends a signal only to the first process of the session.
#[test]
fn hang_up_reaches_the_command_if_larder_is_the_first_process_of_the_session() {
    let test = "hang_up_reaches_the_command_if_larder_is_the_first_process_of_the_session";
    let Some(session) = Session::start(test) else {
        return;
    };
    session.script(
        "job",
        "trap 'echo hung up > $D/signals; exit' HUP; echo waiting; while :; do sleep 0.05; done",
    );
    let terminal = &session.terminal;
    terminal.type_line("exec $L bash $D/job");
    terminal.wait_for(&["\nwaiting"]);
    terminal.tmux(&["kill-server"]);
    let signals = session.fixture.path("signals");
    wait_until("the signal", || {
        fs::read_to_string(&signals).is_ok_and(|signals| signals == "hung up\n")
    });
}
