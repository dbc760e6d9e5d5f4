//! The processes that read: from a mount, or directly from the server.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::readahead::streams;
use crate::remote::recorded::Start;
use crate::work::{self, Reading};

/// The subcommand of this crate's binary that runs one of the processes.
pub const WORKER: &str = "remote-worker";

/// The length of a request of the interleaved readers.
const INTERLEAVED_BYTES: u64 = 128 << 10;

/// What a process reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Job {
    /// A file, from start to end.
    Sequential(PathBuf),
    /// Regions of a file, one for each reader, at once.
    Interleaved {
        /// The file.
        file: PathBuf,
        /// The number of readers.
        readers: u32,
    },
    /// Random pages of a file, no page twice.
    Random {
        /// The file.
        file: PathBuf,
        /// Determines the pages.
        run: u64,
        /// The number of threads.
        threads: u32,
        /// The number of pages that each of them reads.
        reads_each: u32,
    },
    /// The reads of a recorded start, from files below a folder.
    Replay(Start, PathBuf),
    /// The first byte of a file.
    FirstByte(PathBuf),
    /// The ranges of an object, over parallel connections.
    Plain {
        /// The address of the server.
        address: SocketAddr,
        /// The number of bytes to read from the start on.
        bytes: u64,
        /// The length of a range.
        range_bytes: u64,
        /// The number of connections.
        connections: u32,
    },
}

impl Job {
    /// Reads, and returns the result as JSON.
    pub fn run(self) -> Result<serde_json::Value> {
        Ok(match self {
            Self::Sequential(file) => serde_json::to_value(work::sequential(&file)?),
            Self::Interleaved { file, readers } => {
                let bytes = file.metadata()?.len();
                let open = || streams::open(&file);
                let reading = streams::interleaved(open, bytes, readers, INTERLEAVED_BYTES, false);
                serde_json::to_value(reading?)
            }
            Self::Random {
                file,
                run,
                threads,
                reads_each,
            } => {
                let opened = streams::open(&file)?;
                rustix::fs::fadvise(&opened, 0, None, rustix::fs::Advice::Random)?;
                let pages = work::shuffled(opened.metadata()?.len() >> 12, run);
                let wanted = pages.len().min((threads * reads_each) as usize);
                serde_json::to_value(work::random_pages(&opened, &pages[..wanted], threads)?)
            }
            Self::Replay(start, folder) => serde_json::to_value(start.replay(&folder)?),
            Self::FirstByte(path) => {
                let started = Instant::now();
                let mut byte = [0];
                let opened = File::open(&path).with_context(|| path.display().to_string());
                opened?.read_exact(&mut byte)?;
                serde_json::to_value(started.elapsed().as_secs_f64())
            }
            Self::Plain {
                address,
                bytes,
                range_bytes,
                connections,
            } => serde_json::to_value(plain(address, (bytes, range_bytes), connections)?),
        }?)
    }

    /// Runs the job in a process of `harness`, this crate's binary. Kills it after `deadline`.
    pub(super) fn result<R: DeserializeOwned>(
        &self,
        harness: &Path,
        deadline: Duration,
        log: &Path,
    ) -> Result<R> {
        let mut command = Command::new(harness);
        command.arg(WORKER).arg(serde_json::to_string(self)?);
        work::result_of(deadline, command, log)
    }
}

/// Requests the first `bytes` of an object in ranges over parallel connections, and discards them.
fn plain(
    address: SocketAddr,
    (bytes, range_bytes): (u64, u64),
    connections: u32,
) -> Result<Reading> {
    let next = AtomicU64::new(0);
    let started = Instant::now();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..connections)
            .map(|_| scope.spawn(|| ranges(address, (bytes, range_bytes), &next)))
            .collect();
        for thread in threads {
            thread.join().map_err(|_| anyhow!("a thread panicked"))??;
        }
        anyhow::Ok(())
    })?;
    Ok(Reading {
        seconds: started.elapsed().as_secs_f64(),
        bytes,
        ..Reading::default()
    })
}

/// Requests ranges over one connection until all are requested.
fn ranges(address: SocketAddr, (bytes, range_bytes): (u64, u64), next: &AtomicU64) -> Result<()> {
    let mut connection = TcpStream::connect(address)?;
    connection.set_nodelay(true)?;
    let mut buf = vec![0; 256 << 10];
    loop {
        let start = next.fetch_add(range_bytes, Relaxed);
        if start >= bytes {
            return Ok(());
        }
        let end = bytes.min(start + range_bytes);
        write!(
            connection,
            "GET /disk.img HTTP/1.1\r\nhost: {address}\r\nrange: bytes={start}-{}\r\n\r\n",
            end - 1
        )?;
        read_head(&mut connection)?;
        let mut rest = end - start;
        while rest > 0 {
            let len = buf.len().min(usize::try_from(rest)?);
            let read = connection.read(&mut buf[..len])?;
            ensure!(read > 0, "the server ended the connection");
            rest -= read as u64;
        }
    }
}

/// Reads the head of a reply, which must be a range.
fn read_head(connection: &mut TcpStream) -> Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        connection.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    ensure!(
        head.starts_with(b"HTTP/1.1 206"),
        "unexpected reply: {}",
        String::from_utf8_lossy(&head)
    );
    Ok(())
}
