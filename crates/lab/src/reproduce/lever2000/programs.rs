//! Files that all users read: programs and libraries.
//!
//! # Model
//! The document's machines filled their page caches: all files that were used since the start of the machine stayed
//! in memory while there was room. The files of the scripts are only a part of them. Here each user starts
//! [`COMMANDS`] commands in addition to its script. A command reads a whole program of [`PAGES`] pages. The users
//! together read all programs, so that all pages stay in use.

use crate::operations::{NEW, Part};
use larder::{Ino, Result, Volume};

/// Number of pages of a program.
pub(super) const PAGES: u32 = 64;

/// Number of commands of a script; a script of [`crate::sdm`] starts about 100 processes.
const COMMANDS: usize = 64;

/// Number of programs in a directory.
const PER_DIRECTORY: u32 = 64;

/// The step from the program of a command to the program of the next command. The step is prime, and greater than
/// the number of programs in a directory.
const STEP: usize = 67;

/// Number of bytes of a read.
const READ_BYTES: usize = 1 << 16;

const PROGRAM_BYTES: u64 = PAGES as u64 * 4096;

/// The inode numbers of the programs.
#[derive(Debug)]
pub(super) struct Programs(Vec<Ino>);

impl Programs {
    /// Creates `count` programs, which contain zeros.
    pub(super) fn make(volume: &Volume, count: u32) -> Result<Self> {
        let content = vec![0; READ_BYTES];
        let mut programs = Vec::new();
        let mut directory = Ino::ROOT;
        for number in 0..count {
            if number % PER_DIRECTORY == 0 {
                let name = format!("bin{}", number / PER_DIRECTORY);
                directory = volume.make_dir(Ino::ROOT, name.as_bytes(), &NEW)?.ino;
            }
            let name = format!("program{number}");
            let program = volume.create(directory, name.as_bytes(), &NEW)?.ino;
            for offset in (0..PROGRAM_BYTES).step_by(READ_BYTES) {
                volume.write_at(program, &content, offset)?;
            }
            programs.push(program);
        }
        Ok(Self(programs))
    }

    /// Returns the inode numbers of the programs, in the order of their creation.
    pub(super) fn inodes(&self) -> &[Ino] {
        &self.0
    }

    /// Executes a part of the commands of `user`. Each command reads one of the first `count` programs.
    pub(super) fn run(&self, volume: &Volume, user: u32, count: u32, part: Part) -> Result<()> {
        let programs = self.0.get(..count as usize).unwrap_or(&self.0);
        let first = user as usize * COMMANDS;
        let mut buffer = vec![0; READ_BYTES];
        for command in part.of(first..first + COMMANDS) {
            let number = command * STEP % programs.len().max(1);
            if let Some(program) = programs.get(number) {
                read(volume, *program, &mut buffer)?;
            }
        }
        Ok(())
    }

    /// Reads programs until at most `buffers` objects are left in the buffer cache, or all programs were read.
    pub(super) fn displace_buffers(&self, volume: &Volume, buffers: u64) -> Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        for program in &self.0 {
            if volume.counts().buffer.objects <= buffers {
                break;
            }
            read(volume, *program, &mut buffer)?;
        }
        Ok(())
    }
}

/// Reads a program.
fn read(volume: &Volume, program: Ino, buffer: &mut [u8]) -> Result<()> {
    for offset in (0..PROGRAM_BYTES).step_by(READ_BYTES) {
        volume.read_at(program, buffer, offset)?;
    }
    Ok(())
}
