//! The arguments and the help of `larder export`.

use super::FilesArgs;
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Write files of an image to a tar archive
///
/// The archive contains the files that PATH names, and all files below them: by default, all files of the image. It is
/// written to standard output, unless --output names a file.
///
/// The archive has the format POSIX.1-2001 (pax). It keeps owners as numbers, permissions, times of modification in
/// nanoseconds, symbolic and hard links, device files, FIFOs, holes, extended attributes and access control lists. Other
/// times are not stored. Sockets are left out, with a warning.
///
/// Names have no slash at the beginning: etc/passwd, not /etc/passwd. The root directory has the name ./ in the archive.
/// The names in each directory are sorted, so the same files always give the same archive.
///
/// If a file cannot be read, the command continues with the other files. If only parts of its content cannot be read, these
/// parts are zeros in the archive.
#[derive(Debug, Args)]
#[command(
    mut_arg("paths", |arg| arg.help("Paths or patterns inside the image [default: /]")),
    override_usage = "larder export [OPTIONS] <IMAGE> [PATH]...\n       \
                      larder export [OPTIONS] <IMAGE>:/<PATH>...",
    after_help = "\
Examples:
  larder export disk.img > disk.tar
  larder export disk.img:/etc --output etc.tar
  larder export disk.img:/home | tar -tv
  larder export disk.img | zstd > disk.tar.zst
  larder export disk.img | podman import - disk

To extract all that the archive keeps, run GNU tar as root with these options:
  tar -xp --numeric-owner --acls --xattrs --xattrs-include='*' -f disk.tar"
)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub files: FilesArgs,
    /// Write the archive to FILE (-: standard output)
    ///
    /// The archive has a temporary name until it is complete, and then replaces an existing FILE. After SIGKILL, it is left
    /// as .larder-export-*, and can be removed.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}
