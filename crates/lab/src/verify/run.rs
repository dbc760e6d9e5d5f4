//! One run: a mount with a new overlay, the command, and the removal of the mount and the overlay.
//!
//! # Cleanup
//! All processes and files of a run are owned by [`Mounted`], which removes them when it is dropped, also after an error. The
//! server and the command are in process groups of their own, so that Ctrl-C reaches only this program, which then ends
//! them. Processes that the command left in its group are killed when it ends, because they would keep the mount in use.

use super::config::{Temperature, VerifyConfig, listed};
use super::error::Error;
use super::process::{self, Ended};
use super::sample::Sample;
use larder_block::mounts;
use rustix::fs::Advice;
use rustix::process::Signal;
use std::cell::Cell;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The environment variable with the mount point.
const MOUNT_VARIABLE: &str = "LARDER_MOUNT";
/// The time in which a server must mount, and in which it must end after the mount was removed.
const SERVER_TIMEOUT: Duration = Duration::from_mins(1);
/// The time in which the command must end after SIGTERM, before it and its processes are killed.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval between two checks whether the image is mounted.
const MOUNT_INTERVAL: Duration = Duration::from_millis(2);
/// The length of the messages of a program that are shown.
const MESSAGE_BYTES: usize = 2000;

/// Runs the command on mounts. The directory for the mounts is removed on drop.
#[derive(Debug)]
pub(super) struct Runner<'c> {
    config: &'c VerifyConfig,
    directory: Directory,
    runs: Cell<usize>,
}

/// A directory of this process, with the mount point, overlays and messages.
#[derive(Debug)]
struct Directory(PathBuf);

impl Directory {
    fn create(scratch: &Path) -> Result<Self, Error> {
        let path = scratch.join(format!("larder-verify-{}", std::process::id()));
        // The mount point must be absolute, because the command has another working directory.
        let path = std::path::absolute(&path).map_err(Error::io("create", &path))?;
        let create = DirBuilder::new().mode(0o700).create(&path);
        create.map_err(Error::io("create", &path))?;
        let directory = Self(path);
        let mountpoint = directory.mountpoint();
        fs::create_dir(&mountpoint).map_err(Error::io("create", mountpoint))?;
        Ok(directory)
    }

    fn mountpoint(&self) -> PathBuf {
        self.0.join("mnt")
    }

    fn overlay(&self) -> PathBuf {
        self.0.join("overlay")
    }

    fn server_messages(&self) -> PathBuf {
        self.0.join("server.log")
    }

    fn command_messages(&self) -> PathBuf {
        self.0.join("command.log")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // If something is still mounted there, only the directory of the mount point stays.
        for file in [
            self.overlay(),
            self.server_messages(),
            self.command_messages(),
        ] {
            let _ = fs::remove_file(file);
        }
        let _ = fs::remove_dir(self.mountpoint());
        let _ = fs::remove_dir(&self.0);
    }
}

impl<'c> Runner<'c> {
    pub(super) fn new(config: &'c VerifyConfig) -> Result<Self, Error> {
        Ok(Self {
            config,
            directory: Directory::create(&config.scratch)?,
            runs: Cell::new(0),
        })
    }

