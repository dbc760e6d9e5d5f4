//! `larder run` in a terminal that tmux emulates, with a shell that has job control.

mod support;

use larder_testkit::{Requirement, skip};
use std::fs;
use support::processes::{can_run, child_of, state};
use support::terminal::Terminal;
use support::{Fixture, binary, wait_until};

/// A terminal with an interactive shell, and an image. In the shell, `$L COMMAND` runs a command with the image mounted,
/// and `$D` is the directory of the fixture.
struct Session {
    // It is dropped before the fixture, which has the socket with which tmux is ended.
    terminal: Terminal,
    fixture: Fixture,
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
        Some(Self { terminal, fixture })
    }

    /// Writes a script to a file of the fixture.
    fn script(&self, name: &str, content: &str) {
        fs::write(self.fixture.path(name), content).unwrap();
    }

    /// Returns the process ID of larder, which the shell has started.
    fn launcher(&self) -> u32 {
        let shell = self
            .terminal
            .tmux(&["display-message", "-p", "#{pane_pid}"]);
        child_of(shell.trim().parse().unwrap()).unwrap()
    }

    /// Waits until the shell has printed a prompt, after which nothing was typed.
    #[track_caller]
    fn wait_for_prompt(&self) {
        wait_until("the prompt", || {
            let screen = self.terminal.tmux(&["capture-pane", "-p"]);
            screen.trim_end().ends_with("\n$>")
        });
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

#[test]
fn command_is_stopped_and_continued_by_the_shell() {
    let Some(session) = Session::start("command_is_stopped_and_continued_by_the_shell") else {
        return;
    };
    session.script(
        "job",
        "echo waiting
         for round in 1 2 3 4 5; do
             while ! test -e $D/go$round; do sleep 0.05; done
             read line; echo \"read $line\"
         done",
    );
    let terminal = &session.terminal;
    terminal.type_line("$L bash $D/job");
    terminal.wait_for(&["\nwaiting"]);
    let launcher = session.launcher();
    let server = child_of(launcher).unwrap();
    let command = child_of(child_of(server).unwrap()).unwrap();
    let wait_for_stop = || {
        wait_until("the stop", || {
            [launcher, command].map(state) == [Some('T'); 2]
        });
    };
    let wait_for_continue = || {
        wait_until("the end of the stop", || {
            ![launcher, command].map(state).contains(&Some('T'))
        });
    };
    for round in 1..=5 {
        terminal.press("C-z");
        wait_for_stop();
        assert_ne!(state(server), Some('T'));
        session.wait_for_prompt();

        // In the background, the command is stopped again when it reads.
        terminal.type_line("bg");
        wait_for_continue();
        fs::write(session.fixture.path(&format!("go{round}")), "").unwrap();
        wait_for_stop();

        // A stop that follows a continue at once is not lost.
        terminal.type_line("fg");
        wait_for_continue();
        terminal.press("C-z");
        wait_for_stop();
        session.wait_for_prompt();

        terminal.type_line("fg");
        wait_for_continue();
        terminal.type_line(&format!("hello {round}"));
        terminal.wait_for(&[&format!("\nread hello {round}")]);
    }
    terminal.type_line("echo code $?");
    terminal.wait_for(&["\ncode 0"]);
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

/// The shell inside cannot put the process group of its caller in the foreground.
#[test]
fn terminal_can_be_read_after_an_interactive_shell_inside() {
    let test = "terminal_can_be_read_after_an_interactive_shell_inside";
    let Some(session) = Session::start(test) else {
        return;
    };
    session.script(
        "job",
        "PS1='inside> ' $L bash --norc --noprofile -i; echo code $?; read line; echo \"read $line\"",
    );
    let terminal = &session.terminal;
    terminal.type_line("sh $D/job");
    terminal.wait_for(&["\ninside>"]);
    // The shell inside has job control.
    terminal.type_line("sh -c 'echo started; exec sleep 1000'");
    terminal.wait_for(&["\nstarted"]);
    terminal.press("C-z");
    terminal.wait_for(&["Stopped"]);
    // The first attempt to exit only warns.
    terminal.type_line("exit 3");
    terminal.wait_for(&["There are stopped jobs"]);
    terminal.type_line("exit 3");
    terminal.wait_for(&["\ncode 3"]);
    terminal.type_line("hello");
    terminal.wait_for(&["\nread hello"]);
}
