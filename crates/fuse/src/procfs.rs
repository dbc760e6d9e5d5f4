//! What /proc shows about the programs that send requests.

use std::fs;

/// Returns whether /proc shows the PID namespace of this process. The thread IDs in requests are those of this
/// namespace.
pub(crate) fn has_own_proc() -> bool {
    let own = std::process::id().to_string();
    fs::read_link("/proc/self").is_ok_and(|target| target.as_os_str() == &*own)
}

/// Returns the ID of the process to which a thread belongs, or `None` if the thread has ended.
pub(crate) fn process_of(thread: u32) -> Option<u32> {
    let status = fs::read(format!("/proc/{thread}/status")).ok()?;
    let mut lines = status.split(|&byte| byte == b'\n');
    let id = lines.find_map(|line| line.strip_prefix(b"Tgid:"))?;
    std::str::from_utf8(id).ok()?.trim().parse().ok()
}

/// Returns the name of the program that a process runs, or `None` if the process has ended. The kernel limits the name
/// to 15 bytes, except for its own threads.
pub(crate) fn program_of(process: u32) -> Option<Vec<u8>> {
    let mut name = fs::read(format!("/proc/{process}/comm")).ok()?;
    name.pop_if(|last| *last == b'\n');
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn thread_belongs_to_its_process() {
        assert!(has_own_proc());
        let own = std::process::id();
        let found = thread::spawn(|| {
            let thread = rustix::thread::gettid().as_raw_nonzero().get();
            let thread = u32::try_from(thread).unwrap();
            (thread, process_of(thread))
        });
        let (thread, process) = found.join().unwrap();
        assert_ne!(thread, own);
        assert_eq!(process, Some(own));
    }

    #[test]
    fn program_has_the_name_of_its_first_thread() {
        let own = std::process::id();
        let mut expected = fs::read("/proc/self/comm").unwrap();
        expected.pop();
        assert_eq!(program_of(own), Some(expected));
        // Larger than every process ID of Linux.
        assert_eq!((process_of(1 << 30), program_of(1 << 30)), (None, None));
    }
}
