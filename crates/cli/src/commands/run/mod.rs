//! The command `larder run`: mounts an image for one command.
//!
//! # Processes
//! Four processes run. Each is the parent of the following one:
//! 1. The launcher ([`launch`]) is the process that the user starts. It passes signals on to the command, and stops
//!    when the command is stopped.
//! 2. The server ([`run`]) mounts the image in namespaces of its own, and serves the mount.
//! 3. The init ([`init()`]) is the first process of a new PID namespace. It starts the command, and waits for it and for
//!    the processes that the command leaves.
//! 4. The command.
//!
//! The first three are larder, which starts itself again. The second argument says which of them a process is
//! ([`Stage`](crate::stage::Stage)). It is not an environment variable, because the command would inherit it.
//!
//! If a process ends, the kernel kills those that follow it:
//! - If the launcher or the server ends in any way, the kernel kills the following process, which has requested this. A
//!   process whose parent has ended before the request finds the end of a pipe ([`pipes`]).
//! - If the init ends in any way, the kernel kills all processes in its PID namespace.
//! - The mount namespaces end with their last process, and the mount with them. It has no mount point elsewhere.
//!
//! Larder itself ends only the server, and only on behalf of the user. Until the command has started, the launcher also
//! sends the server the signals that end processes. After the command has ended, the launcher kills the server at the
//! second Ctrl-C.
//!
//! # Signals and the terminal
//! All four processes are in the process group of the launcher, so the command can use the terminal, and the kernel sends
//! it the signals of the terminal, such as SIGINT for Ctrl-C. The launcher does not pass on signals of the terminal.
//! A signal of a process may have been sent to the launcher alone, so it is passed on. If it was sent to the whole process
//! group, the command gets it twice. The launcher, the server and the init block the signals that stop processes, and the
//! server suppresses those that end processes. The init needs no handlers: the kernel never lets a signal from the terminal
//! end or stop the first process of a PID namespace.
//!
//! # Stop and continue
//! When the command is stopped, the launcher stops itself, so that the user's shell continues. The init, as the parent of
//! the command, is notified of the stop, and writes a note for the launcher. But SIGCONT may continue the process group
//! before the launcher reads the note. If the launcher stopped itself then, the job would be stopped again. Therefore, the
//! launcher does not act on the note alone:
//! 1. It sends itself SIGTSTP, which is blocked, and thus pending.
//! 2. It queries the init, which reads the present state of the command.
//! 3. If the command is stopped, the launcher unblocks SIGTSTP, and stops.
//!
//! When a process gets SIGCONT, the kernel discards a pending SIGTSTP. So a SIGCONT after step 1 prevents the stop, or ends
//! it. If the process group gets SIGCONT before step 1, the answer in step 2 is that the command runs: the kernel sends a
//! signal to the youngest process of the group first, and the launcher is the oldest one.
//!
//! The launcher passes SIGCONT on, because the command may not get it: if the command is a shell with job control, it has a
//! process group of its own. The init sends SIGCONT only if it belongs to the current stop. The whole group may have been
//! continued, and the command stopped again by the next Ctrl-Z, before the init reads the request.

mod failed;
mod init;
mod launcher;
mod namespaces;
mod pipes;
mod root;
mod server;
mod terminal;

pub(crate) use init::run as init;
pub(crate) use launcher::launch;
pub(super) use server::run;