    /// Runs the command on a new mount with `options`.
    pub(super) fn run(
        &self,
        options: &[String],
        is_interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Sample, Error> {
        self.runs.set(self.runs.get() + 1);
        if self.config.temperature == Temperature::Cold {
            evict(&self.config.image)?;
        }
        let mounted = self.mount(options, is_interrupted)?;
        let began = Instant::now();
        let command = self.start_command()?;
        let Some(ended) = self.wait(command, is_interrupted)? else {
            return Err(Error::Interrupted);
        };
        if !ended.status.success() {
            return Err(Error::Command {
                status: ended.status,
                run: self.runs.get(),
                options: listed(options),
                message: last_lines(&self.directory.command_messages()),
            });
        }
        let server = mounted.unmount()?;
        Ok(Sample {
            wall_s: (ended.at - began).as_secs_f64(),
            command_processor_s: ended.processor_s,
            server_processor_s: server.processor_s,
            unmount_s: (server.at - ended.at).as_secs_f64(),
        })
    }

    /// Mounts the image, and waits until it is mounted.
    fn mount(
        &self,
        options: &[String],
        is_interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Mounted<'_>, Error> {
        let messages = self.directory.server_messages();
        let log = File::create(&messages).map_err(Error::io("create", &messages))?;
        let mut server = Command::new(&self.config.larder);
        server.args(["mount", "--foreground"]);
        if !options.is_empty() {
            server.arg("-o").arg(options.join(","));
        }
        if is_read_only(options) {
            // `larder mount` may split the joined options at other places, so `ro` has an `-o` of its own.
            server.args(["-o", "ro"]);
        } else {
            server.arg("--overlay").arg(self.directory.overlay());
        }
        server
            .arg(&self.config.image)
            .arg(self.directory.mountpoint())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .process_group(0);
        let server = server.spawn();
        let server = server.map_err(Error::io("run", &self.config.larder))?;
        let mut mounted = Mounted {
            server,
            has_ended: false,
            runner: self,
        };
        let failed = || Error::Mount {
            options: listed(options),
            message: last_lines(&messages),
        };
        let deadline = Instant::now() + SERVER_TIMEOUT;
        while !self.is_mounted() {
            if mounted.server.try_wait().is_ok_and(|end| end.is_some()) {
                mounted.has_ended = true;
                return Err(failed());
            }
            if is_interrupted() {
                return Err(Error::Interrupted);
            }
            if Instant::now() > deadline {
                return Err(failed());
            }
            std::thread::sleep(MOUNT_INTERVAL);
        }
        Ok(mounted)
    }

    fn is_mounted(&self) -> bool {
        let mountpoint = self.directory.mountpoint();
        let mountpoint = fs::canonicalize(&self.directory.0)
            .map_or(mountpoint, |directory| directory.join("mnt"));
        mounts::list().is_ok_and(|mounts| {
            mounts
                .iter()
                .any(|mount| mount.mountpoint == mountpoint && mount.is_fuse())
        })
    }

    /// Starts the command in the mount.
    fn start_command(&self) -> Result<Child, Error> {
        let mountpoint = self.directory.mountpoint();
        let messages = self.directory.command_messages();
        let log = File::create(&messages).map_err(Error::io("create", &messages))?;
        let mut arguments = self.config.command.iter();
        let program = arguments.next().cloned().unwrap_or_default();
        let mut command = Command::new(&program);
        command
            .args(arguments)
            .current_dir(&mountpoint)
            .env(MOUNT_VARIABLE, &mountpoint)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .process_group(0);
        command.spawn().map_err(Error::io("run", program))
    }

    /// Waits for the command. Ends it if the user interrupts the verification, and then returns `None`.
    fn wait(
        &self,
        mut command: Child,
        is_interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Ended>, Error> {
        let program = self.config.command.first().cloned().unwrap_or_default();
        let ended = process::wait_for_leader(&mut command, is_interrupted);
        if !matches!(ended, Ok(Some(_))) {
            process::end_group(&mut command, COMMAND_TIMEOUT);
        }
        ended.map_err(Error::io("wait for", program))
    }
}

/// A server and its mount. They end on drop.
struct Mounted<'r> {
    server: Child,
    /// Whether the server has ended and was waited for.
    has_ended: bool,
    runner: &'r Runner<'r>,
}

impl Mounted<'_> {
    /// Unmounts the image, waits for the end of the server, and deletes the overlay.
    fn unmount(mut self) -> Result<Ended, Error> {
        let mountpoint = self.runner.directory.mountpoint();
        let mut umount = Command::new(&self.runner.config.larder);
        umount.arg("umount").arg(&mountpoint).stdin(Stdio::null());
        let output = umount.output();
        let output = output.map_err(Error::io("run", &self.runner.config.larder))?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Error::Unmount(message));
        }
        let deadline = Instant::now() + SERVER_TIMEOUT;
        let ended = process::wait(&mut self.server, &mut || Instant::now() > deadline);
        match ended.map_err(Error::io("wait for", &self.runner.config.larder))? {
            Some(ended) => {
                self.has_ended = true;
                if ended.status.success() {
                    Ok(ended)
                } else {
                    let messages = self.runner.directory.server_messages();
                    Err(Error::Unmount(last_lines(&messages)))
                }
            }
            None => Err(Error::Unmount(
                "the server does not end although its mount was removed".to_owned(),
            )),
        }
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            // The server unmounts when it gets the signal. If the mount is in use, it is detached.
            process::signal(&self.server, Signal::TERM);
            let mut umount = Command::new(&self.runner.config.larder);
            umount
                .args(["umount", "--lazy"])
                .arg(self.runner.directory.mountpoint())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            // If the server has unmounted already, this fails.
            let _ = umount.status();
            if !process::wait_until(&mut self.server, Instant::now() + SERVER_TIMEOUT) {
                process::signal(&self.server, Signal::KILL);
                let _ = self.server.wait();
            }
        }
        let _ = fs::remove_file(self.runner.directory.overlay());
    }
}

