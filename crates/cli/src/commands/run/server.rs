//! The server: mounts the image in namespaces of its own, starts the init, and unmounts the image when the init has ended.

use super::failed::Failed;
use super::init::Place;
use super::namespaces;
use super::pipes::open_signals;
use crate::args::RunArgs;
use crate::background;
use crate::commands::mount::{self, Use};
use crate::holder::LARDER;
use crate::mount_options::Options;
use crate::stage::{FAILED, INIT, Link};
use larder_console::{Failure, Result, print_warning};
use larder_fuse::Unmounter;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Signal, getppid, kill_process, set_parent_process_death_signal};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

/// Directories to mount on. The Filesystem Hierarchy Standard requires them, and no program needs their content.
const MOUNT_POINTS: [&str; 3] = ["/mnt", "/media", "/srv"];
/// How long another process that has opened files of the mount may use them after the end of the command.
const GRACE: Duration = Duration::from_secs(1);

/// Runs the server until the command has ended, and returns the exit code of the command.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode> {
    let Some(link) = args.link else {
        return Err(Failure::usage("run must be the first argument of larder"));
    };
    background::set_process_name("-server");
    let mut options = Options::of_volume(&args.options, &args.volume)?;
    if options.mount.suid || options.mount.dev {
        return Err(Failure::usage(
            "the mount options suid and dev cannot be used with larder run",
        ));
    }
    // Only the processes of the command have the mount in their namespace. If root runs the command, they may change their
    // user.
    options.mount.allow_other = true;
    // The socket would be left if this process was killed.
    options.mount.has_statistics = false;
    // The first thread starts after this.
    namespaces::enter(options.mount.fakeroot)?;
    set_parent_process_death_signal(Some(Signal::KILL)).failed("cannot follow the launcher")?;
    follow_launcher(link)?;
    let (sender, ended) = mpsc::channel();
    let job = Job {
        link,
        mountpoint: match &args.mountpoint {
            Some(mountpoint) => fs::canonicalize(mountpoint)
                .failed(format_args!("cannot mount on {}", mountpoint.display()))?,
            None => empty_directory()?,
        },
        place: match &args.mountpoint {
            _ if args.chroot => Place::Chroot,
            Some(_) => Place::Current,
            None => Place::Root,
        },
        command: args.command.clone(),
    };
    let mountpoint = job.mountpoint.clone();
    let start = move |unmounter: Unmounter| {
        let thread = thread::Builder::new().name("larder-command".to_owned());
        thread.spawn(move || job.run(&unmounter, &sender)).map(drop)
    };
    let purpose = Use::Command(Box::new(start));
    mount::serve(&args.image, &mountpoint, options, purpose)?;
    ended
        .recv()
        .failed("cannot get the exit code of the command")?
        .map(ExitCode::from)
}

/// Returns a directory that has no content.
fn empty_directory() -> Result<PathBuf> {
    let mut directories = MOUNT_POINTS.map(PathBuf::from).into_iter();
    let empty = directories
        .find(|path| fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none()));
    empty.ok_or_else(|| {
        Failure::with_hint(
            format!(
                "none of the directories {} is empty",
                MOUNT_POINTS.join(", ")
            ),
            "name a directory to mount on with --mountpoint DIR",
        )
    })
}

/// Starts a thread that ends this process when the launcher has ended. This is necessary only if the launcher has ended
/// before this process requested a signal for that.
fn follow_launcher(link: Link) -> Result<()> {
    let signals = open_signals(link)?;
    let started = thread::Builder::new().spawn(move || {
        let mut polled = [PollFd::new(&signals, PollFlags::empty())];
        if retry_on_intr(|| poll(&mut polled, None)).is_ok() {
            std::process::exit(FAILED.into());
        }
    });
    started.failed("cannot follow the launcher").map(drop)
}

/// The command, and how it is started.
struct Job {
    link: Link,
    mountpoint: PathBuf,
    place: Place,
    command: Vec<OsString>,
}

impl Job {
    /// Starts the init, unmounts the image when the command has ended, and sends the exit code of the command to `ended`.
    ///
    /// No process of the command is left then, but another process may have received an open file from it, for example.
    /// The mount would end only when that other process closes the file.
    fn run(&self, unmounter: &Unmounter, ended: &Sender<Result<u8>>) {
        let code = self.wait_for_command();
        if let Some(launcher) = getppid() {
            // If the launcher is stopped, it must run to return the exit code.
            let _ = kill_process(launcher, Signal::CONT);
        }
        // This fails in containers without the FUSE control file system.
        let connection = unmounter.connection().ok();
        // The kernel may have data of another process. If they cannot be written, that process gets the error.
        let _ = File::open(&self.mountpoint).map(|root| rustix::fs::syncfs(&root));
        let result = unmounter.unmount().map_err(Failure::from);
        let is_unmounted = result.is_ok();
        if let (Err(failure), None) = (&result, &connection) {
            // Without this exit, the server would wait for the failed unmount.
            failure.print(FAILED);
            std::process::exit(FAILED.into());
        }
        // This is received only after the image is closed.
        let _ = ended.send(result.and(code));
        if is_unmounted {
            thread::sleep(GRACE);
        }
        // When the image is closed, this process ends.
        let is_aborted =
            connection.is_some_and(|connection| connection.abort().is_ok_and(|used| used));
        if is_aborted && is_unmounted {
            print_warning(
                "another process still used the mount after the command had ended, and has lost access to it",
            );
        }
    }

    /// Starts the init, and returns its exit code, which is that of the command. When the init has ended, no process of
    /// the command is left. The kernel kills the init when this thread, which is its parent, ends.
    fn wait_for_command(&self) -> Result<u8> {
        namespaces::prepare_init()?;
        let program = std::env::args_os().next();
        let mut init = Command::new("/proc/self/exe")
            .arg0(program.unwrap_or_else(|| LARDER.into()))
            .arg(format!("{INIT}{}", self.link))
            .arg(&self.mountpoint)
            .args([self.place.as_str(), "--"])
            .args(&self.command)
            .spawn()
            .failed("cannot start the command")?;
        let status = init.wait().failed("cannot wait for the command")?;
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        code.ok_or_else(|| {
            Failure::new(format!(
                "the processes of the command were killed: {status}"
            ))
        })
    }
}
