//! The command `larder mount`: mounts an image, and serves the mount until it is unmounted.

use crate::args::MountArgs;
use crate::background::{self, Detach};
use crate::mount_options::Options;
use crate::opening::{self, Source};
use crate::recording::Recording;
use crate::reporting_clock::ReportingClock;
use crate::{metrics, remote, signals};
use larder_console::{Failure, Result, logging, print_note};
use larder_fuse::{Server, Unmounted, Unmounter, check_mount};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

pub(crate) fn run(args: &MountArgs) -> Result<ExitCode> {
    let options = Options::of(args)?;
    if args.foreground {
        logging::start(args.log.as_deref())?;
        serve(&args.image, &args.mountpoint, options, Use::Foreground)?;
        return Ok(ExitCode::SUCCESS);
    }
    let log = args.log.as_deref();
    run_in_background(&args.image, &args.mountpoint, options, log).map(ExitCode::from)
}

/// Starts this command again as a child process that mounts the image in the background. Returns the exit
/// code when the child serves requests or has failed. When this function is called in the child, it
/// mounts, and returns after the unmount.
pub(crate) fn run_in_background(
    image: &Path,
    mountpoint: &Path,
    options: Options,
    log: Option<&Path>,
) -> Result<u8> {
    if background::is_child() {
        background::set_process_name("");
        logging::start(log)?;
        serve(image, mountpoint, options, Use::Background)?;
        return Ok(0);
    }
    background::run_child()
        .map_err(|error| Failure::new(format!("cannot start the server: {error}")))
}

/// What a mount is used for.
pub(super) enum Use {
    /// For all programs, with the server in the foreground.
    Foreground,
    /// For all programs, with the server in the background.
    Background,
    /// For a command, which this function starts when the image is mounted. Signals do not unmount the image.
    Command(Box<dyn FnOnce(Unmounter) -> io::Result<()>>),
}

/// Mounts an image, and serves it until it is unmounted.
pub(super) fn serve(
    image: &Path,
    mountpoint: &Path,
    mut options: Options,
    purpose: Use,
) -> Result<()> {
    if remote::is_remote(image) {
        options.set_remote_defaults();
    }
    let record = options.record_request();
    let Options {
        mut volume,
        mut mount,
        metrics,
        access,
        partition,
        format,
        overlay,
        remote,
        ..
    } = options;
    let source = Source {
        image,
        partition,
        format,
        overlay: overlay.as_deref(),
        ignores_lock: false,
        remote: &remote,
    };
    if mount.fs_name.is_empty() {
        mount.fs_name = fs::canonicalize(image)
            .unwrap_or_else(|_| image.to_owned())
            .into_os_string();
    }
    let detach = matches!(purpose, Use::Background)
        .then(Detach::prepare)
        .transpose()?;
    // Opening for writing changes the image, so check first whether it can be mounted.
    check_mount(mountpoint, &mount)?;
    let metrics = metrics.map(metrics::bind).transpose()?;
    volume.clock = Arc::new(ReportingClock);
    let recording = record
        .map(|request| Recording::start(&request, image, mountpoint))
        .transpose()?;
    let pending_file = recording.as_ref().map(Recording::pending_file);
    if let Some(recording) = &recording {
        recording.attach(&mut volume);
    }
    let opened = match access {
        Some(_) => opening::open(source, &volume)?,
        None => opening::open_or_fall_back(source, &mut volume)?,
    };
    mount.read_write = volume.read_write;
    let volume = Arc::new(opened);
    if let Some(recording) = &recording {
        recording.describe(&volume.stats());
    }
    // Signals are caught before the mount exists: a signal then unmounts, instead of ending the server
    // and leaving a mount without a server.
    let signals = if matches!(purpose, Use::Command(_)) {
        signals::suppress(&signals::ENDING)?;
        None
    } else {
        Some(Signals::new([SIGINT, SIGTERM, SIGHUP])?)
    };
    let server = Server::mount(volume, mountpoint, &mount)?;
    let (stats, at_end) = (server.statistics(), server.statistics());
    let mounted_at = server.mountpoint().to_owned();
    let unmounter = server.unmounter();
    if let Some(signals) = signals {
        unmount_on_signal(signals, unmounter.clone())?;
    }
    let (mut recording_failure, mut profile_failure) = (None, None);
    let ready = || {
        let exporter = metrics.map(|metrics| metrics.serve(stats)).transpose()?;
        match (purpose, detach) {
            (Use::Command(start), _) => start(unmounter)?,
            (_, Some(detach)) => detach.detach()?,
            _ if io::stderr().is_terminal() => print_note(&format!(
                "mounted on {}; Ctrl-C unmounts",
                mounted_at.display()
            )),
            _ => {}
        }
        if let Some(pending_file) = pending_file {
            pending_file.keep();
        }
        Ok(exporter)
    };
    server.serve(ready, || {
        recording_failure = recording.and_then(|recording| recording.finish(at_end().as_ref()));
        profile_failure = remote::finish_profile().err();
        let profile_failure = profile_failure.as_ref().map(ToString::to_string);
        recording_failure.clone().or(profile_failure)
    })?;
    if let Some(failure) = profile_failure {
        return Err(failure);
    }
    recording_failure.map_or(Ok(()), |why| {
        let hint = "free some space, and record to a new file; larder lab trace info shows the content \
                    of this trace";
        Err(Failure::with_hint(why, hint))
    })
}

/// Starts a thread that unmounts at the first signal. If the mount is in use, the server continues to run until the use
/// ends. A second signal ends the server and the mount at once, even if the mount is in use.
fn unmount_on_signal(mut signals: Signals, unmounter: Unmounter) -> io::Result<()> {
    std::thread::Builder::new()
        .name("larder-signals".to_owned())
        .spawn(move || {
            for (count, _) in signals.forever().enumerate() {
                if count > 0 {
                    std::process::exit(1);
                }
                match unmounter.unmount() {
                    Ok(Unmounted::Now) => {}
                    Ok(_) => tracing::warn!(
                        "the mount is in use: it is detached, and ends when it is no longer in use"
                    ),
                    Err(error) => tracing::error!("{error}"),
                }
            }
        })?;
    Ok(())
}
