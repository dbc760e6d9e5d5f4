//! A server program on a port of loopback.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::child::tail;

/// The number of ports that are tried: another program can take a port before the server does.
const PORTS: usize = 5;
/// The maximum time until a server accepts connections.
const START_TIME: Duration = Duration::from_secs(20);

/// A running server. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Service {
    child: Child,
    pub address: SocketAddr,
}

impl Service {
    /// Runs the command that `command` returns for an address, and waits until it accepts connections. Its output is
    /// written to the file `log`.
    pub(super) fn start(
        log: &Path,
        command: impl Fn(SocketAddr) -> Result<Command>,
    ) -> Result<Self> {
        for _ in 0..PORTS {
            let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
            let output = File::create(log)?;
            let mut command = command(address)?;
            command.stdin(Stdio::null());
            command.stdout(output.try_clone()?).stderr(output);
            let child = command.spawn().with_context(|| format!("{command:?}"))?;
            let mut started = Self { child, address };
            if started.accepts()? {
                return Ok(started);
            }
        }
        bail!("the server does not start: {}", tail(log));
    }

    /// Waits until the server accepts connections. Returns false if it does not.
    fn accepts(&mut self) -> Result<bool> {
        let start = Instant::now();
        while start.elapsed() < START_TIME && self.child.try_wait()?.is_none() {
            if TcpStream::connect(self.address).is_ok() {
                return Ok(true);
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(false)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
