//! A terminal that tmux emulates.

use super::{Fixture, text, tool, wait_until};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A terminal of 80 columns and 24 rows that runs a shell script. It is closed when dropped.
pub struct Terminal {
    socket: PathBuf,
    config: PathBuf,
}

impl Terminal {
    /// Runs `script`.
    pub fn running(fixture: &Fixture, script: &str) -> Self {
        // Each terminal has a socket of its own, because a tmux server that must end keeps its socket
        // for a while.
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Relaxed);
        let terminal = Self {
            socket: fixture.path(&format!("tmux-{number}")),
            config: fixture.path("tmux.conf"),
        };
        fs::write(
            &terminal.config,
            "set -g status off\nset -g remain-on-exit on\n",
        )
        .unwrap();
        terminal.tmux(&["new-session", "-d", "-x", "80", "-y", "24", script]);
        terminal
    }

    /// Runs a command of tmux.
    pub fn tmux(&self, args: &[&str]) -> String {
        // -u: tmux shows characters outside ASCII, whatever the locale of the test is.
        let output = Command::new(tool("tmux"))
            .arg("-u")
            .arg("-S")
            .arg(&self.socket)
            .arg("-f")
            .arg(&self.config)
            .args(args)
            .env_remove("TMUX")
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{args:?}: {}",
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// Changes the size of the terminal.
    pub fn resize(&self, columns: u16, rows: u16) {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        self.tmux(&["resize-window", "-x", &columns, "-y", &rows]);
    }

    pub fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// Types `line`, and presses Enter.
    pub fn type_line(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.press("Enter");
    }

    /// Returns the text of the screen.
    pub fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen contains all of `parts`.
    #[track_caller]
    pub fn wait_for(&self, parts: &[&str]) -> String {
        let mut screen = String::new();
        wait_until(&format!("{parts:?} on the screen"), || {
            screen = self.screen();
            parts.iter().all(|part| screen.contains(part))
        });
        screen
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The tmux server may have ended already.
        let _ = Command::new(tool("tmux"))
            .arg("-S")
            .arg(&self.socket)
            .arg("kill-server")
            .output();
    }
}
