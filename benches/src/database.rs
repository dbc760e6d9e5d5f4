//! A `MariaDB` server, and sysbench as its client.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use larder_testkit::requirement::{Requirement, is_root};
use rustix::process::{Pid, Signal, kill_process};

use crate::child;
use crate::origin::first_line;

/// The time limit for a server to start, and to exit.
const TIMEOUT: Duration = Duration::from_mins(2);
/// The time limit of each step: installing the database, creating the tables, and running the load.
const DEADLINE: Duration = Duration::from_mins(10);

/// The name of sysbench's database, and of its directory in the data directory of the server.
pub(crate) const DATABASE: &str = "sbtest";

/// Returns the reason why no database can be measured, if there is one.
#[must_use]
pub(crate) fn missing() -> Option<String> {
    if !is_root() {
        return Some("root is required to run the database server".to_owned());
    }
    [
        "mariadbd",
        "mariadb-install-db",
        "mariadb-admin",
        "sysbench",
    ]
    .into_iter()
    .find_map(|name| Requirement::Tool(name).missing())
}

/// Returns the version of the server, such as `mariadbd 10.11.6-MariaDB`.
pub(crate) fn version() -> Option<String> {
    let line = first_line(Command::new(child::find("mariadbd").ok()?).arg("--version"))?;
    let version = line.split_whitespace().nth(2)?;
    Some(format!("mariadbd {version}"))
}

/// A `MariaDB` server, which is stopped on drop.
pub(crate) struct Database {
    child: Child,
    socket: PathBuf,
    /// The directory of the socket and the logs.
    folder: PathBuf,
}

impl Database {
    /// Creates a new data directory `data`, starts a server with `options` on it, and creates sysbench's database. The
    /// socket and the logs are created in `folder`.
    pub(crate) fn create(data: &Path, folder: &Path, options: &[&str]) -> Result<Self> {
        let log = folder.join("database.log");
        let mut install = Command::new(child::find("mariadb-install-db")?);
        install
            .args(["--no-defaults", "--user=root", "--skip-test-db"])
            .arg("--auth-root-authentication-method=normal")
            .arg(format!("--datadir={}", data.display()));
        child::run_for(DEADLINE, install, &log, |_| {})?;
        let command = Command::new(child::find("mariadbd")?);
        let server = Self::start(command, data, folder, options)?;
        let mut create = Command::new(child::find("mariadb-admin")?);
        create
            .args(["--no-defaults", "--user=root"])
            .arg(format!("--socket={}", server.socket.display()))
            .args(["create", DATABASE]);
        child::run(create, &log, |_| {})?;
        Ok(server)
    }

    /// Starts a server with `options` on the data directory `data`. `command` runs mariadbd; this function adds its
    /// arguments.
    pub(crate) fn start(
        mut command: Command,
        data: &Path,
        folder: &Path,
        options: &[&str],
    ) -> Result<Self> {
        let socket = folder.join("database.sock");
        let _ = fs::remove_file(&socket);
        let log = folder.join("mariadbd.log");
        command
            .args(["--no-defaults", "--user=root", "--skip-networking"])
            .arg("--skip-log-bin")
            .args(options)
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--socket={}", socket.display()))
            .arg(format!(
                "--pid-file={}",
                folder.join("database.pid").display()
            ))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?);
        let child = command.spawn().with_context(|| format!("{command:?}"))?;
        let mut server = Self {
            child,
            socket,
            folder: folder.to_owned(),
        };
        server.wait_until_ready(&log)?;
        Ok(server)
    }

    fn wait_until_ready(&mut self, log: &Path) -> Result<()> {
        let give_up = Instant::now() + TIMEOUT;
        while std::os::unix::net::UnixStream::connect(&self.socket).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("mariadbd: {status}: {}", child::tail(log));
            }
            if Instant::now() > give_up {
                bail!(
                    "mariadbd does not respond after {} s: {}",
                    TIMEOUT.as_secs(),
                    child::tail(log)
                );
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Runs `test` of sysbench with `arguments`, and returns its output.
    pub(crate) fn sysbench(&self, test: &str, arguments: &[String]) -> Result<String> {
        let mut command = Command::new(child::find("sysbench")?);
        command
            .args([test, "--db-driver=mysql", "--mysql-user=root"])
            .arg(format!("--mysql-socket={}", self.socket.display()))
            .args(arguments);
        let log = self.folder.join("database.log");
        let (_, output) = child::output_of(DEADLINE, command, &log)?;
        Ok(String::from_utf8_lossy(&output).into_owned())
    }

    /// Stops the server.
    ///
    /// # Errors
    /// Fails if the server does not exit in time, or reports a failure.
    pub(crate) fn stop(mut self) -> Result<()> {
        match self.terminate() {
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(status)) => {
                let log = self.folder.join("mariadbd.log");
                bail!("mariadbd: {status}: {}", child::tail(&log))
            }
            Ok(None) => bail!("mariadbd does not exit"),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends SIGTERM to the server, and waits until it has exited.
    fn terminate(&mut self) -> io::Result<Option<ExitStatus>> {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        child::wait_for(&mut self.child, TIMEOUT)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // After `stop`, the server has exited.
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        if !self.terminate().is_ok_and(|status| status.is_some()) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
