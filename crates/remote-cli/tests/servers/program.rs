//! A server program on a port of loopback.

use larder_testkit::tool;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The number of ports that are tried: another program can take a port before the server does.
const PORTS: usize = 5;
/// The maximum time until a server accepts connections.
const START_TIME: Duration = Duration::from_mins(1);
/// The interval between attempts to connect.
const INTERVAL: Duration = Duration::from_millis(20);

/// A running server. It is killed when this is dropped.
pub struct Program {
    child: Child,
    pub address: SocketAddr,
}

impl Program {
    /// Starts `program` with the arguments that `args` returns for an address, and waits until it accepts
    /// connections. Its output is appended to the file `log`.
    pub fn start(program: &Path, log: &Path, args: impl Fn(SocketAddr) -> Vec<String>) -> Self {
        for _ in 0..PORTS {
            let address = free_address();
            let mut options = std::fs::File::options();
            let output = options.create(true).append(true).open(log).unwrap();
            // The kernel kills the server when the thread of the test ends.
            let child = Command::new("setpriv")
                .args(["--pdeathsig", "KILL", "--"])
                .arg(program)
                .args(args(address))
                .stdin(Stdio::null())
                .stdout(output.try_clone().unwrap())
                .stderr(output)
                .spawn()
                .expect("setpriv of util-linux starts");
            let mut started = Self { child, address };
            if started.accepts() {
                return started;
            }
        }
        let log = std::fs::read_to_string(log).unwrap_or_default();
        panic!("{} does not start: {log}", program.display());
    }

    /// Waits until the server accepts connections. Returns false if it has ended.
    fn accepts(&mut self) -> bool {
        let start = Instant::now();
        while start.elapsed() < START_TIME {
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            if TcpStream::connect(self.address).is_ok() {
                return true;
            }
            thread::sleep(INTERVAL);
        }
        false
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("the port is known")
}

/// Returns the path of a program that `make test-servers` installs. If it is absent, prints that the test is skipped.
pub fn installed(name: &str) -> Option<PathBuf> {
    let found = tool::of_project(name).or_else(|| tool::find(name));
    if found.is_none() {
        larder_testkit::report_skipped(format!("{name} is not installed: run make test-servers"));
    }
    found
}
