//! sysbench's OLTP load on a `MariaDB` server whose data is stored on the mount.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use larder_testkit::requirement::{Requirement, is_root};
use rustix::process::{Pid, Signal, kill_process};

use crate::child;
use crate::plan::Plan;

/// The time limit for the server to start, and to exit.
const TIMEOUT: Duration = Duration::from_mins(2);
/// The time limit of each step: installing the database, creating the tables, and running the load.
const DEADLINE: Duration = Duration::from_mins(10);

/// Returns the reason why no database can be measured, if there is one.
#[must_use]
pub fn missing() -> Option<String> {
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

/// Returns the transactions per second of a database below `root`. The socket and the logs are created in
/// `folder`.
pub(super) fn transactions(root: &Path, plan: &Plan, folder: &Path) -> Result<f64> {
    let data = root.join("database");
    let log = folder.join("database.log");
    let mut install = Command::new(child::find("mariadb-install-db")?);
    install
        .args(["--no-defaults", "--user=root", "--skip-test-db"])
        .arg("--auth-root-authentication-method=normal")
        .arg(format!("--datadir={}", data.display()));
    child::run_for(DEADLINE, install, &log, |_| {})?;
    let server = Database::start(&data, folder)?;
    let mut create = Command::new(child::find("mariadb-admin")?);
    create
        .args(["--no-defaults", "--user=root"])
        .arg(format!("--socket={}", server.socket.display()))
        .args(["create", "sbtest"]);
    child::run(create, &log, |_| {})?;
    child::run_for(DEADLINE, server.sysbench(plan, "prepare")?, &log, |_| {})?;
    let (_, text) = child::output_of(DEADLINE, server.sysbench(plan, "run")?, &log)?;
    rate(&String::from_utf8_lossy(&text))
}

/// Returns the rate in a line such as `transactions:   1234   (123.40 per sec.)`.
fn rate(text: &str) -> Result<f64> {
    text.lines()
        .find_map(|line| {
            let rest = line.trim().strip_prefix("transactions:")?;
            let (_, rate) = rest.split_once('(')?;
            rate.split(' ').next()?.parse().ok()
        })
        .with_context(|| format!("unexpected output of sysbench: {text:?}"))
}

/// A `MariaDB` server, which is stopped on drop.
struct Database {
    child: Child,
    socket: PathBuf,
}

impl Database {
    fn start(data: &Path, folder: &Path) -> Result<Self> {
        let socket = folder.join("database.sock");
        let _ = fs::remove_file(&socket);
        let log = folder.join("mariadbd.log");
        let mut command = Command::new(child::find("mariadbd")?);
        command
            .args(["--no-defaults", "--user=root", "--skip-networking"])
            .args(["--innodb-buffer-pool-size=64M", "--skip-log-bin"])
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
        let mut server = Self { child, socket };
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

    fn sysbench(&self, plan: &Plan, step: &str) -> Result<Command> {
        let mut command = Command::new(child::find("sysbench")?);
        command
            .args(["oltp_read_write", "--db-driver=mysql", "--mysql-user=root"])
            .arg(format!("--mysql-socket={}", self.socket.display()))
            .args(["--tables=4", "--threads=4", "--rand-seed=1"])
            .arg(format!("--table-size={}", plan.table_rows))
            .arg(format!("--time={}", plan.database_seconds))
            .arg(step);
        Ok(command)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        if !child::wait_for(&mut self.child, TIMEOUT).is_ok_and(|status| status.is_some()) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_of_transactions_is_parsed() {
        let text = "    transactions:                        1234   (123.40 per sec.)\n";
        assert!((rate(text).unwrap() - 123.4).abs() < 1e-9);
        assert!(rate("FATAL: no server").is_err());
    }
}