/// Evicts the pages of the image from the cache of the host. Dirty pages are written first, because they cannot be evicted.
fn evict(image: &Path) -> Result<(), Error> {
    let evict = || -> io::Result<()> {
        let file = File::open(image)?;
        file.sync_all()?;
        Ok(rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?)
    };
    evict().map_err(Error::io("evict the cached pages of", image))
}

/// Returns whether a mount with `options` cannot change the image, so that it needs no overlay.
fn is_read_only(options: &[String]) -> bool {
    let mut options = options.iter().rev();
    let is_access = |option: &&String| matches!(&***option, "ro" | "rw");
    let last = options.clone().find(is_access);
    let ignores_journal = options.any(|option| matches!(&**option, "noload" | "norecovery"));
    last.is_some_and(|option| option == "ro") || ignores_journal
}

/// Returns the end of a file with messages.
fn last_lines(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let from = bytes.len().saturating_sub(MESSAGE_BYTES);
    let text = String::from_utf8_lossy(&bytes[from..]).trim().to_owned();
    if text.is_empty() {
        "no message".to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::ReadWriteFlags;

    const PAGES: usize = 1024;
    const PAGE_BYTES: usize = 4096;

    /// Returns the number of pages of the file that are in memory.
    fn cached_pages(path: &Path) -> usize {
        let file = File::open(path).unwrap();
        // A read of a page must not read others ahead.
        rustix::fs::fadvise(&file, 0, None, Advice::Random).unwrap();
        let is_cached = |page: &usize| {
            let mut byte = [0];
            let buffers = &mut [io::IoSliceMut::new(&mut byte)];
            let offset_bytes = (page * PAGE_BYTES) as u64;
            rustix::io::preadv2(&file, buffers, offset_bytes, ReadWriteFlags::NOWAIT).is_ok()
        };
        (0..PAGES).filter(is_cached).count()
    }

    #[test]
    fn dirty_pages_are_evicted() {
        let program = std::env::current_exe().unwrap();
        let directory = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
        let [clean, dirty] = ["clean", "dirty"].map(|name| directory.path().join(name));
        for path in [&clean, &dirty] {
            fs::write(path, vec![1; PAGES * PAGE_BYTES]).unwrap();
        }
        File::open(&clean).unwrap().sync_all().unwrap();
        evict(&clean).unwrap();
        if cached_pages(&clean) * 2 > PAGES {
            println!("skipped: the file system keeps all pages in memory");
            return;
        }
        evict(&dirty).unwrap();
        let cached = cached_pages(&dirty);
        assert!(cached * 2 < PAGES, "{cached} of {PAGES} pages");
    }

    #[test]
    fn mount_needs_no_overlay_if_its_last_access_option_is_ro() {
        let is_read_only = |options: &[&str]| {
            let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
            is_read_only(&options)
        };
        assert!(is_read_only(&["ro"]) && is_read_only(&["rw", "cache_size=1M", "ro"]));
        assert!(is_read_only(&["noload"]));
        assert!(!is_read_only(&[]) && !is_read_only(&["ro", "rw"]));
    }
}
